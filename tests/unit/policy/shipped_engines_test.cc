// What the supervisor answers from, for the policies that are shipped: the kernel's program and the copy say what the
// rules say, and every faster form of the copy says what the copy says, for every number and the argument values at
// which some rule changes its mind.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "bpf/lazy_verdicts.h"
#include "bpf/reference.h"
#include "bpf/verdict_table.h"
#include "policy/loader.h"
#include "policy/lowering.h"
#include "source_directory.h"
#include "support/rule_random.h"

namespace srun::policy::test {
namespace {

constexpr uint32_t kLastNumber = 599;  // beyond every table and every assigned number

const bpf::Decision* decision_of(const bpf::Layer& layer, uint32_t audit_arch, uint32_t number) {
  for (const bpf::ArchRules& arch : layer.arches) {
    if (arch.audit_arch != audit_arch) continue;
    const auto range = std::ranges::lower_bound(arch.ranges, number, {}, &bpf::NumberRange::last);
    return &range->decision;
  }
  return nullptr;
}

// For each argument the values near which some rule for this number changes its mind.
std::vector<std::vector<uint64_t>> values_for(const Enforcement& enforcement, uint32_t audit_arch, uint32_t number) {
  std::vector<std::vector<uint64_t>> values(6, {0, 1, ~uint64_t{0}});
  for (const bpf::Layer& layer : enforcement.rules) {
    const bpf::Decision* const decision = decision_of(layer, audit_arch, number);
    if (decision == nullptr) continue;
    for (const bpf::ArgRule& rule : decision->rules) {
      for (const bpf::ArgTest& test : rule.all_of) {
        for (const uint64_t value : bpf::test::boundary_values(test)) values[test.arg].push_back(value);
      }
    }
  }
  return values;
}

size_t check_policy(const std::string& path) {
  LoadOptions options;
  options.oci.arch = kernel::kNativeArch;
  options.files = FileContext{"/srun-test/project", "/srun-test/home", "/srun-test/tmp", "user", "", {}};
  const std::vector<std::string> names{path};
  const auto stack = load_stack(names, {}, options);
  REQUIRE_MESSAGE(stack, stack.error().message);
  const auto enforcement = lower(*stack, {});
  REQUIRE_MESSAGE(enforcement, enforcement.error().message);
  const bpf::Program& copy = enforcement->programs->copy;
  const uint32_t native = kernel::audit_arch(kernel::kNativeArch);

  const uint32_t arches[] = {native, kernel::kAuditI386};
  bpf::StackLayers layers{std::make_shared<const bpf::StackLayer>(copy)};
  const bpf::VerdictTable table(layers, arches);
  bpf::LazyVerdicts jitted(copy, native);
  bpf::LazyVerdicts interpreted(copy, native, bpf::RunnerOptions{false});
  for (uint32_t number = 0; number < bpf::LazyVerdicts::kNumbers; ++number) jitted.settle(number);

  bpf::test::Random random(29);
  size_t calls = 0;
  for (const uint32_t audit_arch : {native, kernel::kAuditI386, uint32_t{0x40000028}}) {
    std::vector<uint32_t> numbers{0x40000000, 0x40000000 | 520, 0x7fffffff, 0x80000000, 0xffffffff};
    for (uint32_t number = 0; number <= kLastNumber; ++number) numbers.push_back(number);
    for (const uint32_t number : numbers) {
      const std::vector<std::vector<uint64_t>> values = values_for(*enforcement, audit_arch, number);
      size_t most = 0;
      for (const auto& one : values) most = std::max(most, one.size());
      // Each value of each argument with a few others.
      for (size_t i = 0; i < 3 * most; ++i) {
        bpf::CallData call;
        call.arch = audit_arch;
        call.nr = static_cast<int32_t>(number);
        for (size_t arg = 0; arg < 6; ++arg) {
          const std::vector<uint64_t>& of = values[arg];
          call.args[arg] = i < of.size() ? of[i] : of[random.below(static_cast<uint32_t>(of.size()))];
        }
        const bpf::VerdictId id = bpf::decide(enforcement->rules, enforcement->returns, call);
        const uint32_t expected = enforcement->returns[id].copy_return;
        ++calls;
        if (bpf::run_reference(copy, call) == expected &&
            bpf::run_reference(enforcement->programs->kernel, call) == enforcement->returns[id].kernel_return &&
            table.evaluate(call).value == expected && jitted.evaluate(call) == expected &&
            interpreted.evaluate(call) == expected) {
          continue;
        }
        INFO("arch " << audit_arch << " number " << number << " arguments " << call.args[0] << " " << call.args[1] << " "
                     << call.args[2]);
        CHECK(bpf::run_reference(copy, call) == expected);
        CHECK(bpf::run_reference(enforcement->programs->kernel, call) == enforcement->returns[id].kernel_return);
        CHECK(table.evaluate(call).value == expected);
        CHECK(jitted.evaluate(call) == expected);
        REQUIRE(interpreted.evaluate(call) == expected);
      }
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("Of every shipped policy, program, copy, table and lazily made verdicts say what the rules say") {
  size_t policies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_directory() + "/policies")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().filename().string());
    ++policies;
    CHECK(check_policy(entry.path().string()) > 5000);
  }
  CHECK(policies >= 4);
}

}  // namespace srun::policy::test
