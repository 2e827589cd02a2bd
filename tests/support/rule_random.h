#pragma once
// Random layers of rules, and for any layers the calls at which they change their mind.
#include <span>
#include <vector>

#include "bpf/rules.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {

inline constexpr uint32_t kTestArches[] = {0xc000003e, 0x40000003, 0xc00000b7};

struct RuleSet {
  std::vector<Layer> layers;
  std::vector<VerdictReturn> verdicts;
};

// One to `max_layers` layers over one to three arches; every operator, width and action occurs. Kernel returns are a
// projection of the copy's (equal copies have equal kernel values).
RuleSet random_rules(Random& random, size_t max_layers = 3, size_t max_rules = 6);

// For one test the argument values around which its answer can change: each value, its neighbours, the same with high
// bits, the sign boundaries, single bits of the mask.
std::vector<uint64_t> boundary_values(const ArgTest& test);

// Calls for a rule set: numbers at the edges of every range, all listed arches and a foreign one, arguments drawn from
// the rules' own boundary values and from anywhere.
class CallSource {
 public:
  explicit CallSource(std::span<const Layer> layers);
  CallData next(Random& random) const;

 private:
  std::vector<uint32_t> arches_;
  std::vector<uint32_t> numbers_;
  std::vector<uint64_t> values_[6];
};

}  // namespace srun::bpf::test
