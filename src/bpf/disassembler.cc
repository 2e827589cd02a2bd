#include "bpf/disassembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "bpf/opcodes.h"
#include "bpf/packet.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kNrWord = 0;
constexpr uint32_t kArchWord = 4;

struct ArchName {
  uint32_t audit_arch;
  const char* name;
};
constexpr ArchName kArchNames[] = {{0xc000003e, "x86_64"},  {0x40000003, "i386"},       {0xc00000b7, "aarch64"},
                                   {0x40000028, "arm"},     {0xc00000f3, "riscv64"},    {0x80000016, "s390x"},
                                   {0xc0000015, "ppc64le"}, {0xc0000102, "loongarch64"}};

struct ActionName {
  uint32_t action;
  const char* name;
};
constexpr ActionName kActionNames[] = {{kRetKillProcess, "KILL_PROCESS"},
                                       {kRetKillThread, "KILL_THREAD"},
                                       {kRetTrap, "TRAP"},
                                       {kRetErrno, "ERRNO"},
                                       {kRetUserNotif, "USER_NOTIF"},
                                       {kRetTrace, "TRACE"},
                                       {kRetLog, "LOG"},
                                       {kRetAllow, "ALLOW"}};

struct Mnemonic {
  uint16_t code;
  const char* name;
};
constexpr Mnemonic kWithConstant[] = {{kAddK, "add"}, {kSubK, "sub"}, {kMulK, "mul"}, {kDivK, "div"}, {kModK, "mod"},
                                      {kOrK, "or"},   {kAndK, "and"}, {kXorK, "xor"}, {kLshK, "lsh"}, {kRshK, "rsh"}};
constexpr Mnemonic kWithX[] = {{kAddX, "add"}, {kSubX, "sub"}, {kMulX, "mul"}, {kDivX, "div"}, {kModX, "mod"},
                               {kOrX, "or"},   {kAndX, "and"}, {kXorX, "xor"}, {kLshX, "lsh"}, {kRshX, "rsh"}};
constexpr Mnemonic kBare[] = {{kTax, "tax"}, {kTxa, "txa"}, {kNeg, "neg"}};
constexpr const char* kAncillaryNames[] = {"protocol", "pkttype",    "ifindex", "nlattr",   "nlattr_nest", "mark",
                                           "queue",    "hatype",     "rxhash",  "cpu",      "alu_xor_x",   "vlan_tag",
                                           "vlan_pr",  "pay_offset", "random",  "vlan_tpid"};

const char* find(std::span<const Mnemonic> table, uint16_t code) {
  for (const Mnemonic& entry : table) {
    if (entry.code == code) return entry.name;
  }
  return nullptr;
}

bool is_call_word(const Instruction& insn) {
  return insn.code == kLdAbsW && insn.k < sizeof(CallData) && insn.k % 4 == 0;
}

// A program for packets loads something that seccomp refuses.
bool reads_packets(std::span<const Instruction> code) {
  return std::any_of(code.begin(), code.end(), [](const Instruction& insn) {
    switch (insn.code) {
      case kLdAbsW:
        return !is_call_word(insn);
      case kLdAbsH:
      case kLdAbsB:
      case kLdIndW:
      case kLdIndH:
      case kLdIndB:
      case kLdxMsh:
        return true;
      default:
        return false;
    }
  });
}

// What is known before an instruction on every way to it.
struct Context {
  std::optional<uint32_t> a_word;  // A is an unchanged copy of the word at this offset
  uint32_t audit_arch = 0;         // 0: unknown
};

class Listing {
 public:
  Listing(std::span<const Instruction> code, const DisassemblyOptions& options)
      : code_(code), options_(options), packets_(reads_packets(code)), contexts_(code.size()), labels_(code.size()) {
    find_contexts();
    number_labels();
  }

  std::string text() const {
    std::string out;
    for (size_t pc = 0; pc < code_.size(); ++pc) {
      const std::string label = labels_[pc] != 0 ? label_name(pc) + ":" : std::string{};
      std::string line = fmt::format("{:04}  {:6} {}", pc, label, instruction_text(pc));
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  void arrive(uint64_t pc, const Context& context) {
    if (pc >= code_.size()) return;
    std::optional<Context>& known = contexts_[pc];
    if (!known) {
      known = context;
      return;
    }
    if (known->a_word != context.a_word) known->a_word.reset();
    if (known->audit_arch != context.audit_arch) known->audit_arch = 0;
  }

  // Jumps go forward, so one pass in order sees all ways to an instruction before the instruction.
  void find_contexts() {
    if (!code_.empty()) contexts_[0] = Context{};
    for (size_t pc = 0; pc < code_.size(); ++pc) {
      if (!contexts_[pc]) continue;
      const Instruction& insn = code_[pc];
      Context next = *contexts_[pc];
      if (is_return(insn.code)) continue;
      if (insn.code == kJa) {
        arrive(uint64_t{pc} + 1 + insn.k, next);
      } else if (is_conditional_jump(insn.code)) {
        arrive(pc + 1 + insn.jf, next);
        if (insn.code == kJeqK && next.a_word == kArchWord && !packets_) next.audit_arch = insn.k;
        arrive(pc + 1 + insn.jt, next);
      } else {
        if (insn.code == kLdAbsW) {
          next.a_word = insn.k;
        } else if (!leaves_a_alone(insn.code)) {
          next.a_word.reset();
        }
        arrive(pc + 1, next);
      }
    }
  }

  static bool leaves_a_alone(uint16_t code) {
    switch (code) {
      case kLdxImm:
      case kLdxMem:
      case kLdxLen:
      case kLdxMsh:
      case kSt:
      case kStx:
      case kTax:
        return true;
      default:
        return false;
    }
  }

  void number_labels() {
    const auto mark = [&](uint64_t pc) {
      if (pc < code_.size()) labels_[pc] = 1;
    };
    for (size_t pc = 0; pc < code_.size(); ++pc) {
      const Instruction& insn = code_[pc];
      if (insn.code == kJa) mark(uint64_t{pc} + 1 + insn.k);
      if (!is_conditional_jump(insn.code)) continue;
      if (insn.jt != 0) mark(pc + 1 + insn.jt);
      if (insn.jf != 0) mark(pc + 1 + insn.jf);
    }
    uint32_t next = 1;
    for (uint32_t& label : labels_) {
      if (label != 0) label = next++;
    }
  }

  std::string label_name(size_t pc) const { return fmt::format("L{:04}", labels_[pc]); }

  std::string target(uint64_t pc) const {
    return pc < code_.size() ? label_name(static_cast<size_t>(pc)) : fmt::format("outside({})", pc);
  }

  std::string instruction_text(size_t pc) const {
    const Instruction& insn = code_[pc];
    const auto line = [](const char* operation, const std::string& operand) {
      return fmt::format("{:5} {}", operation, operand);
    };
    if (const char* name = find(kWithConstant, insn.code)) {
      const bool decimal = insn.code == kLshK || insn.code == kRshK;
      return line(name, decimal ? std::to_string(insn.k) : fmt::format("{:#x}", insn.k));
    }
    if (const char* name = find(kWithX, insn.code)) return line(name, "x");
    if (const char* name = find(kBare, insn.code)) return name;
    switch (insn.code) {
      case kLdImm:
        return line("ld", fmt::format("#{:#x}", insn.k));
      case kLdxImm:
        return line("ldx", fmt::format("#{:#x}", insn.k));
      case kLdMem:
        return line("ld", fmt::format("M[{}]", insn.k));
      case kLdxMem:
        return line("ldx", fmt::format("M[{}]", insn.k));
      case kSt:
        return line("st", fmt::format("M[{}]", insn.k));
      case kStx:
        return line("stx", fmt::format("M[{}]", insn.k));
      case kLdLen:
        return line("ld", "len");
      case kLdxLen:
        return line("ldx", "len");
      case kLdAbsW:
        return line("ld", absolute(insn.k));
      case kLdAbsH:
        return line("ldh", absolute(insn.k));
      case kLdAbsB:
        return line("ldb", absolute(insn.k));
      case kLdIndW:
        return line("ld", fmt::format("[x + {}]", insn.k));
      case kLdIndH:
        return line("ldh", fmt::format("[x + {}]", insn.k));
      case kLdIndB:
        return line("ldb", fmt::format("[x + {}]", insn.k));
      case kLdxMsh:
        return line("ldx", fmt::format("4*([{}]&0xf)", insn.k));
      case kJa:
        return line("ja", target(uint64_t{pc} + 1 + insn.k));
      case kJeqK:
      case kJeqX:
        return line("jeq", jump(pc));
      case kJgtK:
      case kJgtX:
        return line("jgt", jump(pc));
      case kJgeK:
      case kJgeX:
        return line("jge", jump(pc));
      case kJsetK:
      case kJsetX:
        return line("jset", jump(pc));
      case kRetA:
        return line("ret", "a");
      case kRetK:
        return line("ret", return_text(insn.k));
      default:
        return line(".raw", fmt::format("code={:#06x} jt={} jf={} k={:#x}", insn.code, insn.jt, insn.jf, insn.k));
    }
  }

  std::string absolute(uint32_t k) const {
    if (!packets_) return call_word_text(k);
    if (k >= kAncillaryBase && k % 4 == 0 && (k - kAncillaryBase) / 4 < kAncillaryCount) {
      return fmt::format("#{}", kAncillaryNames[(k - kAncillaryBase) / 4]);
    }
    return k < 0x80000000 ? fmt::format("[{}]", k) : fmt::format("[{:#x}]", k);
  }

  std::string return_text(uint32_t value) const {
    if (options_.return_text) {
      std::string text = options_.return_text(value);
      if (!text.empty()) return text;
    }
    return packets_ ? std::to_string(value) : return_value_text(value);
  }

  std::string jump(size_t pc) const {
    const Instruction& insn = code_[pc];
    const auto side = [&](uint8_t offset) { return offset == 0 ? std::string("next") : target(pc + 1 + offset); };
    return fmt::format("{} ? {} : {}", operand(pc), side(insn.jt), side(insn.jf));
  }

  std::string operand(size_t pc) const {
    const Instruction& insn = code_[pc];
    const bool is_x = (insn.code & 0x08) != 0;
    if (is_x) return "x";
    const Context context = contexts_[pc].value_or(Context{});
    if (packets_ || !context.a_word || insn.code == kJsetK) return fmt::format("{:#x}", insn.k);
    if (*context.a_word == kArchWord) return audit_arch_text(insn.k);
    if (*context.a_word != kNrWord) return fmt::format("{:#x}", insn.k);
    std::string number = insn.k < 0x40000000 ? std::to_string(insn.k) : fmt::format("{:#x}", insn.k);
    const std::string name = options_.call_name ? options_.call_name(context.audit_arch, insn.k) : std::string{};
    return name.empty() ? number : number + " " + name;
  }

  std::span<const Instruction> code_;
  const DisassemblyOptions& options_;
  bool packets_;
  std::vector<std::optional<Context>> contexts_;
  std::vector<uint32_t> labels_;  // 0: nothing jumps there
};

}  // namespace

std::string disassemble(std::span<const Instruction> code, const DisassemblyOptions& options) {
  return Listing(code, options).text();
}

std::string return_value_text(uint32_t value) {
  const uint32_t data = value & kRetDataMask;
  for (const ActionName& entry : kActionNames) {
    if (entry.action != (value & kRetActionMask)) continue;
    return data == 0 ? entry.name : fmt::format("{}({})", entry.name, data);
  }
  return fmt::format("{:#010x}", value);
}

std::string audit_arch_text(uint32_t audit_arch) {
  for (const ArchName& entry : kArchNames) {
    if (entry.audit_arch == audit_arch) return entry.name;
  }
  return fmt::format("{:#x}", audit_arch);
}

std::string call_word_text(uint32_t offset) {
  if (offset == kNrWord) return "nr";
  if (offset == kArchWord) return "arch";
  const char* half = offset % 8 == 0 ? "lo" : "hi";
  return offset < 16 ? fmt::format("ip.{}", half) : fmt::format("arg{}.{}", (offset - 16) / 8, half);
}

}  // namespace srun::bpf
