#include "report/events_writer.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <iterator>

#include "base/text.h"
#include "kernel/arch.h"
#include "kernel/syscall_table.h"
#include "report/call_text.h"
#include "report/denial_text.h"

namespace srun::report {
namespace {

// Readers that keep numbers in doubles (JavaScript, jq) are exact up to here.
constexpr uint64_t kExactInteger = uint64_t{1} << 53;

template <typename... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

void append_key(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

// ,"key":"value" and, where the value is not UTF-8, ,"key_hex":"…" with its exact bytes.
void append_text(std::string& out, std::string_view key, std::string_view value) {
  append_key(out, key);
  if (append_json_string(out, value)) return;
  append_key(out, std::string(key) + "_hex");
  out += '"';
  append_hex(out, value);
  out += '"';
}

// The same for a list; "key_hex" is a list of the same length.
void append_texts(std::string& out, std::string_view key, const std::vector<std::string>& values) {
  append_key(out, key);
  bool exact = true;
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    exact &= append_json_string(out, values[i]);
  }
  out += ']';
  if (exact) return;
  append_key(out, std::string(key) + "_hex");
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    out += i == 0 ? "\"" : ",\"";
    append_hex(out, values[i]);
    out += '"';
  }
  out += ']';
}

std::string_view verdict_word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDenied:
      return "denied";
    case Outcome::kReturned:
      return "returned";
    case Outcome::kLogged:
      return "logged";
    case Outcome::kKilled:
      return "killed";
    case Outcome::kAudited:
      return "audited";
  }
  return "denied";
}

std::string arch_word(uint32_t audit_arch, uint32_t nr) {
  const std::optional<kernel::Arch> arch = kernel::arch_from_audit(audit_arch);
  if (!arch) return fmt::format("{:#x}", audit_arch);
  if (*arch == kernel::Arch::kX86_64 && (nr & kernel::kX32Bit) != 0) return "x32";
  return std::string(kernel::arch_name(*arch));
}

void append_answer(std::string& out, const policy::Verdict* verdict, const Event& event) {
  int error_number = event.outcome == Outcome::kDenied ? event.answer : 0;
  if (event.outcome == Outcome::kAudited)
    error_number = verdict != nullptr && verdict->audited == policy::Action::kErrno && verdict->value > 0
                       ? verdict->value
                       : event.answer;
  if (error_number > 0) append_text(out, "errno", errno_name(error_number));
  if (event.outcome == Outcome::kReturned) append(out, ",\"value\":{}", event.answer);
}

void append_rule(std::string& out, const policy::Verdict* verdict) {
  append_key(out, "rule");
  if (verdict == nullptr) {
    out += "null";
    return;
  }
  const policy::RuleRef& rule = verdict->rule;
  append(out, "{{\"layer\":{}", rule.layer);
  append_text(out, "file", rule.file);
  append(out, ",\"line\":{}", rule.line);
  append_text(out, "pointer", rule.pointer);
  append_text(out, "reason", rule.reason);
  append(out, ",\"default\":{}}}", rule.is_default || rule.newer_than_table);
}

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

std::string rfc3339(uint64_t time_ns) {
  const auto seconds = static_cast<time_t>(time_ns / 1'000'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time_ns % 1'000'000'000);
}

void append_event_record(std::string& out, const policy::Enforcement& enforcement, const Event& event) {
  const policy::Verdict* verdict = verdict_of(enforcement, event);
  out += "{\"type\":\"decision\"";
  append_text(out, "time", rfc3339(event.time_ns));
  if (event.tgid != 0)
    append(out, ",\"pid\":{}", event.tgid);
  else
    out += ",\"pid\":null";
  append(out, ",\"tid\":{}", event.tid);
  append_text(out, "comm", comm_of(event));
  append_text(out, "arch", arch_word(event.audit_arch, event.nr));
  const std::optional<kernel::Arch> arch = kernel::arch_from_audit(event.audit_arch);
  const bool x32 = arch == kernel::Arch::kX86_64 && (event.nr & kernel::kX32Bit) != 0;
  append(out, ",\"nr\":{}", event.nr);
  const kernel::Syscall* call =
      arch ? kernel::find_syscall(*arch, x32 ? event.nr & ~kernel::kX32Bit : event.nr) : nullptr;
  append_key(out, "syscall");
  if (call != nullptr)
    append_json_string(out, call->name);
  else
    out += "null";
  out += ",\"args\":[";
  for (size_t i = 0; i < std::size(event.args); ++i) {
    if (i != 0) out += ',';
    if (event.args[i] <= kExactInteger)
      append(out, "{}", event.args[i]);
    else
      append(out, "\"{:#x}\"", event.args[i]);
  }
  out += ']';
  append_text(out, "text", act_text(event));
  append_text(out, "verdict", verdict_word(event.outcome));
  append_answer(out, verdict, event);
  append(out, ",\"repeats\":{}", event.repeats);
  append_rule(out, verdict);
  out += "}\n";
}

EventsWriter::EventsWriter(const policy::Enforcement& enforcement, UniqueFd fd)
    : enforcement_(enforcement), sink_(std::move(fd), OutputSink::Batching::kBlocks) {}

void EventsWriter::begin(const std::string& version, const std::vector<std::string>& argv) {
  utsname system{};
  uname(&system);  // fails only for a bad address; the field would then be empty
  std::string line = "{\"type\":\"run\"";
  append_text(line, "time", rfc3339(now_ns()));
  append_text(line, "version", version);
  append_text(line, "kernel", std::string(system.sysname) + " " + system.release + " " + system.machine);
  append(line, ",\"pid\":{}", getpid());
  append_texts(line, "argv", argv);
  line += ",\"policies\":[";
  for (size_t i = 0; i < enforcement_.layers.size(); ++i) {
    append(line, "{}{{\"layer\":{}", i == 0 ? "" : ",", i);
    append_text(line, "name", enforcement_.layers[i].name);
    append_text(line, "description", enforcement_.layers[i].description);
    line += '}';
  }
  append(line, "],\"audit\":{}}}\n", enforcement_.audit);
  sink_.add(line);
  sink_.flush();
}

void EventsWriter::add(const Event& event) {
  line_.clear();
  append_event_record(line_, enforcement_, event);
  sink_.add(line_);
  if (sink_.queued_bytes() >= kFlushBytes) sink_.flush();
}

void EventsWriter::finish(const DecisionCounts& counts, uint64_t lost, const RunResult& result) {
  sink_.flush();
  std::string line = "{\"type\":\"summary\"";
  append_text(line, "time", rfc3339(now_ns()));
  append(line, ",\"decisions\":{{\"denied\":{},\"returned\":{},\"logged\":{},\"killed\":{},\"audited\":{}}}",
         counts.denied, counts.returned, counts.logged, counts.killed, counts.audited);
  append(line, ",\"lost\":{},\"unwritten\":{}", lost, sink_.lost_lines());
  append(line, ",\"exit\":{{\"status\":{}", result.status);
  if (result.wait_status && WIFEXITED(*result.wait_status))
    append(line, ",\"exited\":{}", WEXITSTATUS(*result.wait_status));
  if (result.wait_status && WIFSIGNALED(*result.wait_status))
    append(line, ",\"signal\":{}", WTERMSIG(*result.wait_status));
  append(line, ",\"killed_by_policy\":{}}}}}\n", result.killed_by_policy);
  sink_.add_last(line);
  sink_.finish(kPatience);
}

}  // namespace srun::report
