#pragma once
// Argument rules of all layers for one set of calls → one sub-graph that gives the winning verdict.
//
// Two forms are tried. The linear one asks the tests in the order of the rules; memoised on (layer, verdict so far) its
// size is the sum of the layers, not their product. The searching one takes one argument at a time, cuts its values
// into the intervals that the tests distinguish and decides the rest of the rules for each interval, so that hundreds
// of rules about one argument become a search; it can grow as a product, so it is used only where it is not much
// larger.
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "bpf/arg_variable.h"
#include "bpf/branch_graph.h"
#include "bpf/rules.h"
#include "bpf/search_tree.h"

namespace srun::bpf {

// Which return value of a verdict ends up in the program.
enum class ReturnKind : uint8_t { kKernel, kCopy };

class DecisionBuilder {
 public:
  // `graph` and `verdicts` must outlive the builder. All verdict ids in the decisions must lie in `verdicts`.
  DecisionBuilder(BranchGraph& graph, std::span<const VerdictReturn> verdicts, ReturnKind kind, Goal goal);

  using RulesId = uint32_t;
  // The normal form of one layer's decision; equal meanings mostly get equal ids.
  RulesId intern(const Decision& decision);
  // `layers` oldest first: the strictest action wins, the newest layer on a tie.
  NodeId build(const std::vector<RulesId>& layers);

 private:
  using TestId = uint32_t;
  using Class = uint32_t;  // verdicts that neither merging nor the program can tell apart
  struct Rule {
    std::vector<TestId> all_of;
    Class verdict = 0;
    friend auto operator<=>(const Rule&, const Rule&) = default;
  };
  struct Rules {
    std::vector<Rule> rules;
    Class otherwise = 0;
    friend auto operator<=>(const Rules&, const Rules&) = default;
  };
  struct ClassInfo {
    uint32_t action = 0;
    NodeId leaf = 0;
  };
  struct Running {  // the verdict so far and the layer that gave it
    Class verdict = 0;
    uint32_t layer = 0;
    bool any = false;
  };
  struct OpenLayer {
    uint32_t layer = 0;
    RulesId rules = 0;
  };
  struct WideSegment {
    uint64_t first = 0;
    uint64_t last = 0;
    NodeId target = 0;
  };
  enum class Order : uint8_t { kAsWritten, kMostTested };

  RulesId intern(Rules rules);
  TestId intern(VariableTest test);
  bool wins(Class candidate, uint32_t layer, const Running& running) const;

  NodeId linear(const std::vector<RulesId>& layers);
  NodeId linear_from(const std::vector<RulesId>& layers, size_t remaining, std::optional<Class> running,
                     std::map<std::pair<size_t, Class>, NodeId>& memo);
  NodeId ask(TestId test, NodeId yes, NodeId no);

  std::optional<NodeId> searching(const std::vector<RulesId>& layers, Order order, size_t node_limit);
  std::optional<NodeId> search_from(Running running, std::vector<OpenLayer> open, Order order);
  Variable next_variable(const std::vector<OpenLayer>& open, Order order) const;
  RulesId specialise(RulesId rules, const Variable& variable, uint64_t value);
  NodeId search_variable(const Variable& variable, const std::vector<WideSegment>& segments);

  BranchGraph& graph_;
  Goal goal_;
  std::vector<Class> class_of_verdict_;
  std::vector<ClassInfo> classes_;
  std::vector<VariableTest> tests_;
  std::map<VariableTest, TestId> test_ids_;
  std::vector<Rules> rules_;
  std::map<Rules, RulesId> rules_ids_;
  std::map<std::vector<RulesId>, NodeId> built_;
  std::map<std::vector<uint32_t>, NodeId> search_memo_;
  size_t search_budget_ = 0;
  size_t largest_graph_ = 0;
};

}  // namespace srun::bpf
