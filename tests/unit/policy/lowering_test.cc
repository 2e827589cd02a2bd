#include "policy/lowering.h"

#include "policy/guard.h"
#include "policy_fixture.h"

namespace srun::policy::test {

TEST_CASE("lowering: a policy with a version only allows the baseline, refuses what it knows and does not know newer calls") {
  const Enforcement made = enforcement_of({R"({"version": 1})"});
  CHECK(told(verdict_of(made, call_of("read"))) == "allow ci.json # default");
  CHECK(told(verdict_of(made, call_of("swapon"))) == "errno 1 notified ci.json # default");
  bpf::CallData newer = call_of("read");
  newer.nr = static_cast<int32_t>(kernel::first_unknown_number(kernel::kNativeArch));
  CHECK(told(verdict_of(made, newer)) == "errno 38 notified ci.json # default newer");
}

}  // namespace srun::policy::test
