#include "bpf/arg_variable.h"

#include <doctest/doctest.h>

#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

ArgTest test_of(CompareWidth width, CompareOp op, std::vector<uint64_t> values, uint64_t mask = ~uint64_t{0}) {
  return {0, width, op, mask, std::move(values)};
}

constexpr uint64_t kAll32 = 0xffffffff;
constexpr uint64_t kAll64 = ~uint64_t{0};

}  // namespace

TEST_CASE("A 32-bit test looks at the low half only") {
  const VariableTest test = normalise(test_of(CompareWidth::kU32, CompareOp::kEqual, {0x1234567800000005}));
  CHECK(test.variable == Variable{0, kAll32});
  CHECK(test.holds == IntervalSet{{5, 5}});
}

TEST_CASE("Signed comparisons become unsigned intervals") {
  CHECK(normalise(test_of(CompareWidth::kS32, CompareOp::kLess, {0})).holds == IntervalSet{{0x80000000, kAll32}});
  CHECK(normalise(test_of(CompareWidth::kS32, CompareOp::kGreaterEqual, {0})).holds == IntervalSet{{0, 0x7fffffff}});
  CHECK(normalise(test_of(CompareWidth::kS32, CompareOp::kLessEqual, {2})).holds ==
        IntervalSet{{0, 2}, {0x80000000, kAll32}});
  CHECK(normalise(test_of(CompareWidth::kS64, CompareOp::kGreater, {kAll64})).holds ==
        IntervalSet{{0, 0x7fffffffffffffff}});
  CHECK(normalise(test_of(CompareWidth::kS32, CompareOp::kLess, {0x80000000})).never());
  CHECK(normalise(test_of(CompareWidth::kS32, CompareOp::kLessEqual, {0x7fffffff})).always());
}

TEST_CASE("Sets join what touches, and their complement is exact") {
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kIn, {3, 1, 2, 9})).holds == IntervalSet{{1, 3}, {9, 9}});
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kNotIn, {3, 1, 2, 9})).holds ==
        IntervalSet{{0, 0}, {4, 8}, {10, kAll32}});
  CHECK(normalise(test_of(CompareWidth::kU64, CompareOp::kNotIn, {0, kAll64})).holds == IntervalSet{{1, kAll64 - 1}});
  CHECK(normalise(test_of(CompareWidth::kU64, CompareOp::kIn, {})).never());
  CHECK(normalise(test_of(CompareWidth::kU64, CompareOp::kNotIn, {})).always());
}

TEST_CASE("Masks that keep the upper bits are intervals, others a variable of their own") {
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kSubset, {}, 0xfff)).holds == IntervalSet{{0, 0xfff}});
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kMasked, {0x7000}, 0xfffff000)).holds ==
        IntervalSet{{0x7000, 0x7fff}});
  const VariableTest low = normalise(test_of(CompareWidth::kU64, CompareOp::kMasked, {0x20}, 0x60));
  CHECK(low.variable == Variable{0, 0x60});
  CHECK(low.holds == IntervalSet{{0x20, 0x20}});
  // The same bits at another width are the same variable.
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kMasked, {0x20}, 0x60)) == low);
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kMasked, {0x10}, 0x60)).never());
  CHECK(normalise(test_of(CompareWidth::kU32, CompareOp::kMasked, {0}, 0)).always());
}

TEST_CASE("The normal form of a test holds exactly where the test does") {
  Random random(17);
  for (int round = 0; round < 20000; ++round) {
    ArgTest test;
    test.width = static_cast<CompareWidth>(random.below(4));
    test.op = static_cast<CompareOp>(random.below(10));
    const auto value = [&] { return random.percent(50) ? random.value() : random.next(); };
    const bool set = test.op == CompareOp::kIn || test.op == CompareOp::kNotIn;
    const uint32_t count = set ? random.below(6) : test.op == CompareOp::kSubset ? 0 : 1;
    for (uint32_t i = 0; i < count; ++i) test.values.push_back(value());
    test.mask = value();
    if (test.op == CompareOp::kMasked && random.percent(80)) test.values[0] &= test.mask;
    const VariableTest normal = normalise(test);
    for (size_t i = 1; i < normal.holds.size(); ++i) REQUIRE(normal.holds[i - 1].last + 1 < normal.holds[i].first);
    if (!normal.holds.empty()) REQUIRE(normal.holds.back().last <= normal.variable.mask);
    for (const uint64_t candidate : boundary_values(test)) {
      const uint64_t args[6] = {candidate};
      REQUIRE(contains(normal.holds, candidate & normal.variable.mask) == matches(test, args));
    }
  }
}

TEST_CASE("Complement and intersection of interval sets agree with membership") {
  Random random(18);
  const auto random_set = [&] {
    IntervalSet set;
    uint64_t next = random.below(4);
    while (next < 60 && set.size() < 6) {
      const uint64_t last = next + random.below(5);
      set.push_back({next, last});
      next = last + 2 + random.below(6);
    }
    return set;
  };
  for (int round = 0; round < 2000; ++round) {
    const IntervalSet a = random_set();
    const IntervalSet b = random_set();
    const IntervalSet outside = complement(a, 80);
    const IntervalSet both = intersection(a, b);
    for (uint64_t value = 0; value <= 80; ++value) {
      REQUIRE(contains(outside, value) == !contains(a, value));
      REQUIRE(contains(both, value) == (contains(a, value) && contains(b, value)));
    }
  }
}

}  // namespace srun::bpf::test
