#include "bpf/converter.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "bpf/opcodes.h"
#include "bpf/packet.h"
#include "bpf/passes/liveness.h"
#include "bpf/passes/lowering.h"
#include "bpf/passes/passes.h"

namespace srun::bpf {
namespace {

using isa::Insn;
using isa::kA;
using isa::kX;
using isa::Op;

// The 32K form with A as destination; the X form follows it in the table of operations.
constexpr Op kNoOp = Op::kRetA;
Op alu_or_jump(uint16_t code) {
  switch (code & 0xf7) {
    case kAddK:
      return Op::kAdd32K;
    case kSubK:
      return Op::kSub32K;
    case kMulK:
      return Op::kMul32K;
    case kDivK:
      return Op::kDiv32K;
    case kModK:
      return Op::kMod32K;
    case kAndK:
      return Op::kAnd32K;
    case kOrK:
      return Op::kOr32K;
    case kXorK:
      return Op::kXor32K;
    case kLshK:
      return Op::kLsh32K;
    case kRshK:
      return Op::kRsh32K;
    case kJeqK:
      return Op::kJeq32K;
    case kJgtK:
      return Op::kJgt32K;
    case kJgeK:
      return Op::kJge32K;
    case kJsetK:
      return Op::kJset32K;
    default:
      return kNoOp;
  }
}

constexpr Op shifted(Op op, int by) { return static_cast<Op>(static_cast<int>(op) + by); }
constexpr Op x_form(Op op) { return shifted(op, 1); }
constexpr Op wide_form(Op op) { return shifted(op, 2); }

Op inverted(Op op) {
  constexpr Op kPairs[][2] = {{Op::kJeq32K, Op::kJne32K},
                              {Op::kJgt32K, Op::kJle32K},
                              {Op::kJge32K, Op::kJlt32K},
                              {Op::kJset32K, Op::kJnset32K}};
  for (const auto& [plain, inverse] : kPairs) {
    const int form = static_cast<int>(op) - static_cast<int>(plain);
    if (form >= 0 && form < 4) return shifted(inverse, form);
  }
  return kNoOp;
}

class Emitter {
 public:
  explicit Emitter(FlowGraph graph) : graph_(std::move(graph)), begins_(graph_.nodes.size(), kNoNode) {}

  isa::Code run() {
    const LiveSet live = find_liveness(graph_)[graph_.entry];
    code_.reads_initial_a = (live & kLiveA) != 0;
    code_.reads_initial_x = (live & kLiveX) != 0;
    place();
    for (size_t i = 0; i < order_.size(); ++i) {
      begins_[order_[i]] = here();
      emit(graph_.nodes[order_[i]], i + 1 < order_.size() ? order_[i + 1] : kNoNode);
    }
    for (const auto& [insn, node] : patches_) {
      code_.insns[insn].off = static_cast<int32_t>(begins_[node]) - static_cast<int32_t>(insn) - 1;
    }
    code_.flavour = graph_.flavour;
    code_.switches = std::move(graph_.switches);
    for (SwitchArms& arms : code_.switches) {
      for (SwitchArm& arm : arms) arm.target = begins_[arm.target];
      // Different nodes may begin at the same instruction, because jump nodes emit nothing.
      const auto same = [](const SwitchArm& left, const SwitchArm& right) { return left.target == right.target; };
      arms.erase(std::unique(arms.begin(), arms.end(), same), arms.end());
    }
    return std::move(code_);
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(code_.insns.size()); }

  // An order in which as many nodes as possible fall through to their successor; the lowest number first otherwise.
  void place() {
    std::vector<bool> placed(graph_.nodes.size());
    std::set<uint32_t> pending{graph_.entry};
    while (!pending.empty()) {
      uint32_t node = *pending.begin();
      pending.erase(pending.begin());
      while (node != kNoNode && !placed[node]) {
        placed[node] = true;
        order_.push_back(node);
        const FlowNode& current = graph_.nodes[node];
        for_each_successor(graph_, current, [&](uint32_t successor) {
          if (!placed[successor]) pending.insert(successor);
        });
        node = is_branch(current.code) && !placed[current.other] ? current.other : current.next;
        if (node != kNoNode) pending.erase(node);
      }
    }
  }

  void emit_op(Op op, uint8_t dst, uint8_t src, uint64_t imm, int32_t off = 0) {
    code_.insns.push_back({op, dst, src, off, imm});
  }
  void emit_jump(Op op, uint8_t dst, uint8_t src, uint64_t imm, uint32_t target) {
    patches_.emplace_back(here(), target);
    emit_op(op, dst, src, imm);
  }

  void emit_return(const FlowNode& node) {
    if (node.code == kRetK) {
      emit_op(Op::kRetK, 0, 0, node.k);
    } else {
      emit_op(Op::kRetA, 0, 0, 0);
    }
  }

  // Continues at `target`, which follows or not. A return is copied: shorter than a jump to it.
  void go_to(uint32_t target, uint32_t following) {
    if (target == following) return;
    // A jump node emits nothing, so what it leads to may be what follows here.
    const FlowNode& node = graph_.nodes[target];
    if (is_return(node.code)) {
      emit_return(node);
    } else {
      emit_jump(Op::kJa, 0, 0, 0, target);
    }
  }

  void branch(Op op, uint8_t dst, uint8_t src, uint64_t imm, const FlowNode& node, uint32_t following) {
    if (node.next == following) {
      emit_jump(inverted(op), dst, src, imm, node.other);
    } else {
      emit_jump(op, dst, src, imm, node.next);
      go_to(node.other, following);
    }
  }

  void emit(const FlowNode& node, uint32_t following) {
    if (is_return(node.code)) {
      emit_return(node);
      return;
    }
    if (node.code == kFlowSwitch) {
      emit_op(Op::kSwitch, 0, 0, node.extra);
      return;
    }
    if (node.code == kFlowWide) {
      const WideCompare& wide = graph_.wides[node.extra];
      emit_op(Op::kLoad64, isa::kR1, isa::kContext, 0, static_cast<int32_t>(wide.offset));
      branch(wide_form(alu_or_jump(wide.op)), isa::kR1, 0, wide.value, node, following);
      return;
    }
    if (is_conditional_jump(node.code)) {
      const Op op = alu_or_jump(node.code);
      if ((node.code & 0x08) != 0) {
        branch(x_form(op), kA, kX, 0, node, following);
      } else {
        branch(op, kA, node.width, node.k, node, following);
      }
      return;
    }
    emit_plain(node);
    go_to(node.next, following);
  }

  void emit_plain(const FlowNode& node) {
    const int32_t slot = isa::slot_offset(node.k & (kScratchWords - 1));
    switch (node.code) {
      case kJa:
        break;
      case kLdImm:
        emit_op(Op::kMov32K, kA, 0, node.k);
        break;
      case kLdxImm:
        emit_op(Op::kMov32K, kX, 0, node.k);
        break;
      case kTax:
        emit_op(Op::kMov32X, kX, kA, 0);
        break;
      case kTxa:
        emit_op(Op::kMov32X, kA, kX, 0);
        break;
      case kLdMem:
        emit_op(Op::kLoad32, kA, isa::kFrame, 0, slot);
        break;
      case kLdxMem:
        emit_op(Op::kLoad32, kX, isa::kFrame, 0, slot);
        break;
      case kSt:
        emit_op(Op::kStore32, isa::kFrame, kA, 0, slot);
        break;
      case kStx:
        emit_op(Op::kStore32, isa::kFrame, kX, 0, slot);
        break;
      case kNeg:
        emit_op(Op::kNeg32, kA, 0, 0);
        break;
      case kLdLen:
        emit_length(kA);
        break;
      case kLdxLen:
        emit_length(kX);
        break;
      case kLdAbsW:
        if (graph_.flavour == Flavour::kSeccomp) {
          emit_op(Op::kLoad32, kA, isa::kContext, 0, static_cast<int32_t>(node.k));
        } else {
          emit_absolute(node, Op::kLdAbs32, isa::Helper::kLoadNegative32);
        }
        break;
      case kLdAbsH:
        emit_absolute(node, Op::kLdAbs16, isa::Helper::kLoadNegative16);
        break;
      case kLdAbsB:
        emit_absolute(node, Op::kLdAbs8, isa::Helper::kLoadNegative8);
        break;
      case kLdIndW:
        emit_indirect(node, Op::kLdInd32, Op::kLdNear32);
        break;
      case kLdIndH:
        emit_indirect(node, Op::kLdInd16, Op::kLdNear16);
        break;
      case kLdIndB:
        emit_indirect(node, Op::kLdInd8, Op::kLdNear8);
        break;
      case kLdxMsh:
        emit_msh(node);
        break;
      default: {
        const Op op = alu_or_jump(node.code);
        if ((node.code & 0x08) != 0) {
          emit_op(x_form(op), kA, kX, 0);
        } else {
          emit_op(op, kA, 0, node.k);
        }
      }
    }
  }

  void emit_length(uint8_t dst) {
    emit_op(Op::kLoad32, dst, isa::kContext, 0, static_cast<int32_t>(offsetof(Packet, wire_length)));
  }

  void emit_call(isa::Helper helper, uint32_t argument) {
    emit_op(Op::kCall, 0, 0, isa::pack(static_cast<uint32_t>(helper), argument));
  }

  void emit_absolute(const FlowNode& node, Op op, isa::Helper negative) {
    if (node.k < 0x80000000) {
      emit_op(op, kA, 0, isa::pack(node.k, node.limit), node.width != 0 ? 1 : 0);
    } else if (node.k < kAncillaryBase) {
      emit_call(negative, node.k);
    } else {
      emit_ancillary(static_cast<Ancillary>((node.k - kAncillaryBase) / 4));
    }
  }

  void emit_indirect(const FlowNode& node, Op indirect, Op near) {
    const int32_t hint = node.width != 0 ? 1 : 0;
    if (node.near) {
      emit_op(near, kA, kX, isa::pack(node.k, node.limit), hint);
    } else {
      emit_op(indirect, kA, kX, node.k, hint);
    }
  }

  void emit_ancillary(Ancillary which) {
    if (which == Ancillary::kAluXorX) {
      emit_op(Op::kXor32X, kA, kX, 0);
      return;
    }
    if (!ancillary_supported(which)) {
      emit_op(Op::kRetK, 0, 0, 0);
      return;
    }
    emit_op(Op::kLoad64, isa::kR1, isa::kContext, 0, static_cast<int32_t>(offsetof(Packet, metadata)));
    if (which == Ancillary::kIfIndex || which == Ancillary::kHardwareType) {
      emit_op(Op::kJne64K, isa::kR1, 0, 0, 1);
      emit_op(Op::kRetA, 0, 0, 0);
    } else {
      emit_op(Op::kJne64K, isa::kR1, 0, 0, 2);
      emit_op(Op::kMov32K, kA, 0, 0);
      emit_op(Op::kJa, 0, 0, 0, 1);
    }
    emit_op(Op::kLoad32, kA, isa::kR1, 0, static_cast<int32_t>(4 * static_cast<uint32_t>(which)));
  }

  void emit_msh(const FlowNode& node) {
    if (node.k < 0x80000000) {
      emit_op(Op::kLdMsh, kX, 0, isa::pack(node.k, node.limit));
      return;
    }
    // The helper's result is in A, so A waits in X meanwhile.
    emit_op(Op::kMov32X, kX, kA, 0);
    emit_call(isa::Helper::kLoadNegative8, node.k);
    emit_op(Op::kAnd32K, kA, 0, 15);
    emit_op(Op::kLsh32K, kA, 0, 2);
    emit_op(Op::kMov32X, isa::kR2, kX, 0);
    emit_op(Op::kMov32X, kX, kA, 0);
    emit_op(Op::kMov32X, kA, isa::kR2, 0);
  }

  FlowGraph graph_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> begins_;
  std::vector<std::pair<uint32_t, uint32_t>> patches_;
  isa::Code code_;
};

// Each load checks for itself.
void check_every_load(FlowGraph& graph) {
  for (FlowNode& node : graph.nodes) node.limit = node.k + load_bytes(node.code);
}

}  // namespace

isa::Code convert(const Program& program, const ConvertOptions& options) {
  FlowGraph graph = flow_graph(program);
  if (options.clean_up) clean_up(graph);
  if (options.lower) {
    if (recombine_halves(graph)) clean_up(graph);
    if (remove_unread_loads(graph)) clean_up(graph);
    place_bounds_checks(graph);
    // The edges of a switch are paths that were there before, so the limits hold.
    lower_dispatch(graph);
    remove_unreachable(graph);
    mark_compared_loads(graph);
  } else {
    check_every_load(graph);
  }
  return Emitter(std::move(graph)).run();
}

}  // namespace srun::bpf
