#include "bpf/passes/passes.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "bpf/reference.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

FlowGraph graph_of(const Code& code, Flavour flavour = Flavour::kSeccomp) {
  const Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE(program.has_value());
  return flow_graph(*program);
}

// The program that a graph stands for, without the jump to its entry where that is the first instruction.
Code classic(const FlowGraph& graph) {
  Code code = to_classic(graph);
  if (!code.empty() && code.front() == stmt(kJa, 0)) code.erase(code.begin());
  return code;
}

using Pass = bool (*)(FlowGraph&);

bool whole_clean_up(FlowGraph& graph) {
  clean_up(graph);
  return true;
}

struct NamedPass {
  const char* name;
  Pass pass;
};
constexpr NamedPass kPasses[] = {{"thread_jumps", thread_jumps},
                                 {"merge_equal_branches", merge_equal_branches},
                                 {"merge_equal_tails", merge_equal_tails},
                                 {"remove_redundant_loads", remove_redundant_loads},
                                 {"remove_dead_assignments", remove_dead_assignments},
                                 {"remove_unreachable", remove_unreachable},
                                 {"clean_up", whole_clean_up}};

}  // namespace

TEST_CASE("passes: each alone keeps every result of random programs, and each finds work") {
  for (const NamedPass& pass : kPasses) {
    CAPTURE(pass.name);
    for (const Flavour flavour : {Flavour::kSeccomp, Flavour::kPacket}) {
      Random random(0x9a55);
      ProgramShape shape;
      shape.flavour = flavour;
      int changed = 0;
      int compared = 0;
      for (int i = 0; i < 400; ++i) {
        CAPTURE(i);
        const Code code = random_program(random, shape);
        const Program before = *verify(code, flavour);
        FlowGraph graph = flow_graph(before);
        changed += pass.pass(graph);
        for (const FlowNode& node : graph.nodes) {
          const uint32_t self = static_cast<uint32_t>(&node - graph.nodes.data());
          for_each_successor(graph, node, [&](uint32_t successor) { REQUIRE(successor > self); });
        }
        // A jump that has become too long for the classic form, or dead code that reads unwritten scratch memory, is
        // no fault of the pass; it must stay rare.
        const Result<Program, VerifyError> after = verify(to_classic(graph), flavour);
        if (!after) continue;
        ++compared;
        for (int j = 0; j < 20; ++j) {
          if (flavour == Flavour::kSeccomp) {
            const CallData call = random_call(random, code);
            REQUIRE(run_reference(*after, call) == run_reference(before, call));
          } else {
            const std::vector<uint8_t> bytes = random_packet(random, code, 64);
            REQUIRE(run_reference(*after, Packet(bytes)) == run_reference(before, Packet(bytes)));
          }
        }
      }
      CHECK(changed > 0);
      CHECK(compared > 380);
    }
  }
}

TEST_CASE("thread_jumps: a jump to a jump goes to the end of the chain") {
  FlowGraph graph = graph_of({stmt(kLdAbsW, 0), jump(kJeqK, 1, 0, 1), stmt(kJa, 1), ret(1), stmt(kJa, 0), ret(2)});
  CHECK(thread_jumps(graph));
  CHECK(graph.nodes[1].next == 5);
}

TEST_CASE("thread_jumps: an edge skips a compare that it has already decided") {
  // A == 5 leads to a second test of 5, and the other side to a test of a value that A cannot have.
  FlowGraph graph = graph_of({stmt(kLdAbsW, 0), jump(kJgtK, 5, 0, 2), jump(kJeqK, 5, 0, 3), ret(1),
                              jump(kJgtK, 7, 2, 0), ret(2), ret(3), ret(4)});
  CHECK(thread_jumps(graph));
  CHECK(graph.nodes[1].next == 6);
  CHECK(graph.nodes[1].other == 5);
}

TEST_CASE("thread_jumps: ranges decide too") {
  FlowGraph graph = graph_of({stmt(kLdAbsW, 0), jump(kJgtK, 10, 0, 2), jump(kJgeK, 5, 2, 0), ret(1), ret(2), ret(3)});
  CHECK(thread_jumps(graph));
  CHECK(graph.nodes[1].next == 5);
}

TEST_CASE("thread_jumps: a load is skipped on the edge on which A holds the word, and kept on the other") {
  FlowGraph graph = graph_of({stmt(kLdAbsW, 16), jump(kJeqK, 1, 0, 1), stmt(kLdAbsW, 20), stmt(kLdAbsW, 16),
                              jump(kJeqK, 2, 0, 1), ret(1), ret(2)});
  CHECK(thread_jumps(graph));
  CHECK(graph.nodes[1].other == 4);
  CHECK(graph.nodes[2].next == 3);
}

TEST_CASE("merge_equal_branches: a branch with one successor is a jump") {
  FlowGraph graph = graph_of({jump(kJsetK, 1, 0, 0), ret(1)});
  CHECK(merge_equal_branches(graph));
  CHECK(classic(graph) == Code{stmt(kJa, 0), ret(1)});
}

TEST_CASE("merge_equal_tails: equal returns become one, then what leads to them in the same way") {
  FlowGraph graph = graph_of({jump(kJeqK, 1, 0, 2), stmt(kLdImm, 3), ret_a(), stmt(kLdImm, 3), ret_a()});
  CHECK(merge_equal_tails(graph));
  CHECK(graph.nodes[0].next == 3);
  CHECK(graph.nodes[0].other == 3);
}

TEST_CASE("remove_redundant_loads: a word that A holds on every path is not loaded again") {
  FlowGraph graph = graph_of({stmt(kLdAbsW, 0), jump(kJeqK, 1, 0, 0), stmt(kLdAbsW, 0), ret_a()});
  CHECK(remove_redundant_loads(graph));
  CHECK(graph.nodes[2].code == kJa);
}

TEST_CASE("remove_redundant_loads: a masked word of which nothing is left is the constant 0") {
  FlowGraph graph = graph_of({stmt(kLdAbsW, 20), stmt(kAndK, 0), jump(kJeqK, 0, 0, 1), ret(1), ret(2)});
  CHECK(remove_redundant_loads(graph));
  CHECK(graph.nodes[1] == FlowNode{kLdImm, 0, 2});
  CHECK(thread_jumps(graph));
  CHECK(graph.nodes[1].next == 3);
}

TEST_CASE("remove_dead_assignments: what nobody reads goes, unless it may end the program") {
  const Code twice{stmt(kLdAbsW, 0), stmt(kLdAbsW, 4), ret_a()};
  FlowGraph call = graph_of(twice);
  CHECK(remove_dead_assignments(call));
  CHECK(call.nodes[0].code == kJa);
  FlowGraph packet = graph_of(twice, Flavour::kPacket);
  CHECK_FALSE(remove_dead_assignments(packet));
  FlowGraph division = graph_of({stmt(kLdAbsW, 0), stmt(kTax), stmt(kDivX), ret(7)});
  CHECK_FALSE(remove_dead_assignments(division));
}

TEST_CASE("remove_unreachable: drops dead code and renumbers the rest") {
  FlowGraph graph = graph_of({stmt(kJa, 1), ret(1), ret(2)});
  CHECK(remove_unreachable(graph));
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.nodes[0].next == 1);
  CHECK(graph.nodes[1] == FlowNode{kRetK, 2});
  CHECK_FALSE(remove_unreachable(graph));
}

TEST_CASE("clean_up: a program that only goes in circles around one value is that value") {
  FlowGraph graph = graph_of({stmt(kLdImm, 6), stmt(kSt, 3), stmt(kLdLen), stmt(kTax), stmt(kLdMem, 3),
                              jump(kJgtK, 5, 0, 1), stmt(kAddK, 1), stmt(kJa, 0), ret_a()});
  clean_up(graph);
  CHECK(classic(graph) == Code{stmt(kLdImm, 7), ret_a()});
}

TEST_CASE("clean_up: 4096 instructions that jump to each other settle quickly") {
  Code code;
  for (uint32_t i = 0; i < 4094; ++i) code.push_back(jump(kJeqK, i, static_cast<uint8_t>(std::min(4093 - i, 255u)), 0));
  code.push_back(ret(1));
  code.push_back(ret(2));
  FlowGraph graph = graph_of(code);
  clean_up(graph);
  CHECK(graph.nodes.size() <= code.size());
}

}  // namespace srun::bpf::test
