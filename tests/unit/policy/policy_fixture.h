#pragma once
// Helpers of this room's tests: policies from text, temporary directories, calls.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "policy/environment.h"
#include "policy/loader.h"
#include "policy/lowering.h"
#include "policy/parser.h"
#include "source_directory.h"

namespace srun::policy::test {

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "srun-policy-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file) << text;
    ::chmod(file.c_str(), mode);
    return file;
  }

 private:
  std::string path_;
};

// The shipped policies as if installed.
inline LoadOptions load_options() {
  LoadOptions options;
  options.directories = PolicyDirectories{{source_directory() + "/policies"}};
  options.oci.kernel = {6, 18};
  // Not this process's: nobody's tests depend on where they are started.
  options.files = FileContext{"/srun-test/project", "/srun-test/home", "/srun-test/tmp", "user", "", {"/usr/bin"}};
  return options;
}

// What parsing says, as one line; empty: nothing wrong.
inline std::string problem_of(const std::string& text) {
  auto document = Document::parse(text, "ci.json");
  if (!document) return document.error().text();
  auto parsed = parse_policy(document->root());
  return parsed ? std::string() : parsed.error().text();
}

inline Policy policy_of(const std::string& text, const std::string& file = "ci.json") {
  auto document = Document::parse(text, file);
  REQUIRE_MESSAGE(document, document.error().text());
  auto parsed = parse_policy(document->root());
  REQUIRE_MESSAGE(parsed, parsed.error().text());
  parsed->policy.name = file;
  return parsed->policy;
}

inline PolicyStack stack_of(const std::vector<std::string>& texts) {
  PolicyStack stack;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string file = texts.size() == 1 ? "ci.json" : "ci" + std::to_string(i) + ".json";
    StackLayer layer;
    layer.policy = std::make_shared<const Policy>(policy_of(texts[i], file));
    layer.info.name = file;
    stack.layers.push_back(layer);
  }
  stack.display_name = "ci.json";
  return stack;
}

inline Enforcement enforcement_of(const std::vector<std::string>& texts, const LoweringOptions& options = {}) {
  auto lowered = lower(stack_of(texts), options);
  REQUIRE_MESSAGE(lowered, lowered.error().text());
  return std::move(*lowered);
}

inline std::string lowering_problem(const std::string& text, const LoweringOptions& options = {}) {
  auto lowered = lower(stack_of({text}), options);
  return lowered ? std::string() : lowered.error().text();
}

inline bpf::CallData call_of(std::string_view name, std::vector<uint64_t> args = {},
                             kernel::Arch arch = kernel::kNativeArch) {
  const kernel::Syscall* call = kernel::find_syscall(name);
  REQUIRE(call != nullptr);
  REQUIRE(call->number(arch).has_value());
  bpf::CallData data;
  data.nr = static_cast<int32_t>(*call->number(arch));
  data.arch = kernel::audit_arch(arch);
  for (size_t i = 0; i < args.size(); ++i) data.args[i] = args[i];
  return data;
}

// The verdict of the whole stack by the rules' reference meaning.
inline const Verdict& verdict_of(const Enforcement& enforcement, const bpf::CallData& call) {
  return enforcement.verdicts[bpf::decide(enforcement.rules, enforcement.returns, call)];
}

// "errno 1 notified ci.json #/default" for exact comparison in one line.
inline std::string told(const Verdict& verdict) {
  static constexpr const char* kActions[] = {"allow", "log", "return", "errno", "trap", "kill", "check"};
  std::string out = kActions[static_cast<size_t>(verdict.action)];
  if (verdict.audited != Action::kAllow) out += std::string("(audited ") + kActions[static_cast<size_t>(verdict.audited)] + ")";
  if (verdict.check != Check::kNone) out += " " + std::to_string(static_cast<int>(verdict.check));
  if (verdict.value != 0) out += " " + std::to_string(verdict.value);
  if (verdict.notified) out += " notified";
  out += " " + verdict.rule.file + " " + verdict.rule.pointer;
  if (verdict.rule.is_default) out += " default";
  if (verdict.rule.newer_than_table) out += " newer";
  return out;
}

}  // namespace srun::policy::test
