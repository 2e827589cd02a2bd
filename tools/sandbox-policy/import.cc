// OCI profile → our language. Works on what parse_oci has made of the profile: first-match lists for each call, for
// this run's capabilities, processor and kernel. What our language cannot say comes out stricter and is listed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "base/text.h"
#include "base/unique_fd.h"
#include "bpf/instruction.h"
#include "kernel/syscall_table.h"
#include "policy/guard.h"
#include "policy/oci.h"
#include "policy/parser.h"
#include "policy/policy_paths.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {
namespace {

using policy::OciCallRules;
using policy::OciProfile;

// One condition in our language.
struct When {
  unsigned arg = 0;
  std::string op;
  std::string mask;  // "masked" only
  std::vector<std::string> values;
};
using Conditions = std::vector<When>;

// The argument as the kernel reads it.
struct Width {
  uint64_t significant = 0;  // all ones in the bits that count
  bool is_signed = false;

  uint64_t sign_bit() const { return (significant >> 1) + 1; }
  bool fits(uint64_t value) const { return (value & ~significant) == 0; }
  // Sign-extended to 64 bits, as a caller may well pass it.
  bool extended(uint64_t value) const {
    return is_signed && (value & sign_bit()) != 0 && (value & ~significant) == ~significant;
  }
  std::string text(uint64_t value) const {
    const uint64_t cut = value & significant;
    if (is_signed && (cut & sign_bit()) != 0) return std::to_string(static_cast<int64_t>(cut | ~significant));
    return std::to_string(cut);
  }
};

Width width_of(const kernel::Syscall& call, unsigned arg) {
  const kernel::ArgSpec spec = call.args[arg];
  return {kernel::significant_bits(spec), spec.width == kernel::Width::kS32 || spec.width == kernel::Width::kS64};
}

// Values from `first` to `last` as an unsigned number of that width; in a signed one the order is another.
std::vector<Conditions> range(unsigned arg, const Width& width, uint64_t first, uint64_t last) {
  const auto between = [&](uint64_t low, uint64_t high, uint64_t lowest, uint64_t highest) {
    Conditions both;
    if (low != lowest) both.push_back({arg, ">=", {}, {width.text(low)}});
    if (high != highest) both.push_back({arg, "<=", {}, {width.text(high)}});
    return both;
  };
  if (!width.is_signed) return {between(first, last, 0, width.significant)};
  const uint64_t most_positive = width.sign_bit() - 1;
  std::vector<Conditions> result;
  // The language's order runs from sign_bit() (the most negative number) over -1 and 0 to most_positive.
  if (first <= most_positive)
    result.push_back(between(first, std::min(last, most_positive), width.sign_bit(), most_positive));
  if (last > most_positive) {
    const uint64_t low = std::max(first, width.sign_bit());
    result.push_back(between(low, last, width.sign_bit(), most_positive));
  }
  if (result.size() == 2 && first == 0 && last == width.significant) return {{}};
  return result;
}

// One test as alternatives of conditions; none: it never holds.
std::vector<Conditions> convert(const kernel::Syscall& call, const bpf::ArgTest& test) {
  const Width width = width_of(call, test.arg);
  const uint64_t max = width.significant;
  const auto value = test.values.empty() ? 0 : test.values[0];
  std::vector<std::string> known;
  for (const uint64_t each : test.values)
    if (width.fits(each) || width.extended(each)) known.push_back(width.text(each));
  switch (test.op) {
    case bpf::CompareOp::kEqual:
    case bpf::CompareOp::kIn:
      if (known.empty()) return {};
      return {{{test.arg, known.size() == 1 ? "==" : "in", {}, known}}};
    case bpf::CompareOp::kNotEqual:
    case bpf::CompareOp::kNotIn:
      if (known.empty()) return {{}};
      return {{{test.arg, known.size() == 1 ? "!=" : "not-in", {}, known}}};
    case bpf::CompareOp::kGreaterEqual:
      if (value > max) return {};
      return range(test.arg, width, value, max);
    case bpf::CompareOp::kLessEqual:
      return range(test.arg, width, 0, std::min(value, max));
    case bpf::CompareOp::kMasked: {
      if (!width.fits(value)) return {};
      if ((test.mask & max) == 0) return {{}};
      return {{{test.arg, "masked", std::to_string(test.mask & max), {std::to_string(value)}}}};
    }
    // The lists of OCI profiles have no others.
    case bpf::CompareOp::kLess:
    case bpf::CompareOp::kGreater:
    case bpf::CompareOp::kSubset:
      break;
  }
  return {};
}

std::string quoted(std::string_view text) {
  std::string result;
  append_json_string(result, text);
  return result;
}

std::string action_text(uint32_t action) {
  const uint32_t data = action & bpf::kRetDataMask;
  switch (action & bpf::kRetActionMask) {
    case bpf::kRetAllow:
      return "\"allow\"";
    case bpf::kRetLog:
      return "\"log\"";
    case bpf::kRetTrap:
      return "\"trap\"";
    case bpf::kRetErrno: {
      if (data == 0) return "{\"return\": 0}";
      const std::string name = errno_name(static_cast<int>(data));
      return "{\"errno\": " + (name.starts_with('E') ? quoted(name) : std::to_string(data)) + "}";
    }
    case bpf::kRetUserNotif:
    case bpf::kRetTrace:
      return "{\"errno\": \"ENOSYS\"}";
    default:
      return "\"kill\"";
  }
}

bool grants(uint32_t action) {
  return (action & bpf::kRetActionMask) == bpf::kRetAllow || (action & bpf::kRetActionMask) == bpf::kRetLog;
}

class Import {
 public:
  explicit Import(const OciProfile& profile) : profile_(profile) {
    for (const auto& [call, part] : policy::always_refused(policy::guard_policy({}, {}))) closed_.insert(call);
  }

  std::string run() {
    for (const auto& [number, rules] : profile_.calls)
      convert_call(*kernel::find_syscall(profile_.arch, number), rules);
    std::string text = "{\n  \"version\": 1,\n  \"description\": " +
                       quoted(profile_.description.empty() ? "imported from " + profile_.file : profile_.description) +
                       ",\n  \"default\": " + action_text(profile_.default_action) + ",\n  \"syscalls\": [";
    bool first = true;
    const auto add = [&](const std::string& rule) {
      text += std::string(first ? "" : ",") + "\n    " + rule;
      first = false;
    };
    for (const std::string& rule : conditional_) add(rule);
    for (const auto& [action, names] : unconditional_) {
      std::vector<std::string> words;
      for (const std::string& name : names) words.push_back(quoted(name));
      add("{\n      \"names\": [\n" + wrapped(words, "        ") + "      ],\n      \"action\": " + action + "\n    }");
    }
    return text + "\n  ]\n}\n";
  }
  const std::vector<std::string>& lost() const { return lost_; }

 private:
  void convert_call(const kernel::Syscall& call, const std::vector<OciCallRules::FlatRule>& rules) {
    const std::string name(call.name);
    for (const OciCallRules::FlatRule& rule : rules) {
      const uint32_t action = rule.outcome.action;
      if (grants(action) && closed_.count(&call) != 0) continue;  // told by closed_by_guard()
      std::string shown = action_text(action);
      if ((action & bpf::kRetActionMask) == bpf::kRetLog && kernel::never_notified(call)) {
        lost_.push_back(name + " is never notified (its callers do not retry), so it is allowed without a record");
        shown = action_text(bpf::kRetAllow);
      }
      std::vector<Conditions> alternatives = {{}};
      bool representable = true;
      for (const bpf::ArgTest& test : rule.all_of) {
        if (test.arg >= call.arg_count) {
          representable = false;
          continue;
        }
        if (test.width == bpf::CompareWidth::kU64 && width_of(call, test.arg).significant != ~uint64_t{0})
          narrowed_.insert(name);
        std::vector<Conditions> next;
        for (const Conditions& before : alternatives) {
          for (const Conditions& each : convert(call, test)) {
            next.push_back(before);
            next.back().insert(next.back().end(), each.begin(), each.end());
          }
        }
        alternatives = std::move(next);
      }
      if (!representable) {
        lost_.push_back(name + " has no argument that a condition is on; " +
                        (grants(action) ? "the rule is left out" : "it is refused without that condition"));
        if (grants(action)) continue;
      }
      for (const Conditions& conditions : alternatives) add_rule(name, conditions, shown);
      if (alternatives.size() == 1 && alternatives[0].empty()) break;  // nothing after it can be reached
    }
  }

  void add_rule(const std::string& name, const Conditions& conditions, const std::string& action) {
    if (conditions.empty()) {
      unconditional_[action].push_back(name);
      return;
    }
    std::string when;
    for (const When& condition : conditions) {
      when += (when.empty() ? "" : ", ") + ("{\"arg\": " + std::to_string(condition.arg)) +
              ", \"op\": " + quoted(condition.op);
      if (!condition.mask.empty()) when += ", \"mask\": " + condition.mask;
      std::string values;
      for (const std::string& value : condition.values) values += (values.empty() ? "" : ", ") + value;
      when += ", \"value\": " + (condition.op == "in" || condition.op == "not-in" ? "[" + values + "]" : values) + "}";
    }
    conditional_.push_back("{\"names\": [" + quoted(name) + "], \"when\": [" + when + "], \"action\": " + action + "}");
  }

 public:
  // Calls whose conditions on 32-bit arguments now ignore the upper half, as the kernel does.
  const std::set<std::string>& narrowed() const { return narrowed_; }

 private:
  const OciProfile& profile_;
  std::set<const kernel::Syscall*> closed_;
  std::vector<std::string> conditional_;
  std::map<std::string, std::vector<std::string>> unconditional_;  // action, names
  std::vector<std::string> lost_;
  std::set<std::string> narrowed_;
};

std::optional<Error> write_new(const std::string& path, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return Error::from_errno(errno, "create", path);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error::from_errno(errno, "write", path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return std::nullopt;
}

}  // namespace

int import_oci(const std::string& file, const std::string& output) {
  const Host host = this_host();
  const auto refuse = [](const policy::PolicyError& error) {
    complain(error.text());
    return kBadPolicy;
  };
  const auto source = policy::is_policy_name(file)
                          ? policy::read_policy_by_name(file, policy::PolicyDirectories::of_this_process())
                          : policy::read_policy_file(file);
  if (!source) return refuse(source.error());
  const auto document = policy::Document::parse(source->text, file);
  if (!document) return refuse(policy::yaml_error(source->text, file).value_or(document.error()));
  if (!policy::is_oci_document(document->root()))
    return refuse(document->root().error("this is no OCI profile: it has no \"defaultAction\" and no linux.seccomp"));
  const auto profile = policy::parse_oci(document->root(), host.load.oci);
  if (!profile) return refuse(profile.error());

  Import import(*profile);
  const std::string text = import.run();
  std::vector<std::string> lost = profile->warnings;
  lost.insert(lost.end(), profile->notes.begin(), profile->notes.end());
  const std::vector<std::string> closed = policy::closed_by_guard(*profile, policy::guard_policy({}, {}));
  lost.insert(lost.end(), closed.begin(), closed.end());
  lost.insert(lost.end(), import.lost().begin(), import.lost().end());
  std::string narrowed;
  for (const std::string& name : import.narrowed()) narrowed += (narrowed.empty() ? "" : ", ") + name;
  if (!narrowed.empty())
    lost.push_back("conditions on 32-bit arguments ignore the upper half here, as the kernel does: " + narrowed);

  // What is handed out loads.
  const auto own = policy::Document::parse(text, "the imported policy");
  const auto parsed = own ? policy::parse_policy(own->root()) : failure(own.error());
  if (!parsed) return refuse(parsed.error());

  if (output.empty()) {
    print(text);
  } else if (const auto error = write_new(output, text)) {
    complain(error->message());
    return kBadPolicy;
  }
  for (const std::string& line : lost) complain(line);
  return lost.empty() ? kFine : kFinding;
}

}  // namespace srun::tool
