#include "trace/printer.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "kernel/sys.h"

namespace srun::trace {
namespace {

struct Restart {
  int number;
  std::string_view text;
};
// include/linux/errno.h: what only tracers see (R9).
constexpr Restart kRestarts[] = {
    {512, "ERESTARTSYS (To be restarted if SA_RESTART is set)"},
    {513, "ERESTARTNOINTR (To be restarted)"},
    {514, "ERESTARTNOHAND (To be restarted if no handler)"},
    {516, "ERESTART_RESTARTBLOCK (Interrupted by signal)"},
};

}  // namespace

void Printer::begin_line(Task& task, Stream& stream) {
  text_.clear();
  stream.column = 0;
  if (!options_.separate) {
    if (to_file_ && (options_.follow || options_.attach.size() > 1 || options_.always_pid)) {
      put_decimal(text_, task.tid);
      while (text_.size() < 5) text_ += ' ';
      text_ += ' ';
    } else if (!to_file_ && (many_ || options_.always_pid)) {
      text_ += "[pid ";
      const size_t start = text_.size();
      put_decimal(text_, task.tid);
      while (text_.size() - start < 5) text_.insert(start, " ");
      text_ += "] ";
    }
  }
  if (options_.wall != WallTime::kNone) {
    const uint64_t now = kernel::realtime_ns();
    if (options_.wall == WallTime::kEpoch) {
      put_unsigned(text_, now / 1000000000);
    } else {
      struct tm parts {};
      const auto seconds = static_cast<time_t>(now / 1000000000);
      localtime_r(&seconds, &parts);
      put_padded(text_, static_cast<uint64_t>(parts.tm_hour), 2);
      text_ += ':';
      put_padded(text_, static_cast<uint64_t>(parts.tm_min), 2);
      text_ += ':';
      put_padded(text_, static_cast<uint64_t>(parts.tm_sec), 2);
    }
    if (options_.wall != WallTime::kSeconds) {
      text_ += '.';
      put_padded(text_, now % 1000000000 / 1000, 6);
    }
    text_ += ' ';
  }
  if (options_.relative) {
    const uint64_t now = kernel::monotonic_ns();
    const uint64_t passed = last_ns_ == 0 ? 0 : now - last_ns_;
    last_ns_ = now;
    if (options_.wall != WallTime::kNone) text_ += "(+ ";
    const size_t start = text_.size();
    put_unsigned(text_, passed / 1000000000);
    while (text_.size() - start < 6) text_.insert(start, " ");
    text_ += '.';
    put_padded(text_, passed % 1000000000 / 1000, 6);
    text_ += options_.wall != WallTime::kNone ? ") " : " ";
  }
  if (options_.numbers) {
    if (task.in_call) {
      std::string digits;
      put_decimal(digits, static_cast<int64_t>(task.call.number));
      text_ += '[';
      for (size_t i = digits.size(); i < 4; ++i) text_ += ' ';
      text_ += digits;
      text_ += "] ";
    } else {
      text_ += "[????] ";
    }
  }
  if (options_.instruction_pointer) {
    text_ += '[';
    put_hex_digits(text_, task.call.instruction_pointer, 16);
    text_ += "] ";
  }
}

void Printer::flush_text(Stream& stream) {
  stream.column += text_.size();
  stream.sink->append(text_);
  text_.clear();
}

void Printer::finish_line(Stream& stream) {
  text_ += '\n';
  stream.sink->append(text_);
  text_.clear();
  stream.column = 0;
  stream.open = 0;
}

// R29: somebody else prints, the open line is cut.
void Printer::close_open(Stream& stream) {
  if (stream.open == 0) return;
  stream.sink->append(" <unfinished ...>\n");
  stream.open = 0;
  stream.column = 0;
}

void Printer::put_name(Task& task) {
  if (task.call.row != nullptr) {
    text_ += task.call.row->name;
  } else {
    text_ += "syscall_";
    put_hex(text_, task.call.number);
  }
}

void Printer::entered(Task& task) {
  task.separated = false;
  task.printed = 0;
  if (!task.shown || options_.json || options_.summary_only) return;
  task.deferred = options_.statuses != kAllStatuses || !options_.errnos.empty();
  if (task.deferred) return;
  Stream& stream = *task.stream;
  close_open(stream);
  begin_line(task, stream);
  put_name(task);
  text_ += '(';
  text_ += task.line.text;
  if (task.line.more_follows && task.line.count != 0) text_ += ", ";
  task.separated = task.line.more_follows && task.line.count != 0;
  task.printed = task.line.text.size();
  flush_text(stream);
  stream.open = task.tid;
}

bool Printer::wanted(const Task& task) const {
  const Call& call = task.call;
  if (options_.statuses != kAllStatuses && (options_.statuses & (call.failed ? kFailed : kSuccessful)) == 0)
    return false;
  if (!options_.errnos.empty()) {
    if (!call.failed) return false;
    return std::find(options_.errnos.begin(), options_.errnos.end(), static_cast<int>(-call.result)) !=
           options_.errnos.end();
  }
  return true;
}

void Printer::put_result(Task& task, Stream& stream) {
  const Call& call = task.call;
  const Line& line = task.line;
  text_ += ')';
  const size_t width = stream.column + text_.size();
  text_.append(width < options_.column ? options_.column - width : 1, ' ');
  text_ += "= ";
  if (call.failed) {
    const auto number = static_cast<int>(-call.result);
    const auto restart = std::find_if(std::begin(kRestarts), std::end(kRestarts),
                                      [&](const Restart& row) { return row.number == number; });
    if (restart != std::end(kRestarts)) {
      text_ += "? ";
      text_ += restart->text;
    } else if (const std::string_view name = errno_symbol(number); !name.empty()) {
      text_ += "-1 ";
      text_ += name;
      text_ += " (";
      text_ += ::strerror(number);
      text_ += ')';
    } else {
      text_ += "-1 (errno ";
      put_decimal(text_, number);
      text_ += ')';
    }
  } else if (!line.result_text.empty()) {
    text_ += line.result_text;
  } else if (line.hex_result) {
    put_hex(text_, static_cast<uint64_t>(call.result));
  } else if (line.octal_result) {
    put_mode(text_, static_cast<uint64_t>(call.result));
  } else if (line.fd_result) {
    decoder_.put_fd(text_, task.tid, static_cast<int>(call.result));
  } else {
    put_decimal(text_, call.result);
  }
  if (!line.remark.empty()) {
    text_ += " (";
    text_ += line.remark;
    text_ += ')';
  }
  text_ += task.injected;
  if (options_.durations) {
    const uint64_t spent = kernel::monotonic_ns() - task.entered_ns;
    text_ += " <";
    put_unsigned(text_, spent / 1000000000);
    text_ += '.';
    put_padded(text_, spent % 1000000000 / 1000, 6);
    text_ += '>';
  }
}

void Printer::left(Task& task) {
  if (!task.shown || options_.summary_only) return;
  if (!wanted(task)) return;
  if (options_.json) return json_call(task, true);
  Stream& stream = *task.stream;
  if (stream.open != task.tid) {
    close_open(stream);
    begin_line(task, stream);
    if (task.deferred) {
      put_name(task);
      text_ += '(';
    } else {
      text_ += "<... ";
      put_name(task);
      text_ += " resumed>";
    }
  } else {
    text_.clear();
  }
  std::string_view rest = std::string_view(task.line.text).substr(task.printed);
  // The separator is already out if the entry said that more comes.
  if (task.separated && rest.starts_with(", ")) rest.remove_prefix(2);
  text_ += rest;
  put_result(task, stream);
  finish_line(stream);
}

void Printer::signal(Task& task, int number, const void* siginfo) {
  if ((options_.signals >> (number - 1) & 1) == 0 || options_.summary_only) return;
  if (options_.json) {
    std::string fields = ",\"signal\":\"";
    put_signal(fields, static_cast<uint32_t>(number));
    fields += "\",\"number\":";
    put_decimal(fields, number);
    if (siginfo != nullptr) {
      std::string info;
      put_siginfo(info, siginfo, false);
      fields += ",\"text\":";
      append_json_string(fields, info);
    }
    return json_line(task, "signal", fields);
  }
  Stream& stream = *task.stream;
  close_open(stream);
  begin_line(task, stream);
  text_ += "--- ";
  put_signal(text_, static_cast<uint32_t>(number));
  if (siginfo != nullptr) {
    text_ += ' ';
    put_siginfo(text_, siginfo, false);
  }
  text_ += " ---";
  finish_line(stream);
}

void Printer::stopped(Task& task, int number) {
  if (options_.summary_only || (options_.signals >> (number - 1) & 1) == 0) return;
  if (options_.json) {
    std::string fields = ",\"signal\":\"";
    put_signal(fields, static_cast<uint32_t>(number));
    fields += '"';
    return json_line(task, "stopped", fields);
  }
  Stream& stream = *task.stream;
  close_open(stream);
  begin_line(task, stream);
  text_ += "--- stopped by ";
  put_signal(text_, static_cast<uint32_t>(number));
  text_ += " ---";
  finish_line(stream);
}

void Printer::ended(Task& task, int status) {
  if (options_.summary_only) return;
  Stream& stream = *task.stream;
  if (task.in_call && task.shown &&
      (!task.deferred || ((options_.statuses & kUnfinished) != 0 && options_.errnos.empty()))) {
    if (options_.json) {
      json_call(task, false);
    } else {
      if (stream.open != task.tid) {
        close_open(stream);
        begin_line(task, stream);
        text_ += task.deferred ? "" : "<... ";
        put_name(task);
        text_ += task.deferred ? "(" : " resumed>";
        if (task.line.more_follows) text_ += " <unfinished ...>";
      } else {
        text_.clear();
        if (task.line.more_follows) text_ += " <unfinished ...>";
      }
      text_ += ')';
      const size_t width = stream.column + text_.size();
      text_.append(width < options_.column ? options_.column - width : 1, ' ');
      text_ += "= ?";
      finish_line(stream);
    }
  }
  if (options_.quiet >= 2 && WIFEXITED(status)) return;
  if (options_.json) {
    std::string fields;
    if (WIFEXITED(status)) {
      fields = ",\"status\":" + std::to_string(WEXITSTATUS(status));
    } else {
      fields = ",\"signal\":\"";
      put_signal(fields, static_cast<uint32_t>(WTERMSIG(status)));
      fields += WCOREDUMP(status) ? "\",\"core\":true" : "\",\"core\":false";
    }
    return json_line(task, WIFEXITED(status) ? "exit" : "killed", fields);
  }
  close_open(stream);
  task.in_call = false;
  begin_line(task, stream);
  if (WIFEXITED(status)) {
    text_ += "+++ exited with ";
    put_decimal(text_, WEXITSTATUS(status));
    text_ += " +++";
  } else {
    text_ += "+++ killed by ";
    put_signal(text_, static_cast<uint32_t>(WTERMSIG(status)));
    text_ += WCOREDUMP(status) ? " (core dumped) +++" : " +++";
  }
  finish_line(stream);
}

void Printer::superseded(Task& task, pid_t old_tid) {
  if (options_.summary_only) return;
  if (options_.json) return json_line(task, "superseded", ",\"by\":" + std::to_string(old_tid));
  Stream& stream = *task.stream;
  if (task.in_call && task.shown && !task.deferred) {
    if (stream.open != task.tid) {
      close_open(stream);
      begin_line(task, stream);
      text_ += "<... ";
      put_name(task);
      text_ += " resumed>";
    } else {
      text_.clear();
    }
    if (task.line.more_follows) text_ += " <unfinished ...>";
    text_ += ')';
    const size_t width = stream.column + text_.size();
    text_.append(width < options_.column ? options_.column - width : 1, ' ');
    text_ += "= ?";
    finish_line(stream);
  }
  close_open(stream);
  begin_line(task, stream);
  text_ += "+++ superseded by execve in pid ";
  put_decimal(text_, old_tid);
  text_ += " +++";
  finish_line(stream);
}

void Printer::detached(Task& task) {
  if (options_.summary_only || options_.json) return;
  Stream& stream = *task.stream;
  if (!task.in_call || !task.shown || task.deferred) {
    if (task.in_call || options_.calls.is_all()) return;
    return;
  }
  text_.clear();
  if (stream.open != task.tid) {
    close_open(stream);
    begin_line(task, stream);
    text_ += "<... ";
    put_name(task);
    text_ += " resumed>";
  }
  text_ += " <detached ...>";
  finish_line(stream);
}

void Printer::pid_changed(Task& task, pid_t to) {
  if (options_.summary_only || options_.json || task.stream->open != task.tid) return;
  text_.clear();
  text_ += " <pid changed to ";
  put_decimal(text_, to);
  text_ += " ...>";
  finish_line(*task.stream);
}

void Printer::json_line(Task& task, std::string_view event, std::string_view fields) {
  text_.clear();
  text_ += "{\"event\":\"";
  text_ += event;
  text_ += "\",\"ns\":";
  put_unsigned(text_, kernel::realtime_ns());
  text_ += ",\"tid\":";
  put_decimal(text_, task.tid);
  text_ += fields;
  text_ += "}\n";
  task.stream->sink->append(text_);
}

// Numbers and names of every argument: "args" has the text of each as the text format shows it, with the register it
// comes from. name + "(" + join(", ", args) + ")" + result text is the text line, which the tests check.
void Printer::json_call(Task& task, bool finished) {
  const Call& call = task.call;
  const Line& line = task.line;
  std::string fields = ",\"call\":\"";
  text_.clear();
  put_name(task);
  fields += text_;
  fields += "\",\"number\":";
  put_unsigned(fields, call.number);
  fields += ",\"args\":[";
  for (size_t i = 0; i < line.count; ++i) {
    if (i != 0) fields += ',';
    fields += "{\"text\":";
    append_json_string(fields, std::string_view(line.text).substr(line.starts[i], line.ends[i] - line.starts[i]));
    if (line.registers[i] >= 0) {
      fields += ",\"value\":";
      put_unsigned(fields, call.args[static_cast<size_t>(line.registers[i])]);
    }
    fields += '}';
  }
  fields += ']';
  if (finished) {
    // The result's text is what put_result() writes behind "= ".
    Stream scratch{nullptr};
    text_.clear();
    put_result(task, scratch);
    const std::string_view text = std::string_view(text_).substr(text_.find("= ") + 2);
    std::string result(text);
    fields += ",\"result\":";
    put_decimal(fields, call.failed ? -1 : call.result);
    if (call.failed) {
      fields += ",\"errno\":";
      put_decimal(fields, -call.result);
    }
    fields += ",\"result_text\":";
    append_json_string(fields, result);
    fields += ",\"duration_ns\":";
    put_unsigned(fields, kernel::monotonic_ns() - task.entered_ns);
  } else {
    fields += ",\"unfinished\":true";
  }
  json_line(task, "call", fields);
}

}  // namespace srun::trace
