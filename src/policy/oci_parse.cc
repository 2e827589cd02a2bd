// The document → OciProfile: strict reading, and the conditions of Docker's and Podman's files decided for this run.
#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <charconv>

#include "base/text.h"
#include "bpf/instruction.h"
#include "kernel/constants.h"
#include "policy/catalog.h"
#include "policy/oci.h"
#include "policy/oci_names.h"
#include "policy/oci_resolve.h"

namespace srun::policy {
namespace {

constexpr uint32_t kMaxErrno = 4095;  // MAX_ERRNO of the kernel; SECCOMP_RET_ERRNO cuts what is above

constexpr std::array<std::string_view, 11> kProfileKeys = {
    "defaultAction", "defaultErrnoRet",  "defaultErrno", "architectures", "archMap", "flags",
    "listenerPath",  "listenerMetadata", "syscalls",     "description",   "$schema"};
constexpr std::array<std::string_view, 9> kRuleKeys = {"names", "name",    "action",   "errnoRet", "errno",
                                                       "args",  "comment", "includes", "excludes"};
constexpr std::array<std::string_view, 4> kArgKeys = {"index", "value", "valueTwo", "op"};
constexpr std::array<std::string_view, 3> kFilterKeys = {"caps", "arches", "minKernel"};
constexpr std::array<std::string_view, 2> kArchMapKeys = {"architecture", "subArchitectures"};
// What containers' runtimes take. None changes a verdict; NEW_LISTENER is the runtime's own business.
constexpr std::array<std::string_view, 4> kFlags = {"SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG",
                                                    "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
                                                    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string folded(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

bool carries_errno(uint32_t action) {
  const uint32_t kind = action & bpf::kRetActionMask;
  return kind == bpf::kRetErrno || kind == bpf::kRetTrace;
}

// Reads one document. The first error is kept and ends up as the result; reading goes on with harmless values.
class Reader {
 public:
  Reader(const OciEnvironment& environment, OciProfile& profile) : environment_(environment), profile_(profile) {}

  void read(const Node& seccomp);
  const std::optional<PolicyError>& error() const { return error_; }

 private:
  enum class Unknown : uint8_t { kError, kNote };

  void fail(const Node& node, std::string message, std::string suggestion = {}) {
    if (!error_) error_ = node.error(std::move(message), std::move(suggestion));
  }
  void fail_kind(const Node& node, std::string_view expected) {
    fail(node, "expected " + std::string(expected) + ", found " + std::string(node.kind_text()));
  }
  void note(const Node& node, std::string_view text) {
    profile_.notes.push_back(node.file() + ":" + std::to_string(node.line()) + " " + node.pointer() + ": " +
                             std::string(text));
  }
  void warn(const Node& node, std::string_view text) { note(node, "warning: " + std::string(text)); }

  void check_keys(const Node& object, std::span<const std::string_view> known, Unknown unknown);
  const Node* member(const Node& object, std::string_view key);
  std::string text(const Node& object, std::string_view key);
  std::vector<const Node*> list(const Node& object, std::string_view key);
  uint32_t with_errno(const Node& owner, uint32_t action, std::string_view number_key, std::string_view name_key);
  std::optional<uint32_t> action_of(const Node& node);
  void read_architectures(const Node& seccomp);
  void open_arch(const Node& name);
  void read_flags(const Node& seccomp);
  void read_rule(const Node& node, uint32_t index);
  void read_names(const Node& node, OciRule& rule);
  void read_conditions(const Node& node, OciRule& rule);
  std::optional<uint64_t> read_value(const Node& argument, std::string_view key, bool required);
  std::optional<std::string> left_out(const Node& rule);
  std::optional<kernel::KernelVersion> min_kernel(const Node& filter);
  std::vector<std::string> words(const Node& filter, std::string_view key);
  bool has_capability(const std::string& name) const {
    return std::find(environment_.capabilities.begin(), environment_.capabilities.end(), name) !=
           environment_.capabilities.end();
  }

  const OciEnvironment& environment_;
  OciProfile& profile_;
  std::optional<PolicyError> error_;
  std::vector<std::string> left_out_;  // lines for the notes, after everything else
};

// Go's decoder, which Docker, Podman and runc use, takes keys in any case; crun does not. So such a key counts, and
// that is said. A key that nobody knows is an error where skipping it could widen the rule.
void Reader::check_keys(const Node& object, std::span<const std::string_view> known, Unknown unknown) {
  for (size_t i = 0; i < object.size(); ++i) {
    const Node& child = object[i];
    for (size_t j = 0; j < i; ++j)
      if (folded(object[j].key()) == folded(child.key()))
        fail(child, quoted(object[j].key()) + " and " + quoted(child.key()) + " are one key for some runtimes");
    if (std::find(known.begin(), known.end(), child.key()) != known.end()) continue;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](std::string_view key) { return folded(key) == folded(child.key()); });
    if (same != known.end()) {
      warn(child, quoted(child.key()) + " is read as " + quoted(*same) + ", as Go's decoder does; crun ignores it");
    } else if (unknown == Unknown::kError) {
      fail(child, "unknown key " + quoted(child.key()), std::string(nearest_name(child.key(), known)));
    } else {
      note(child, "unknown key " + quoted(child.key()) + " ignored");
    }
  }
}

// nullptr also for null, which Go takes for absent.
const Node* Reader::member(const Node& object, std::string_view key) {
  const Node* found = object.find(key);
  for (size_t i = 0; found == nullptr && i < object.size(); ++i)
    if (folded(object[i].key()) == folded(key)) found = &object[i];
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string Reader::text(const Node& object, std::string_view key) {
  const Node* node = member(object, key);
  if (node == nullptr) return {};
  if (!node->is_string()) fail_kind(*node, "a string");
  return node->string();
}

std::vector<const Node*> Reader::list(const Node& object, std::string_view key) {
  std::vector<const Node*> result;
  const Node* node = member(object, key);
  if (node == nullptr) return result;
  if (!node->is_array()) fail_kind(*node, "an array");
  for (size_t i = 0; node->is_array() && i < node->size(); ++i) result.push_back(&(*node)[i]);
  return result;
}

std::optional<uint32_t> Reader::action_of(const Node& node) {
  if (!node.is_string()) {
    fail_kind(node, "an action such as \"SCMP_ACT_ERRNO\"");
    return std::nullopt;
  }
  const auto action = find_oci_action(node.string());
  if (!action) fail(node, "unknown action " + quoted(node.string()), nearest_oci_action(node.string()));
  return action;
}

// The action with its error number: the symbolic key of Podman's files wins over the number, EPERM if there is neither.
uint32_t Reader::with_errno(const Node& owner, uint32_t action, std::string_view number_key,
                            std::string_view name_key) {
  std::optional<uint32_t> number;
  if (const Node* node = member(owner, number_key)) {
    const auto value = node->as_uint64();
    if (!node->is_integer())
      fail_kind(*node, "an error number");
    else if (!value || *value > kMaxErrno)
      fail(*node, "an error number is 0 to " + std::to_string(kMaxErrno) +
                      "; runtimes cut larger ones to 16 bits, which can turn a refusal into success");
    else if (!carries_errno(action))
      fail(*node, std::string(oci_action_name(action)) + " takes no error number");
    else
      number = static_cast<uint32_t>(*value);
  }
  if (const Node* node = member(owner, name_key); node != nullptr && !(node->is_string() && node->string().empty())) {
    if (!node->is_string()) {
      fail_kind(*node, "an error name");
    } else if (!carries_errno(action)) {
      fail(*node, std::string(oci_action_name(action)) + " takes no error number");
    } else if (const auto known = kernel::find_errno(node->string())) {
      number = static_cast<uint32_t>(*known);
    } else {
      const std::string& digits = node->string();
      uint32_t value = 0;
      const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (failed != std::errc{} || end != digits.data() + digits.size())
        fail(*node, "unknown error name " + quoted(digits), nearest_errno(digits));
      else if (value > kMaxErrno)
        fail(*node, "an error number is 0 to " + std::to_string(kMaxErrno));
      else
        number = value;
    }
  }
  return carries_errno(action) ? action | number.value_or(EPERM) : action;
}

void Reader::open_arch(const Node& name) {
  if (!name.is_string()) return fail_kind(name, "an architecture such as \"SCMP_ARCH_X86_64\"");
  if (name.string() == "SCMP_ARCH_NATIVE" || name.string() == oci_arch_name(environment_.arch)) return;
  const OciArch* arch = find_oci_arch(name.string());
  if (arch == nullptr)
    return fail(name, "unknown architecture " + quoted(name.string()), nearest_oci_arch(name.string()));
  // Only these can make calls on our processors; rules for others are dead weight that every runtime carries too.
  if (environment_.arch == kernel::Arch::kX86_64 && name.string() == "SCMP_ARCH_X32") {
    profile_.closed_x32 = true;
  } else if (environment_.arch == kernel::Arch::kX86_64 && arch->audit == kernel::kAuditI386) {
    profile_.closed_arches.push_back(arch->audit);
  } else if (environment_.arch == kernel::Arch::kAArch64 && name.string() == "SCMP_ARCH_ARM") {
    profile_.closed_arches.push_back(arch->audit);
  } else {
    return;
  }
  note(name, "left out: calls of " + name.string() + " stay closed (ENOSYS)");
}

void Reader::read_architectures(const Node& seccomp) {
  const auto plain = list(seccomp, "architectures");
  const auto map = list(seccomp, "archMap");
  if (!plain.empty() && !map.empty()) fail(*member(seccomp, "archMap"), "both \"architectures\" and \"archMap\"");
  for (const Node* name : plain) open_arch(*name);
  bool native_seen = false;
  for (const Node* entry : map) {
    if (!entry->is_object()) {
      fail_kind(*entry, "an object");
      continue;
    }
    check_keys(*entry, kArchMapKeys, Unknown::kError);
    const std::string name = text(*entry, "architecture");
    if (find_oci_arch(name) == nullptr && name != "SCMP_ARCH_NATIVE")
      fail(*entry, "unknown architecture " + quoted(name), nearest_oci_arch(name));
    // Docker and Podman expand the first entry of the native architecture and no other.
    const bool native = name == oci_arch_name(environment_.arch) && !native_seen;
    native_seen = native_seen || native;
    for (const Node* sub : list(*entry, "subArchitectures")) {
      if (native)
        open_arch(*sub);
      else if (!sub->is_string() || find_oci_arch(sub->string()) == nullptr)
        fail(*sub, "unknown architecture " + quoted(sub->string()), nearest_oci_arch(sub->string()));
    }
  }
}

void Reader::read_flags(const Node& seccomp) {
  for (const Node* flag : list(seccomp, "flags")) {
    if (!flag->is_string()) {
      fail_kind(*flag, "a flag");
    } else if (std::find(kFlags.begin(), kFlags.end(), flag->string()) == kFlags.end()) {
      fail(*flag, "unknown flag " + quoted(flag->string()), std::string(nearest_name(flag->string(), kFlags)));
    } else if (flag->string() != "SECCOMP_FILTER_FLAG_TSYNC") {
      // TSYNC is about other threads of the installing process; there are none.
      note(*flag, "left out: " + flag->string() + " is not passed to the kernel");
    }
  }
}

std::optional<uint64_t> Reader::read_value(const Node& argument, std::string_view key, bool required) {
  const Node* node = member(argument, key);
  if (node == nullptr) {
    if (required) fail(argument, "an argument condition needs " + quoted(key));
    return std::nullopt;
  }
  const auto value = node->as_uint64();
  if (!value) {
    fail(*node, node->is_integer() ? "a value is an unsigned 64-bit number; write 18446744073709551615 for -1"
                                   : "expected an unsigned 64-bit number, found " + std::string(node->kind_text()));
    return std::nullopt;
  }
  // Tools that keep numbers as doubles (jq up to 1.6) write 2^64-1 as 18446744073709552000.
  if (*value > (uint64_t{1} << 53) && *value % 1000 == 0)
    warn(*node, std::to_string(*value) + " looks rounded by a tool that keeps numbers as doubles");
  return value;
}

void Reader::read_conditions(const Node& node, OciRule& rule) {
  std::bitset<6> seen;
  bool repeated = false;
  for (const Node* argument : list(node, "args")) {
    if (!argument->is_object()) {
      fail_kind(*argument, "an object");
      continue;
    }
    check_keys(*argument, kArgKeys, Unknown::kError);
    OciCondition condition;
    const auto index = read_value(*argument, "index", true);
    if (index && *index > 5) fail(*member(*argument, "index"), "a call has arguments 0 to 5");
    const auto value = read_value(*argument, "value", true);
    const auto value_two = read_value(*argument, "valueTwo", false);
    const Node* op = member(*argument, "op");
    if (op == nullptr) {
      fail(*argument, "an argument condition needs \"op\"");
    } else if (!op->is_string()) {
      fail_kind(*op, "an operator such as \"SCMP_CMP_EQ\"");
    } else if (const auto found = find_oci_op(op->string())) {
      condition.op = *found;
    } else {
      fail(*op, "unknown operator " + quoted(op->string()), nearest_oci_op(op->string()));
    }
    if (error_) return;
    condition.index = static_cast<uint8_t>(*index);
    condition.value = *value;
    condition.value_two = value_two.value_or(0);
    if (condition.op == OciOp::kMaskedEqual && (condition.value_two & ~condition.value) != 0)
      warn(*argument, "valueTwo has bits outside the mask (value); they are ignored");
    if (condition.op != OciOp::kMaskedEqual && condition.value_two != 0)
      warn(*argument, "valueTwo is used by SCMP_CMP_MASKED_EQ only");
    repeated = repeated || seen.test(condition.index);
    seen.set(condition.index);
    rule.conditions.push_back(condition);
  }
  if (repeated)
    warn(node,
         "two conditions on one argument: the runtimes make a rule of its own of every condition, so any one of "
         "them is enough");
}

void Reader::read_names(const Node& node, OciRule& rule) {
  const std::string old_name = text(node, "name");
  const Node* names = member(node, "names");
  if (!old_name.empty()) {
    if (names != nullptr && names->size() != 0) return fail(node, "both \"name\" and \"names\"");
    rule.names.push_back(old_name);
  } else if (names == nullptr) {
    return fail(node, member(node, "name") != nullptr ? "a call has no name" : "a rule needs \"names\"");
  }
  for (const Node* name : list(node, "names")) {
    if (!name->is_string()) return fail_kind(*name, "the name of a call");
    if (name->string().empty()) return fail(*name, "a call has no name: \"\"");
    rule.names.push_back(name->string());
  }
  if (rule.names.empty()) warn(node, "\"names\": [] does nothing");
}

std::vector<std::string> Reader::words(const Node& filter, std::string_view key) {
  std::vector<std::string> result;
  for (const Node* word : list(filter, key)) {
    if (!word->is_string()) {
      fail_kind(*word, "a string");
      continue;
    }
    result.push_back(word->string());
    if (key == "caps" && !is_capability(word->string())) {
      const std::string near = nearest_capability(word->string());
      warn(*word, "unknown capability " + quoted(word->string()) +
                      (near.empty() ? std::string() : "; did you mean " + quoted(near) + "?"));
    }
    if (key == "arches" && !is_oci_condition_arch(word->string()))
      warn(*word, quoted(word->string()) + " is no architecture's name in a condition (this one is " +
                      quoted(oci_condition_arch(environment_.arch)) + ")");
  }
  return result;
}

std::optional<kernel::KernelVersion> Reader::min_kernel(const Node& filter) {
  const Node* node = member(filter, "minKernel");
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) {
    fail_kind(*node, "a kernel version such as \"4.8\"");
    return std::nullopt;
  }
  const std::string& version = node->string();
  const size_t dot = version.find('.');
  kernel::KernelVersion result;
  const auto number = [&](size_t from, size_t to, unsigned& out) {
    const auto [end, failed] = std::from_chars(version.data() + from, version.data() + to, out);
    return failed == std::errc{} && end == version.data() + to && out <= 255;
  };
  if (dot == std::string::npos || !number(0, dot, result.major) || !number(dot + 1, version.size(), result.minor) ||
      result == kernel::KernelVersion{}) {
    fail(*node, "minKernel is two numbers, each at most 255, such as \"4.8\", not " + quoted(version));
    return std::nullopt;
  }
  return result;
}

// Why a rule does not hold in this run; nullopt: it does.
std::optional<std::string> Reader::left_out(const Node& rule) {
  std::optional<std::string> reason;
  const auto because = [&](std::string text) {
    if (!reason) reason = std::move(text);
  };
  const std::string arch(oci_condition_arch(environment_.arch));
  const auto joined = [](const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& word : list) text += (text.empty() ? "" : ", ") + word;
    return text;
  };
  const auto version = [](kernel::KernelVersion v) { return std::to_string(v.major) + "." + std::to_string(v.minor); };

  for (const bool include : {false, true}) {
    const Node* filter = member(rule, include ? "includes" : "excludes");
    if (filter == nullptr) continue;
    if (!filter->is_object()) {
      fail_kind(*filter, "an object");
      continue;
    }
    check_keys(*filter, kFilterKeys, Unknown::kError);
    const auto arches = words(*filter, "arches");
    const bool here = std::find(arches.begin(), arches.end(), arch) != arches.end();
    if (include && !arches.empty() && !here) because("for " + joined(arches) + " only");
    if (!include && here) because("not for " + arch);
    for (const std::string& capability : words(*filter, "caps")) {
      if (include && !has_capability(capability)) because("needs " + capability);
      if (!include && has_capability(capability)) because("not with " + capability);
    }
    if (const auto minimum = min_kernel(*filter)) {
      if (include && environment_.kernel < *minimum) because("needs kernel " + version(*minimum));
      if (!include && environment_.kernel >= *minimum) because("not from kernel " + version(*minimum) + " on");
    }
  }
  return reason;
}

void Reader::read_rule(const Node& node, uint32_t index) {
  if (!node.is_object()) return fail_kind(node, "an object");
  check_keys(node, kRuleKeys, Unknown::kError);
  OciRule rule;
  rule.index = index;
  rule.place = {node.file(), node.line(), node.pointer()};
  rule.comment = text(node, "comment");
  read_names(node, rule);
  const Node* action = member(node, "action");
  if (action == nullptr) return fail(node, "a rule needs \"action\"");
  rule.action = with_errno(node, action_of(*action).value_or(bpf::kRetKillThread), "errnoRet", "errno");
  read_conditions(node, rule);
  if (const auto reason = left_out(node)) {
    left_out_.push_back("rule " + std::to_string(index) + " (" + (rule.names.empty() ? "" : rule.names.front()) +
                        (rule.names.size() > 1 ? " …" : "") + "): " + *reason);
    return;
  }
  const uint32_t kind = rule.action & bpf::kRetActionMask;
  if (kind == bpf::kRetUserNotif)
    note(*action, "SCMP_ACT_NOTIFY without an agent: these calls answer ENOSYS");
  else if (kind == bpf::kRetTrace)
    note(*action, "SCMP_ACT_TRACE without a tracer: these calls answer ENOSYS");
  profile_.rules.push_back(std::move(rule));
}

void Reader::read(const Node& seccomp) {
  if (!seccomp.is_object()) return fail_kind(seccomp, "an object");
  check_keys(seccomp, kProfileKeys, Unknown::kNote);
  profile_.description = text(seccomp, "description");
  const auto syscalls = list(seccomp, "syscalls");
  profile_.rules_in_file = syscalls.size();
  const Node* action = member(seccomp, "defaultAction");
  if (action == nullptr || (action->is_string() && action->string().empty())) {
    if (!syscalls.empty()) return fail(seccomp, "\"defaultAction\" is missing");
    profile_.disabled = true;
    profile_.warnings.push_back(seccomp.file() + ": neither a default action nor rules: the profile restricts nothing");
    return;
  }
  profile_.default_action =
      with_errno(seccomp, action_of(*action).value_or(bpf::kRetKillThread), "defaultErrnoRet", "defaultErrno");
  profile_.default_place = {action->file(), action->line(), action->pointer()};
  read_architectures(seccomp);
  read_flags(seccomp);
  const std::string listener = text(seccomp, "listenerPath");
  if (!text(seccomp, "listenerMetadata").empty() && listener.empty())
    warn(*member(seccomp, "listenerMetadata"), "listenerMetadata without listenerPath");
  for (size_t i = 0; i < syscalls.size() && !error_; ++i) read_rule(*syscalls[i], static_cast<uint32_t>(i));
  const uint32_t kind = profile_.default_action & bpf::kRetActionMask;
  if (kind == bpf::kRetUserNotif || kind == bpf::kRetTrace)
    note(*action, std::string(oci_action_name(kind)) + " by default: what no rule names answers ENOSYS");
  if (!left_out_.empty()) {
    note(*member(seccomp, "syscalls"),
         "left out in this run: " + count_of(left_out_.size(), "rule") + " of " + std::to_string(syscalls.size()));
    for (std::string& line : left_out_) profile_.notes.push_back("  " + std::move(line));
  }
}

}  // namespace

bool is_oci_document(const Node& root) {
  if (!root.is_object()) return false;
  if (const Node* version = root.find("version"); version != nullptr && version->is_integer()) return false;
  if (root.find("defaultAction") != nullptr) return true;
  const Node* linux_section = root.find("linux");
  return root.find("ociVersion") != nullptr ||
         (linux_section != nullptr && linux_section->is_object() && linux_section->find("seccomp") != nullptr);
}

Result<OciProfile, PolicyError> parse_oci(const Node& root, const OciEnvironment& environment) {
  OciProfile profile;
  profile.file = root.file();
  profile.arch = environment.arch;
  const Node* seccomp = &root;
  if (root.is_object() && root.find("defaultAction") == nullptr) {
    const Node* linux_section = root.find("linux");
    seccomp = linux_section == nullptr ? nullptr : linux_section->find("seccomp");
    if (seccomp == nullptr || seccomp->is_null())
      return failure(root.error("this config.json has no linux.seccomp: it restricts no system call"));
    profile.notes.push_back(root.file() + ": only linux.seccomp of this config.json is applied");
    const Node* process = root.find("process");
    if (process != nullptr && process->find("capabilities") != nullptr)
      profile.notes.push_back(root.file() + ": process.capabilities is left out; conditions use those of this run");
  }
  Reader reader(environment, profile);
  reader.read(*seccomp);
  if (reader.error()) return failure(*reader.error());
  if (auto error = resolve_oci(profile)) return failure(std::move(*error));
  review_oci(profile);
  return profile;
}

}  // namespace srun::policy
