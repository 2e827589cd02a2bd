#include "bpf/passes/lowering.h"

#include <doctest/doctest.h>

#include "bpf/passes/passes.h"
#include "support/bpf_assembler.h"

namespace srun::bpf::test {
namespace {

FlowGraph cleaned(const Code& code, Flavour flavour = Flavour::kSeccomp) {
  const Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE(program.has_value());
  FlowGraph graph = flow_graph(*program);
  clean_up(graph);
  return graph;
}

// (first value, result) of each arm; the targets must be returns.
std::vector<std::pair<uint32_t, uint32_t>> arms_of(const FlowGraph& graph) {
  std::vector<std::pair<uint32_t, uint32_t>> arms;
  REQUIRE(graph.switches.size() == 1);
  for (const SwitchArm& arm : graph.switches[0]) {
    REQUIRE(graph.nodes[arm.target].code == kRetK);
    arms.emplace_back(arm.first, graph.nodes[arm.target].k);
  }
  return arms;
}

using Arms = std::vector<std::pair<uint32_t, uint32_t>>;

}  // namespace

TEST_CASE("lower_dispatch: a chain of equalities becomes a partition, neighbours of one result joined") {
  FlowGraph graph = cleaned({stmt(kLdAbsW, 0), jump(kJeqK, 7, 4, 0), jump(kJeqK, 3, 4, 0), jump(kJeqK, 8, 2, 0),
                             jump(kJeqK, 4, 2, 0), ret(0), ret(1), ret(2)});
  CHECK(lower_dispatch(graph));
  CHECK(arms_of(graph) == Arms{{0, 0}, {3, 2}, {5, 0}, {7, 1}, {9, 0}});
}

TEST_CASE("lower_dispatch: a tree gives the same partition as a chain") {
  FlowGraph graph = cleaned({stmt(kLdAbsW, 0), jump(kJgtK, 5, 3, 0), jump(kJeqK, 3, 5, 0), jump(kJeqK, 4, 4, 0), ret(0),
                             jump(kJgeK, 9, 1, 0), jump(kJgtK, 6, 2, 0), ret(0), ret(2), ret(1)});
  CHECK(lower_dispatch(graph));
  CHECK(arms_of(graph) == Arms{{0, 0}, {3, 2}, {5, 0}, {7, 1}, {9, 0}});
}

TEST_CASE("lower_dispatch: boundaries at both ends of the values hold") {
  FlowGraph graph = cleaned({stmt(kLdAbsW, 0), jump(kJeqK, 0, 4, 0), jump(kJgtK, 0xfffffffe, 4, 0),
                             jump(kJgeK, 0x80000000, 4, 0), jump(kJeqK, 1, 1, 0), ret(0), ret(1), ret(2), ret(3)});
  CHECK(lower_dispatch(graph));
  CHECK(arms_of(graph) == Arms{{0, 1}, {2, 0}, {0x80000000, 3}, {0xffffffff, 2}});
}

TEST_CASE("lower_dispatch: a chain that reloads the same word before each compare is still one dispatch") {
  Code code{stmt(kLdAbsW, 16)};
  for (uint32_t i = 0; i < 8; ++i) {
    const Code rule{jump(kJeqK, 100 + i, 0, 2), stmt(kLdAbsW, 24), jump(kJeqK, 0, 0, 255), stmt(kLdAbsW, 16)};
    code.insert(code.end(), rule.begin(), rule.end());
  }
  code.push_back(ret(1));
  code.push_back(ret(2));
  // The failing second tests go to the last instruction.
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    if (code[pc].jf == 255) code[pc].jf = static_cast<uint8_t>(code.size() - 2 - pc);
  }
  FlowGraph graph = cleaned(code);
  CHECK(lower_dispatch(graph));
  remove_unreachable(graph);
  REQUIRE(graph.switches.size() == 1);
  CHECK(graph.switches[0].size() == 3);
}

TEST_CASE("lower_dispatch: three compares are left alone") {
  FlowGraph graph = cleaned(
      {stmt(kLdAbsW, 0), jump(kJeqK, 1, 3, 0), jump(kJeqK, 5, 2, 0), jump(kJeqK, 9, 2, 0), ret(0), ret(1), ret(2)});
  CHECK_FALSE(lower_dispatch(graph));
}

TEST_CASE("lower_dispatch: every compare entered from outside costs a table, and the sum of the tables is bounded") {
  // Each JSET leads into the middle of one long chain.
  Code code;
  for (uint32_t i = 0; i < 200; ++i) code.push_back(jump(kJsetK, 1u << (i % 32), 200, 0));
  code.push_back(stmt(kLdAbsW, 0));
  for (uint32_t i = 0; i < 250; ++i) code.push_back(jump(kJeqK, 3 * i, static_cast<uint8_t>(250 - i - (i % 2)), 0));
  code.push_back(ret(1));
  code.push_back(ret(2));
  FlowGraph graph = flow_graph(*verify(code, Flavour::kSeccomp));
  lower_dispatch(graph);
  size_t arms = 0;
  for (const SwitchArms& one : graph.switches) arms += one.size();
  CHECK(arms <= 4 * code.size() + 64);
}

TEST_CASE("recombine_halves: equality of both halves is one 64-bit compare and the load of the high half goes") {
  FlowGraph graph =
      cleaned({stmt(kLdAbsW, 28), jump(kJeqK, 0x11, 0, 3), stmt(kLdAbsW, 24), jump(kJeqK, 0x22, 0, 1), ret(1), ret(2)});
  CHECK(recombine_halves(graph));
  clean_up(graph);
  REQUIRE(graph.nodes.size() == 3);
  REQUIRE(graph.nodes[0].code == kFlowWide);
  const WideCompare& wide = graph.wides[graph.nodes[0].extra];
  CHECK(wide.op == kJeqK);
  CHECK(wide.offset == 24);
  CHECK(wide.value == 0x1100000022);
}

TEST_CASE("recombine_halves: both orders of an ordered compare are recognised") {
  const Code above_first{stmt(kLdAbsW, 20),
                         jump(kJgtK, 1, 3, 0),
                         jump(kJeqK, 1, 0, 3),
                         stmt(kLdAbsW, 16),
                         jump(kJgtK, 9, 0, 1),
                         ret(1),
                         ret(2)};
  const Code equal_first{stmt(kLdAbsW, 20),
                         jump(kJeqK, 1, 1, 0),
                         jump(kJgtK, 1, 2, 3),
                         stmt(kLdAbsW, 16),
                         jump(kJgeK, 9, 0, 1),
                         ret(1),
                         ret(2)};
  for (const Code& code : {above_first, equal_first}) {
    FlowGraph graph = cleaned(code);
    CHECK(recombine_halves(graph));
    clean_up(graph);
    REQUIRE(graph.nodes.size() == 3);
    CHECK(graph.wides[graph.nodes[0].extra].value == 0x100000009);
  }
}

TEST_CASE(
    "recombine_halves: halves of different arguments, different ways out and a later reader of A are left alone") {
  for (const Code& code :
       {Code{stmt(kLdAbsW, 28), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, 16), jump(kJeqK, 2, 0, 1), ret(1), ret(2)},
        Code{stmt(kLdAbsW, 28), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, 24), jump(kJeqK, 2, 0, 2), ret(1), ret(2), ret(3)},
        Code{stmt(kLdAbsW, 28), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, 24), jump(kJeqK, 2, 0, 1), ret(1), ret_a()},
        Code{stmt(kLdAbsW, 12), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, 8), jump(kJeqK, 2, 0, 1), ret(1), ret(2)}}) {
    FlowGraph graph = cleaned(code);
    CHECK_FALSE(recombine_halves(graph));
  }
}

TEST_CASE("place_bounds_checks: one check covers what every way to a non-zero result needs") {
  // As `ip and tcp dst port 22`: everything but the last return gives 0.
  FlowGraph graph = cleaned(
      {stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 7), stmt(kLdAbsB, 23), jump(kJeqK, 6, 0, 5), stmt(kLdAbsH, 20),
       jump(kJsetK, 0x1fff, 3, 0), stmt(kLdxMsh, 14), stmt(kLdIndH, 16), jump(kJeqK, 22, 1, 0), ret(0), ret(65535)},
      Flavour::kPacket);
  place_bounds_checks(graph);
  std::vector<uint32_t> limits;
  for (const FlowNode& node : graph.nodes) {
    if (is_absolute_load(node.code) || node.code == kLdxMsh) limits.push_back(node.limit);
  }
  CHECK(limits == std::vector<uint32_t>{24, 0, 0, 0});
}

TEST_CASE("place_bounds_checks: a load asks for itself only where a short packet may still give a result") {
  FlowGraph graph =
      cleaned({stmt(kLdAbsB, 0), jump(kJeqK, 1, 0, 2), stmt(kLdAbsW, 30), ret_a(), ret(7)}, Flavour::kPacket);
  place_bounds_checks(graph);
  CHECK(graph.nodes[0].limit == 1);
  CHECK(graph.nodes[2].limit == 34);
}

TEST_CASE("place_bounds_checks: a check on one side of a join does not count on the other") {
  FlowGraph graph = cleaned({stmt(kLdAbsB, 0), jump(kJeqK, 1, 0, 2), stmt(kLdAbsB, 9), stmt(kJa, 1), stmt(kLdAbsB, 4),
                             stmt(kLdAbsB, 8), ret_a()},
                            Flavour::kPacket);
  place_bounds_checks(graph);
  std::vector<uint32_t> limits;
  for (const FlowNode& node : graph.nodes) {
    if (is_absolute_load(node.code)) limits.push_back(node.limit);
  }
  CHECK(limits == std::vector<uint32_t>{9, 10, 0, 0});
}

TEST_CASE("place_bounds_checks: loads near X share a check that counts from X") {
  FlowGraph graph = cleaned({stmt(kLdxMsh, 14), stmt(kLdIndH, 14), jump(kJeqK, 22, 1, 0), stmt(kLdIndH, 16),
                             jump(kJeqK, 22, 0, 2), stmt(kLdIndB, 26), ret_a(), ret(0)},
                            Flavour::kPacket);
  place_bounds_checks(graph);
  std::vector<uint32_t> limits;
  for (const FlowNode& node : graph.nodes) {
    if (is_indirect_load(node.code)) {
      CHECK(node.near);
      limits.push_back(node.limit);
    }
  }
  CHECK(limits == std::vector<uint32_t>{27, 0, 0});
}

TEST_CASE("place_bounds_checks: what is known near X is forgotten when X changes") {
  FlowGraph graph = cleaned({stmt(kLdxMsh, 14), stmt(kLdIndW, 20), stmt(kSt, 0), stmt(kLdxMsh, 15), stmt(kLdIndB, 0),
                             stmt(kTax), stmt(kLdMem, 0), stmt(kAddX), ret_a()},
                            Flavour::kPacket);
  place_bounds_checks(graph);
  std::vector<uint32_t> limits;
  for (const FlowNode& node : graph.nodes) {
    if (is_indirect_load(node.code)) limits.push_back(node.limit);
  }
  CHECK(limits == std::vector<uint32_t>{24, 1});
}

TEST_CASE("remove_unread_loads: a load goes if an earlier one needs as much, not if an earlier one only asks for it") {
  const Code covered{stmt(kLdAbsW, 10), stmt(kTax), stmt(kLdAbsB, 13), stmt(kTxa), ret_a()};
  FlowGraph graph = cleaned(covered, Flavour::kPacket);
  CHECK(remove_unread_loads(graph));
  const Code beyond{stmt(kLdAbsW, 10), stmt(kTax), stmt(kLdAbsB, 14), stmt(kTxa), ret_a()};
  graph = cleaned(beyond, Flavour::kPacket);
  CHECK_FALSE(remove_unread_loads(graph));
}

TEST_CASE(
    "mark_compared_loads: a half word that is only compared keeps its bytes, one that is read otherwise does not") {
  const auto widths = [](const Code& code) {
    FlowGraph graph = cleaned(code, Flavour::kPacket);
    mark_compared_loads(graph);
    std::vector<int> result;
    for (const FlowNode& node : graph.nodes) {
      if (node.width != 0) result.push_back(node.width);
    }
    return result;
  };
  CHECK(widths({stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 1), jump(kJsetK, 7, 0, 1), ret(1), ret(0)}) ==
        std::vector<int>{2, 2});
  CHECK(widths({stmt(kLdAbsW, 12), jump(kJeqK, 0x800, 0, 1), jump(kJsetK, 7, 0, 1), ret(1), ret(0)}) ==
        std::vector<int>{4, 4});
  CHECK(widths({stmt(kLdAbsH, 12), jump(kJgtK, 0x800, 0, 1), ret(1), ret(0)}).empty());
  CHECK(widths({stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 1), ret_a(), ret(0)}).empty());
  // Two loads meet in front of one compare.
  CHECK(widths({stmt(kLdxMsh, 0), stmt(kTxa), jump(kJeqK, 4, 0, 2), stmt(kLdAbsH, 2), stmt(kJa, 1), stmt(kLdAbsW, 4),
                jump(kJeqK, 7, 0, 1), ret(1), ret(0)})
            .empty());
}

}  // namespace srun::bpf::test
