#pragma once
// Helpers of the OCI tests: a profile from text, lowered, and asked about calls.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kernel/syscall_table.h"
#include "policy/oci.h"
#include "source_directory.h"

namespace srun::policy::test {

inline constexpr kernel::Arch kX86 = kernel::Arch::kX86_64;

// A container's: Docker's 14 default capabilities.
inline OciEnvironment docker_environment() {
  OciEnvironment environment;
  environment.capabilities = {"CAP_AUDIT_WRITE", "CAP_CHOWN",   "CAP_DAC_OVERRIDE",     "CAP_FOWNER",  "CAP_FSETID",
                              "CAP_KILL",        "CAP_MKNOD",   "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP",
                              "CAP_SETGID",      "CAP_SETPCAP", "CAP_SETUID",           "CAP_SYS_CHROOT"};
  environment.kernel = {6, 18};
  environment.arch = kX86;
  return environment;
}

inline Result<OciProfile, PolicyError> oci_result(const std::string& text,
                                                  const OciEnvironment& environment = docker_environment(),
                                                  const std::string& file = "p.json") {
  auto document = Document::parse(text, file);
  REQUIRE_MESSAGE(document, document.error().text());
  return parse_oci(document->root(), environment);
}

// The error's text; empty if the profile loads.
inline std::string oci_problem(const std::string& text) {
  auto result = oci_result(text);
  return result ? std::string() : result.error().text();
}

// A loaded and lowered profile.
class LoweredProfile {
 public:
  explicit LoweredProfile(OciProfile loaded) : profile(std::move(loaded)) {
    layers.push_back(lower_oci(profile, table, 1));
  }
  explicit LoweredProfile(const std::string& text, const OciEnvironment& environment = docker_environment())
      : LoweredProfile(load(text, environment)) {}

  const Verdict& decide(const bpf::CallData& call) const {
    return table.verdicts()[bpf::decide(layers, table.returns(), call)];
  }
  const Verdict& decide(uint32_t number, std::vector<uint64_t> args, uint32_t audit) const {
    bpf::CallData call;
    call.nr = static_cast<int32_t>(number);
    call.arch = audit;
    for (size_t i = 0; i < args.size(); ++i) call.args[i] = args[i];
    return decide(call);
  }
  // "allow", "log", "errno EPERM", "return 0", "trap", "kill": what the x86-64 call gets.
  std::string on(std::string_view name, std::vector<uint64_t> args = {}) const {
    const kernel::Syscall* call = kernel::find_syscall(name);
    REQUIRE_MESSAGE(call != nullptr, name);
    return on_number(call->number(kX86).value(), std::move(args));
  }
  std::string on_number(uint32_t number, std::vector<uint64_t> args = {}, uint32_t audit = kernel::kAuditX86_64) const {
    return text(decide(number, std::move(args), audit));
  }
  static std::string text(const Verdict& verdict) {
    switch (verdict.action) {
      case Action::kAllow:
        return "allow";
      case Action::kLog:
        return "log";
      case Action::kReturn:
        return "return " + std::to_string(verdict.value);
      case Action::kErrno:
        return "errno " + errno_name(verdict.value);
      case Action::kTrap:
        return "trap";
      case Action::kKill:
        return "kill";
      case Action::kCheck:
        break;
    }
    return "check";
  }
  bool noted(std::string_view part) const { return count_noted(part) > 0; }
  size_t count_noted(std::string_view part) const {
    size_t count = 0;
    for (const auto* list : {&profile.notes, &profile.warnings})
      for (const std::string& line : *list) count += line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

  OciProfile profile;
  VerdictTableBuilder table;
  std::vector<bpf::Layer> layers;

 private:
  static OciProfile load(const std::string& text, const OciEnvironment& environment) {
    auto result = oci_result(text, environment);
    REQUIRE_MESSAGE(result, result.error().text());
    return std::move(*result);
  }
};

// A profile with `rules` (text between the brackets of "syscalls") and a default action.
inline std::string profile_text(const std::string& rules, const std::string& default_action = "ALLOW",
                                const std::string& more = "") {
  return "{\"defaultAction\": \"SCMP_ACT_" + default_action + "\", " + more + "\"syscalls\": [" + rules + "]}";
}
inline std::string rule_text(const std::string& name, const std::string& action, const std::string& more = "") {
  return "{\"names\": [\"" + name + "\"], \"action\": \"SCMP_ACT_" + action + "\"" + (more.empty() ? "" : ", ") + more +
         "}";
}
inline std::string condition_text(int index, const std::string& op, const std::string& value,
                                  const std::string& value_two = "") {
  return "{\"index\": " + std::to_string(index) + ", \"op\": \"SCMP_CMP_" + op + "\", \"value\": " + value +
         (value_two.empty() ? "" : ", \"valueTwo\": " + value_two) + "}";
}

// A file of the reference data; nullopt, said by name, where the data is not there.
inline std::optional<std::string> oci_data(const std::string& name) {
  const char* given = std::getenv("SANDBOX_RUN_DATA_DIR");
  const std::string directory = given != nullptr ? given : source_directory() + "/../shared/data";
  std::ifstream file(directory + "/oci-profiles/" + name, std::ios::binary);
  if (!file) {
    MESSAGE("skipped: no reference profile " << name);
    return std::nullopt;
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace srun::policy::test
