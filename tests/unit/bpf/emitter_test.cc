#include "bpf/emitter.h"

#include <doctest/doctest.h>

#include <cstring>

#include "bpf/branch_facts.h"
#include "bpf/reference.h"
#include "bpf/search_tree.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kArg0 = 16;
constexpr uint32_t kArg1 = 24;
constexpr uint32_t kAll = 0xffffffff;

uint32_t walk(const BranchGraph& graph, NodeId id, const CallData& call) {
  while (!graph[id].leaf) {
    const BranchNode& node = graph[id];
    uint32_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&call) + node.word, sizeof word);
    word &= node.mask;
    const bool yes = node.branch == Branch::kEqual          ? word == node.k
                     : node.branch == Branch::kGreaterEqual ? word >= node.k
                                                            : (word & node.k) != 0;
    id = yes ? node.yes : node.no;
  }
  return graph[id].k;
}

uint32_t run(const std::vector<Instruction>& code, const CallData& call) {
  const Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return run_reference(*program, call);
}

CallData with_args(uint64_t arg0, uint64_t arg1) {
  CallData call;
  call.args[0] = arg0;
  call.args[1] = arg1;
  return call;
}

// A graph of many nodes that shares freely: parents pick any earlier nodes as children.
NodeId random_graph(BranchGraph& graph, Random& random, uint32_t size, uint32_t leaves) {
  std::vector<NodeId> nodes;
  for (uint32_t i = 0; i < leaves; ++i) nodes.push_back(graph.leaf(i));
  for (uint32_t i = 0; i < size; ++i) {
    // Mostly recent ones, so that the graph is deep; now and then one far away.
    const auto pick = [&] {
      const auto count = static_cast<uint32_t>(nodes.size());
      return random.percent(80) ? nodes[count - 1 - random.below(std::min(count, 8u))] : nodes[random.below(count)];
    };
    const auto branch = static_cast<Branch>(random.below(3));
    const uint32_t mask = branch == Branch::kAnyBit || random.percent(70) ? kAll : 0xff;
    nodes.push_back(graph.compare(branch, random.percent(50) ? kArg0 : kArg1, mask, random.below(256), pick(), pick()));
  }
  return nodes.back();
}

}  // namespace

TEST_CASE("A word is loaded once while A keeps it, masked values are made from it") {
  BranchGraph graph;
  const NodeId deny = graph.leaf(kRetErrno);
  const NodeId allow = graph.leaf(kRetAllow);
  const NodeId masked = graph.compare(Branch::kEqual, kArg0, 0xf0, 0x20, deny, allow);
  const NodeId root = graph.compare(Branch::kGreaterEqual, kArg0, kAll, 0x1000, masked, allow);
  CHECK(emit(graph, root) == Code{stmt(kLdAbsW, kArg0), jump(kJgeK, 0x1000, 0, 3), stmt(kAndK, 0xf0),
                                  jump(kJeqK, 0x20, 0, 1), ret(kRetErrno), ret(kRetAllow)});
}

TEST_CASE("A graph that is one leaf is one instruction") {
  BranchGraph graph;
  CHECK(emit(graph, graph.leaf(7)) == Code{ret(7)});
}

TEST_CASE("Equal nodes exist once and a comparison with equal sides does not exist") {
  BranchGraph graph;
  const NodeId a = graph.leaf(1);
  const NodeId b = graph.leaf(2);
  CHECK(graph.leaf(1) == a);
  CHECK(graph.compare(Branch::kEqual, kArg0, kAll, 5, a, b) == graph.compare(Branch::kEqual, kArg0, kAll, 5, a, b));
  CHECK(graph.compare(Branch::kEqual, kArg0, kAll, 5, a, a) == a);
}

TEST_CASE("What the emitter writes takes the way of the graph, also beyond the reach of a jump") {
  Random random(2);
  size_t with_trampolines = 0;
  for (int round = 0; round < 120; ++round) {
    CAPTURE(round);
    BranchGraph graph;
    const NodeId root = random_graph(graph, random, 20 + random.below(1500), 2 + random.below(300));
    const std::vector<Instruction> code = emit(graph, root);
    REQUIRE_FALSE(code.empty());
    for (const Instruction& insn : code) with_trampolines += insn.code == kJa;
    const NodeId shorter = without_known_answers(graph, root);
    const std::vector<Instruction> short_code = emit(graph, shorter);
    CHECK(graph.reachable(shorter).size() <= graph.reachable(root).size());
    for (int i = 0; i < 100; ++i) {
      const CallData call = with_args(random.percent(80) ? random.below(260) : random.value(),
                                      random.percent(80) ? random.below(260) : random.value());
      const uint32_t expected = walk(graph, root, call);
      REQUIRE(run(code, call) == expected);
      REQUIRE(run(short_code, call) == expected);
    }
  }
  CHECK(with_trampolines > 20);  // else the test says nothing about them
}

TEST_CASE("A graph above the kernel's limit gives no program") {
  BranchGraph graph;
  NodeId node = graph.leaf(0);
  for (uint32_t i = 1; i <= kMaxInstructions; ++i) {
    node = graph.compare(Branch::kEqual, kArg0, kAll, i, graph.leaf(i), node);
  }
  CHECK(emit(graph, node).empty());
  CHECK(emitted_size(graph, node) > kMaxInstructions);
}

TEST_CASE("Comparisons that the way to them has answered disappear") {
  BranchGraph graph;
  const NodeId deny = graph.leaf(kRetErrno);
  const NodeId allow = graph.leaf(kRetAllow);
  SUBCASE("equal to 5, so not 6") {
    const NodeId second = graph.compare(Branch::kEqual, kArg0, kAll, 6, deny, allow);
    CHECK(without_known_answers(graph, graph.compare(Branch::kEqual, kArg0, kAll, 5, second, allow)) == allow);
  }
  SUBCASE("below 16, so no bit of 0xf0") {
    const NodeId second = graph.compare(Branch::kAnyBit, kArg0, kAll, 0xf0, deny, allow);
    CHECK(without_known_answers(graph, graph.compare(Branch::kGreaterEqual, kArg0, kAll, 16, allow, second)) == allow);
  }
  SUBCASE("masked value known, so the whole value is not 7") {
    const NodeId second = graph.compare(Branch::kEqual, kArg0, kAll, 7, deny, allow);
    CHECK(without_known_answers(graph, graph.compare(Branch::kEqual, kArg0, 3, 2, second, allow)) == allow);
  }
  SUBCASE("another word says nothing") {
    const NodeId second = graph.compare(Branch::kEqual, kArg1, kAll, 6, deny, allow);
    const NodeId root = graph.compare(Branch::kEqual, kArg0, kAll, 5, second, allow);
    CHECK(without_known_answers(graph, root) == root);
  }
}

TEST_CASE("A search finds the segment of every value") {
  Random random(4);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    BranchGraph graph;
    const uint32_t mask = random.percent(70) ? kAll : 0xfff;
    std::vector<uint32_t> starts{0};
    for (uint32_t count = random.below(120); count > 0; --count) starts.push_back(static_cast<uint32_t>(random.next() & mask));
    for (uint32_t count = random.below(60); count > 0; --count) starts.push_back(random.below(300));
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::vector<Segment> segments;
    for (size_t i = 0; i < starts.size(); ++i) {
      const uint32_t last = i + 1 < starts.size() ? starts[i + 1] - 1 : mask;
      segments.push_back({starts[i], last, graph.leaf(random.below(5)), static_cast<double>(random.below(1000))});
    }
    const Goal goal = random.percent(50) ? Goal::kBalanced : Goal::kSmallest;
    const NodeId root = build_search(graph, kArg0, mask, segments, goal);
    for (const Segment& segment : segments) {
      for (const uint32_t value : {segment.first, segment.last, segment.first + (segment.last - segment.first) / 2}) {
        REQUIRE(walk(graph, root, with_args(value, 0)) == graph[segment.target].k);
      }
    }
  }
}

TEST_CASE("One value among others is one comparison, and what is nearly always asked is asked first") {
  BranchGraph graph;
  const NodeId a = graph.leaf(1);
  const NodeId b = graph.leaf(2);
  const NodeId c = graph.leaf(3);
  const NodeId hole = build_search(graph, kArg0, kAll, {{0, 6, a}, {7, 7, b}, {8, kAll, a}});
  CHECK(graph[hole].branch == Branch::kEqual);
  CHECK(graph[hole].k == 7);
  CHECK(graph[hole].yes == b);
  CHECK(graph[hole].no == a);
  const NodeId hot = build_search(graph, kArg0, kAll, {{0, 6, a, 1}, {7, 7, c, 100}, {8, 9, b, 1}, {10, kAll, a, 1}});
  CHECK(graph[hot].branch == Branch::kEqual);
  CHECK(graph[hot].yes == c);
  // Bits of a mask that are all that matters: JSET needs no AND.
  const NodeId bits = build_search(graph, kArg0, 0x60, {{0, 0, a}, {1, 0x60, b}});
  CHECK(graph[bits].branch == Branch::kAnyBit);
  CHECK(graph[bits].k == 0x60);
  CHECK(graph[bits].yes == b);
}

}  // namespace srun::bpf::test
