#include "trace/filter.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/scope_exit.h"
#include "kernel/constants.h"

namespace srun::trace {
namespace {

struct Class {
  std::string_view name;
  std::string_view calls;
};
constexpr Class kClasses[] = {
#define SRUN_CLASS(name, calls) {name, calls},
#include "trace/classes.def"
#undef SRUN_CLASS
};

template <typename Each>
bool split(std::string_view text, char separator, Each each) {
  while (true) {
    const size_t at = text.find(separator);
    if (!each(text.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    text.remove_prefix(at + 1);
  }
}

tl::unexpected<Error> invalid(std::string_view what, std::string_view subject) {
  return failure(Error{0, std::string("invalid ") + std::string(what) + " '" + std::string(subject) + "'", {}, {}});
}

const Class* find_class(std::string_view name) {
  for (const Class& entry : kClasses)
    if (entry.name == name) return &entry;
  return nullptr;
}

bool contains(std::string_view list, std::string_view name) {
  bool found = false;
  split(list, '|', [&](std::string_view item) {
    found = item == name;
    return !found;
  });
  return found;
}

}  // namespace

CallSet CallSet::all() {
  CallSet set;
  for (const kernel::Syscall& row : kernel::syscalls()) set.add(row);
  set.unknown_ = true;
  return set;
}

Result<CallSet> CallSet::parse(std::string_view expression) {
  const std::string_view whole = expression;
  bool complement = false;
  while (expression.starts_with('!')) {
    complement = !complement;
    expression.remove_prefix(1);
  }
  CallSet set;
  Error error;
  bool failed = false;
  const auto fail = [&](std::string_view subject) {
    error = Error{0, "invalid system call '" + std::string(subject) + "'", {}, {}};
    failed = true;
    return false;
  };
  const auto item = [&](std::string_view name) {
    const bool optional = name.starts_with('?');
    if (optional) name.remove_prefix(1);
    if (name.empty()) return fail(whole);
    if (name == "all") {
      set = all();
      return true;
    }
    if (name == "none") return true;
    if (name.starts_with('/')) {
      regex_t regex;
      const std::string pattern(name.substr(1));
      if (regcomp(&regex, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return fail(name);
      const ScopeExit release([&] { regfree(&regex); });
      bool any = false;
      for (const kernel::Syscall& row : kernel::syscalls())
        if (regexec(&regex, std::string(row.name).c_str(), 0, nullptr, 0) == 0) {
          set.add(row);
          any = true;
        }
      return any || optional || fail(name);
    }
    if (name.starts_with('@')) {
      const auto group = kernel::find_group(name);
      if (!group) return optional || fail(name);
      for (const kernel::Syscall& row : kernel::syscalls())
        if (kernel::in_group(row, *group)) set.add(row);
      return true;
    }
    const bool percent = name.starts_with('%');
    if (const Class* const entry = find_class(percent ? name.substr(1) : name);
        entry != nullptr && (percent || kernel::find_syscall(name) == nullptr)) {
      for (const kernel::Syscall& row : kernel::syscalls())
        if (contains(entry->calls, row.name)) set.add(row);
      return true;
    }
    if (percent) return optional || fail(name);
    if (name.find_first_not_of("0123456789") == std::string_view::npos) {
      uint32_t number = 0;
      std::from_chars(name.data(), name.data() + name.size(), number);
      const kernel::Syscall* const row = kernel::find_syscall(kernel::kNativeArch, number);
      if (row == nullptr) return optional || fail(name);
      set.add(*row);
      return true;
    }
    const kernel::Syscall* const row = kernel::find_syscall(name);
    if (row == nullptr) return optional || fail(name);
    set.add(*row);
    return true;
  };
  // A regular expression may contain commas only if it is alone; strace splits there as well.
  split(expression, ',', item);
  if (failed) return failure(std::move(error));
  if (complement) {
    const CallSet everything = all();
    set.rows_ = ~set.rows_ & everything.rows_;
    set.unknown_ = !set.unknown_;
  }
  return set;
}

Result<int> parse_signal(std::string_view text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (number >= 1 && number <= 64) return number;
    return invalid("signal", text);
  }
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (!name.starts_with("SIG")) name = "SIG" + name;
  if (const auto number = kernel::find_signal(name)) return *number;
  if (name.starts_with("SIGRT_")) {
    int number = 0;
    std::from_chars(name.data() + 6, name.data() + name.size(), number);
    if (number >= 1 && number <= 32) return 32 + number;
  }
  return invalid("signal", text);
}

Result<uint64_t> parse_signal_set(std::string_view expression) {
  bool complement = false;
  while (expression.starts_with('!')) {
    complement = !complement;
    expression.remove_prefix(1);
  }
  uint64_t set = 0;
  Result<uint64_t> result = 0;
  split(expression, ',', [&](std::string_view name) {
    if (name == "all") {
      set = UINT64_MAX;
      return true;
    }
    if (name == "none") return true;
    const Result<int> number = parse_signal(name);
    if (!number) {
      result = failure(number.error());
      return false;
    }
    set |= uint64_t{1} << (*number - 1);
    return true;
  });
  if (!result) return result;
  return complement ? ~set : set;
}

Result<uint8_t> parse_status_set(std::string_view expression) {
  bool complement = false;
  while (expression.starts_with('!')) {
    complement = !complement;
    expression.remove_prefix(1);
  }
  static constexpr std::string_view kNames[] = {"successful", "failed", "unfinished", "unavailable", "detached"};
  uint8_t set = 0;
  std::string wrong;
  split(expression, ',', [&](std::string_view name) {
    if (name == "all") {
      set = kAllStatuses;
      return true;
    }
    if (name == "none") return true;
    for (size_t i = 0; i < std::size(kNames); ++i)
      if (name == kNames[i]) {
        set = static_cast<uint8_t>(set | 1u << i);
        return true;
      }
    wrong = name;
    return false;
  });
  if (!wrong.empty()) return invalid("status", wrong);
  return static_cast<uint8_t>(complement ? ~set & kAllStatuses : set);
}

}  // namespace srun::trace
