#include "bpf/kernel_bitmap.h"

#include <doctest/doctest.h>

#include "bpf/compiler.h"
#include "bpf/constancy.h"
#include "bpf/verdict_cache.h"
#include "support/bpf_assembler.h"
#include "support/rule_random.h"
#include "vectors.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kI386 = 0x40000003;

KernelBitmapRules linux_6_18() { return {kX86, 470, kI386, 470, {335, 336}}; }

Program seccomp(const Code& code) {
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return std::move(*program);
}

bool sees_allow(const Code& code, uint32_t nr = 39) {
  return kernel_sees_allow(seccomp(code).code(), linux_6_18(), kX86, nr);
}

std::vector<uint32_t> numbers(const nlohmann::json& ranges) {
  std::vector<uint32_t> result;
  for (const nlohmann::json& range : ranges) {
    for (uint32_t nr = range[0].get<uint32_t>(); nr <= range[1].get<uint32_t>(); ++nr) result.push_back(nr);
  }
  return result;
}

}  // namespace

TEST_CASE("The kernel's emulator knows loads of nr and arch, AND, constant jumps and RET K") {
  CHECK(sees_allow({ret(kRetAllow)}));
  CHECK(sees_allow({stmt(kLdAbsW, 0), jump(kJeqK, 39, 0, 1), ret(kRetAllow), ret(kRetErrno)}));
  CHECK(sees_allow({stmt(kLdAbsW, 4), jump(kJgeK, 0x80000000, 0, 1), ret(kRetAllow), ret(kRetErrno)}));
  CHECK(sees_allow({stmt(kLdAbsW, 0), stmt(kAndK, 7), jump(kJgtK, 6, 0, 1), ret(kRetAllow), ret(kRetErrno)}));
  CHECK(sees_allow({stmt(kLdAbsW, 0), jump(kJsetK, 1, 0, 1), stmt(kJa, 1), ret(kRetErrno), ret(kRetAllow)}));
}

TEST_CASE("Anything else on the path taken keeps a call out of the kernel's bitmap") {
  CHECK_FALSE(sees_allow({stmt(kLdAbsW, 16), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kTax), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kLdImm, 1), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kLdLen), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kOrK, 1), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kSt, 0), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({jump(kJeqX, 0, 0, 0), ret(kRetAllow)}));
  CHECK_FALSE(sees_allow({stmt(kLdAbsW, 0), ret_a()}));
  // Off the path taken it does no harm.
  CHECK(sees_allow({stmt(kLdAbsW, 0), jump(kJeqK, 39, 0, 1), ret(kRetAllow), stmt(kTax), ret(kRetAllow)}));
}

TEST_CASE("Only the exact value ALLOW counts for the kernel") {
  CHECK_FALSE(sees_allow({ret(kRetAllow | 1)}));
  CHECK_FALSE(sees_allow({ret(kRetLog)}));
}

TEST_CASE("uretprobe and uprobe pass on kernels that exempt them, natively only") {
  const Program deny = seccomp({ret(kRetErrno | 1)});
  KernelBitmap newer(linux_6_18());
  newer.push(deny);
  CHECK_FALSE(newer.passes(kX86, 334));
  CHECK(newer.passes(kX86, 335));
  CHECK(newer.passes(kX86, 336));
  CHECK_FALSE(newer.passes(kX86, 337));
  CHECK_FALSE(newer.passes(kI386, 335));
  KernelBitmapRules rules = linux_6_18();
  rules.always_pass.clear();
  KernelBitmap older(rules);
  older.push(deny);
  CHECK_FALSE(older.passes(kX86, 335));
}

TEST_CASE("A call passes only if every filter of the stack allows it, on the two arches the kernel knows") {
  KernelBitmap bitmap(linux_6_18());
  CHECK(bitmap.passes(kX86, 0));
  bitmap.push(seccomp({stmt(kLdAbsW, 0), jump(kJeqK, 59, 0, 1), ret(kRetErrno), ret(kRetAllow)}));
  bitmap.push(seccomp({stmt(kLdAbsW, 0), jump(kJeqK, 60, 0, 1), ret(kRetErrno), ret(kRetAllow)}));
  CHECK(bitmap.passes(kX86, 58));
  CHECK_FALSE(bitmap.passes(kX86, 59));
  CHECK_FALSE(bitmap.passes(kX86, 60));
  CHECK_FALSE(bitmap.passes(kI386, 59));
  CHECK(bitmap.passes(kI386, 61));
  CHECK_FALSE(bitmap.passes(kX86, 470));
  CHECK_FALSE(bitmap.passes(kX86, 0x40000000));
  CHECK_FALSE(bitmap.passes(0xc00000b7, 0));
}

TEST_CASE("Real filters: the kernel's bitmap and our constant calls are the ones computed independently") {
  const std::optional<nlohmann::json> file = load_vectors("const-action.json");
  if (!file) return;
  const KernelBitmapRules rules{kX86, 512, kI386, 512, {}};
  size_t filters = 0;
  for (const nlohmann::json& vector : (*file)["vectors"]) {
    const auto name = vector["name"].get<std::string>();
    CAPTURE(name);
    const std::optional<nlohmann::json> filter = load_vectors("filters/" + name + ".json");
    REQUIRE(filter.has_value());
    const Program program = seccomp(instructions((*filter)["insns"]));
    KernelBitmap bitmap(rules);
    bitmap.push(program);
    for (const char* arch_name : {"x86_64", "i386"}) {
      CAPTURE(arch_name);
      const nlohmann::json& expected = vector[arch_name];
      const auto arch = expected["arch"].get<uint32_t>();
      std::vector<uint32_t> passing;
      for (uint32_t nr = 0; nr < 512; ++nr) {
        if (bitmap.passes(arch, nr)) passing.push_back(nr);
      }
      CHECK(passing == numbers(expected["kernel_const_allow"]));

      std::vector<ConstancyRange> known(512);
      for (const ConstancyRange& range : find_constant_calls(program, arch)) {
        for (uint32_t nr = range.first; nr <= range.last && nr < 512; ++nr) known[nr] = range;
      }
      for (const auto& entry : expected["const_action"].items()) {
        const unsigned long value = std::stoul(entry.key(), nullptr, 16);
        for (const uint32_t nr : numbers(entry.value())) {
          CHECK(known[nr].constant);
          CHECK(known[nr].value == value);
        }
      }
      const auto constant =
          std::count_if(known.begin(), known.end(), [](const ConstancyRange& range) { return range.constant; });
      CHECK(constant >= expected["abstract_const_count"].get<int>());
    }
    ++filters;
  }
  CHECK(filters == 22);
}

TEST_CASE("Calls that the rules always allow with plain ALLOW pass through the kernel's bitmap in compiled programs") {
  Random random(99);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    RuleSet set = random_rules(random);
    for (VerdictReturn& verdict : set.verdicts) {
      if ((verdict.copy_return & kRetActionMask) == kRetAllow) verdict.kernel_return = kRetAllow;
    }
    const Result<CompiledStack> stack = compile(set.layers, set.verdicts);
    REQUIRE(stack.has_value());
    KernelBitmapRules rules = linux_6_18();
    rules.always_pass.clear();
    KernelBitmap bitmap(rules);
    bitmap.push(stack->kernel);
    for (const uint32_t arch : {kX86, kI386}) {
      const AllowSet allowed(stack->kernel, arch);
      for (uint32_t nr = 0; nr < 470; ++nr) REQUIRE(bitmap.passes(arch, nr) == allowed.contains(nr));
    }
  }
}

}  // namespace srun::bpf::test
