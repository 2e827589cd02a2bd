#include "policy/parser.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "kernel/constants.h"
#include "policy/catalog.h"
#include "policy/environment.h"
#include "policy/guard.h"
#include "policy/network_rules.h"
#include "policy/verdict_table_builder.h"
#include "policy/when.h"

namespace srun::policy {

namespace {

constexpr std::array<std::string_view, 10> kTopKeys = {"version", "description", "default",     "syscalls", "network",
                                                       "files",   "extends",     "environment", "unsafe",   "$schema"};
// Sections of the language that later versions of this program enforce. Until then a policy that has one is refused,
// never run without it (I7).
constexpr std::array<std::string_view, 4> kLaterSections = {"limits", "private", "namespaces", "tests"};
constexpr std::array<std::string_view, 5> kRuleKeys = {"names", "action", "when", "reason", "quiet"};
constexpr std::array<std::string_view, 3> kEnvironmentKeys = {"keep", "drop", "set"};
constexpr std::array<std::string_view, 5> kActionNames = {"allow", "deny", "kill", "log", "trap"};
constexpr std::array<std::string_view, 2> kLaterActions = {"ask", "trace"};
constexpr int32_t kMaxErrno = 4095;  // MAX_ERRNO of the kernel; SECCOMP_RET_ERRNO cuts what is above

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

Place place_of(const Node& node) { return {node.file(), node.line(), node.pointer()}; }

template <size_t N>
Result<void, PolicyError> check_keys(const Node& object, const std::array<std::string_view, N>& known) {
  for (size_t i = 0; i < object.size(); ++i) {
    const std::string& key = object[i].key();
    if (!contains(known, key)) {
      return failure(object[i].error("unknown key " + quoted(key), std::string(nearest_name(key, known))));
    }
  }
  return {};
}

PolicyError expected(const Node& node, std::string_view what) {
  return node.error("expected " + std::string(what) + ", found " + std::string(node.kind_text()));
}

Result<ActionSpec, PolicyError> parse_errno(const Node& node) {
  if (node.is_string()) {
    const std::optional<int> number = kernel::find_errno(node.string());
    if (!number)
      return failure(node.error("unknown error name " + quoted(node.string()), nearest_errno(node.string())));
    return ActionSpec{Action::kErrno, *number};
  }
  if (!node.is_integer()) return failure(expected(node, "an error name or number"));
  const std::optional<int64_t> number = node.as_int64();
  if (!number || *number < 1 || *number > kMaxErrno) {
    return failure(node.error("an error number is 1 to " + std::to_string(kMaxErrno) +
                              (number == 0 ? "; {\"return\": 0} pretends success" : "")));
  }
  return ActionSpec{Action::kErrno, static_cast<int32_t>(*number)};
}

Result<ActionSpec, PolicyError> parse_return(const Node& node) {
  if (!node.is_integer()) return failure(expected(node, "a number"));
  const std::optional<int64_t> number = node.as_int64();
  if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max()) {
    return failure(node.error("a value to return is 0 to 2147483647; {\"errno\": NAME} makes the call fail"));
  }
  return ActionSpec{Action::kReturn, static_cast<int32_t>(*number)};
}

Result<ActionSpec, PolicyError> parse_action(const Node& node) {
  if (node.is_string()) {
    const std::string& name = node.string();
    if (name == "allow") return ActionSpec{Action::kAllow, 0};
    if (name == "deny") return ActionSpec{Action::kErrno, EPERM};
    if (name == "kill") return ActionSpec{Action::kKill, 0};
    if (name == "log") return ActionSpec{Action::kLog, 0};
    if (name == "trap") return ActionSpec{Action::kTrap, 0};
    if (contains(kLaterActions, name)) {
      return failure(node.error("the action " + quoted(name) + " is not enforced by this version yet"));
    }
    return failure(node.error(
        "unknown action " + quoted(name) + "; known: allow deny kill log trap {\"errno\": …} {\"return\": …}",
        std::string(nearest_name(name, kActionNames))));
  }
  if (!node.is_object()) return failure(expected(node, "an action"));
  if (node.size() != 1) return failure(node.error("expected {\"errno\": …} or {\"return\": …}"));
  const std::string& key = node[0].key();
  if (key == "errno") return parse_errno(node[0]);
  if (key == "return") return parse_return(node[0]);
  constexpr std::array<std::string_view, 2> kActionKeys = {"errno", "return"};
  return failure(node[0].error("unknown key " + quoted(key), std::string(nearest_name(key, kActionKeys))));
}

bool grants(const ActionSpec& action) { return action.action == Action::kAllow || action.action == Action::kLog; }

// What an action needs that the calls cannot give: no notification, so no record and no value but 0 (H19).
Result<void, PolicyError> check_never_notified(const Node& action_node, const Rule& rule) {
  Verdict verdict;
  verdict.action = rule.action.action;
  verdict.value = rule.action.value;
  for (const RuleCall& entry : rule.calls) {
    if (!VerdictTableBuilder::needs_impossible_notification(verdict, entry.call)) continue;
    const std::string name(entry.call->name);
    if (verdict.action == Action::kReturn) {
      return failure(action_node.error(name +
                                       " can only be refused or return 0: its answer would be lost when a signal "
                                       "comes, and nobody repeats the call"));
    }
    if (entry.by_name) {
      return failure(action_node.error(name + " cannot be recorded: a signal would take the question away, and nobody "
                                              "repeats the call"));
    }
  }
  return {};
}

Result<Rule, PolicyError> parse_rule(const Node& node, std::vector<std::string>& warnings) {
  if (!node.is_object()) return failure(expected(node, "a rule {\"names\", \"action\"}"));
  if (auto keys = check_keys(node, kRuleKeys); !keys) return failure(std::move(keys.error()));
  Rule rule;
  rule.place = place_of(node);

  const Node* action = node.find("action");
  if (action == nullptr) return failure(node.error("\"action\" is missing"));
  auto spec = parse_action(*action);
  if (!spec) return failure(std::move(spec.error()));
  rule.action = *spec;

  const Node* names = node.find("names");
  if (names == nullptr) return failure(node.error("\"names\" is missing"));
  auto calls = resolve_names(*names, grants(rule.action));
  if (!calls) return failure(std::move(calls.error()));
  rule.calls = std::move(calls->calls);
  warnings.insert(warnings.end(), calls->warnings.begin(), calls->warnings.end());

  if (const Node* when = node.find("when")) {
    auto tests = parse_when(*when, rule.calls);
    if (!tests) return failure(std::move(tests.error()));
    rule.when = std::move(*tests);
  }
  if (const Node* reason = node.find("reason")) {
    if (!reason->is_string()) return failure(expected(*reason, "a string"));
    rule.reason = reason->string();
  }
  if (const Node* quiet = node.find("quiet")) {
    if (!quiet->is_bool()) return failure(expected(*quiet, "true or false"));
    rule.quiet = quiet->boolean();
    if (rule.quiet && rule.action.action == Action::kLog) {
      return failure(quiet->error("\"quiet\" and the action \"log\" contradict each other"));
    }
  }
  if (auto possible = check_never_notified(*action, rule); !possible) return failure(std::move(possible.error()));
  return rule;
}

// The tests of `a` are all among those of `b`: wherever b's rule matches, a's does.
bool covers(const std::vector<bpf::ArgTest>& a, const std::vector<bpf::ArgTest>& b) {
  return std::all_of(a.begin(), a.end(),
                     [&b](const bpf::ArgTest& test) { return std::find(b.begin(), b.end(), test) != b.end(); });
}

// H41: a rule of which every call is decided before it can never decide. Rules that another file brings in through
// `extends` may be shadowed: that is what putting one's own rules first is for.
Result<void, PolicyError> check_shadowed(const Node& syscalls, const std::vector<Rule>& rules) {
  for (size_t later = 0; later < rules.size(); ++later) {
    bool reachable = false;
    bool here = false;
    std::optional<size_t> shadow;
    for (const RuleCall& entry : rules[later].calls) {
      if (!entry.call->number(kernel::kNativeArch)) continue;
      here = true;
      const auto hides = [&](const Rule& earlier) {
        return covers(earlier.when, rules[later].when) &&
               std::any_of(earlier.calls.begin(), earlier.calls.end(),
                           [&](const RuleCall& other) { return other.call == entry.call; });
      };
      const auto end = rules.begin() + static_cast<ptrdiff_t>(later);
      const auto earlier = std::find_if(rules.begin(), end, hides);
      if (earlier == end) {
        reachable = true;
        break;
      }
      shadow = static_cast<size_t>(earlier - rules.begin());
    }
    if (here && !reachable) {
      return failure(syscalls[later].error("this rule can never decide: " + rules[*shadow].place.pointer + " (line " +
                                           std::to_string(rules[*shadow].place.line) +
                                           ") matches first whenever it would"));
    }
  }
  return {};
}

Result<std::string, PolicyError> parse_variable_pattern(const Node& node) {
  if (!node.is_string()) return failure(expected(node, "the name of a variable"));
  const std::string& name = node.string();
  if (name.empty()) return failure(node.error("an empty name"));
  if (name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
    return failure(node.error(quoted(name) + " is not the name of a variable"));
  }
  if (name.front() == '@' && name != "@secrets") {
    return failure(node.error("unknown group of variables " + quoted(name), "@secrets"));
  }
  return name;
}

void add_pattern(std::string_view pattern, std::vector<std::string>& out) {
  if (pattern == "@secrets") {
    const auto secrets = secret_variable_patterns();
    out.insert(out.end(), secrets.begin(), secrets.end());
  } else {
    out.emplace_back(pattern);
  }
}

Result<EnvironmentRules, PolicyError> parse_environment(const Node& node) {
  if (!node.is_object()) return failure(expected(node, "an object with keep, drop, set"));
  if (auto keys = check_keys(node, kEnvironmentKeys); !keys) return failure(std::move(keys.error()));
  EnvironmentRules rules;
  for (const auto& [key, list] : {std::pair("keep", &rules.keep), std::pair("drop", &rules.drop)}) {
    const Node* patterns = node.find(key);
    if (patterns == nullptr) continue;
    if (!patterns->is_array()) return failure(expected(*patterns, "a list of names"));
    for (size_t i = 0; i < patterns->size(); ++i) {
      auto pattern = parse_variable_pattern((*patterns)[i]);
      if (!pattern) return failure(std::move(pattern.error()));
      add_pattern(*pattern, *list);
    }
  }
  if (node.find("keep") != nullptr && node.find("drop") == nullptr) rules.drop.emplace_back("*");
  if (const Node* set = node.find("set")) {
    if (!set->is_object()) return failure(expected(*set, "an object of names and values"));
    for (size_t i = 0; i < set->size(); ++i) {
      const Node& value = (*set)[i];
      if (!value.is_string()) return failure(expected(value, "a string"));
      const std::string& name = value.key();
      if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
        return failure(value.error(quoted(name) + " is not the name of a variable"));
      }
      if (value.string().find('\0') != std::string::npos) return failure(value.error("a value cannot hold a NUL byte"));
      rules.set.emplace_back(name, value.string());
    }
  }
  return rules;
}

Result<std::vector<UnsafeEntry>, PolicyError> parse_unsafe(const Node& node) {
  if (!node.is_array()) return failure(expected(node, "a list of parts of the guard layer"));
  std::vector<UnsafeEntry> entries;
  for (size_t i = 0; i < node.size(); ++i) {
    const Node& part = node[i];
    if (!part.is_string()) return failure(expected(part, "the name of a part of the guard layer"));
    std::vector<std::string_view> names;
    for (const GuardPart& known : guard_parts()) {
      if (known.liftable) names.push_back(known.name);
      if (known.name == part.string() && !known.liftable) {
        return failure(part.error(quoted(part.string()) + " cannot be lifted: " + std::string(known.reason)));
      }
    }
    if (std::find(names.begin(), names.end(), part.string()) == names.end()) {
      return failure(part.error("unknown part of the guard layer " + quoted(part.string()),
                                std::string(nearest_name(part.string(), names))));
    }
    entries.push_back({part.string(), place_of(part)});
  }
  return entries;
}

Result<void, PolicyError> check_version(const Node& root) {
  if (!root.is_object()) return failure(expected(root, "a policy, that is an object"));
  const Node* version = root.find("version");
  if (version == nullptr) return failure(root.error("\"version\" is missing; this program knows version 1"));
  if (version->as_int64() != 1) return failure(version->error("this program knows version 1 of policies only"));
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string& key = root[i].key();
    if (contains(kLaterSections, key)) {
      return failure(root[i].error(quoted(key) + " is not enforced by this version yet"));
    }
    if (!contains(kTopKeys, key)) {
      std::vector<std::string_view> known(kTopKeys.begin(), kTopKeys.end());
      known.insert(known.end(), kLaterSections.begin(), kLaterSections.end());
      return failure(root[i].error("unknown key " + quoted(key), std::string(nearest_name(key, known))));
    }
  }
  return {};
}

}  // namespace

Result<ParsedPolicy, PolicyError> parse_policy(const Node& root) {
  if (auto version = check_version(root); !version) return failure(std::move(version.error()));
  ParsedPolicy out;
  Policy& policy = out.policy;
  policy.syscalls_place = place_of(root);
  if (const Node* description = root.find("description")) {
    if (!description->is_string()) return failure(expected(*description, "a string"));
    policy.description = description->string();
  }
  if (const Node* action = root.find("default")) {
    auto spec = parse_action(*action);
    if (!spec) return failure(std::move(spec.error()));
    policy.default_action = DefaultAction{*spec, place_of(*action)};
  }
  if (const Node* syscalls = root.find("syscalls")) {
    if (!syscalls->is_array()) return failure(expected(*syscalls, "a list of rules"));
    policy.has_syscalls = true;
    policy.syscalls_place = place_of(*syscalls);
    for (size_t i = 0; i < syscalls->size(); ++i) {
      auto rule = parse_rule((*syscalls)[i], policy.warnings);
      if (!rule) return failure(std::move(rule.error()));
      policy.rules.push_back(std::move(*rule));
    }
    if (auto reachable = check_shadowed(*syscalls, policy.rules); !reachable) {
      return failure(std::move(reachable.error()));
    }
  }
  if (const Node* extends = root.find("extends")) {
    if (!extends->is_array()) return failure(expected(*extends, "a list of files or names"));
    for (size_t i = 0; i < extends->size(); ++i) {
      const Node& name = (*extends)[i];
      if (!name.is_string()) return failure(expected(name, "a file or a name"));
      if (name.string().empty() || name.string().find('\0') != std::string::npos) {
        return failure(name.error(quoted(name.string()) + " is neither a file nor a name"));
      }
      out.extends.push_back({name.string(), place_of(name)});
    }
  }
  if (const Node* section = root.find("network")) {
    auto network = parse_network(*section);
    if (!network) return failure(std::move(network.error()));
    policy.network = std::move(*network);
  }
  if (const Node* section = root.find("files")) {
    auto files = parse_files(*section);
    if (!files) return failure(std::move(files.error()));
    policy.files = std::move(*files);
  }
  if (const Node* environment = root.find("environment")) {
    auto rules = parse_environment(*environment);
    if (!rules) return failure(std::move(rules.error()));
    policy.environment = std::move(*rules);
  }
  if (const Node* unsafe = root.find("unsafe")) {
    auto entries = parse_unsafe(*unsafe);
    if (!entries) return failure(std::move(entries.error()));
    policy.unsafe = std::move(*entries);
  }
  return out;
}

void add_environment_flag(std::string_view flag, EnvironmentRules& rules) {
  if (const size_t equals = flag.find('='); equals != std::string_view::npos) {
    rules.set.emplace_back(flag.substr(0, equals), flag.substr(equals + 1));
  } else {
    add_pattern(flag, rules.keep);
  }
}

}  // namespace srun::policy
