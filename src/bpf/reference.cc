#include "bpf/reference.h"

#include <cstdlib>
#include <cstring>

#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

// What a load gives: a value, or the end of the program with a result.
struct Loaded {
  uint32_t value = 0;
  bool ends = false;
};

constexpr Loaded kFailedLoad{0, true};

uint32_t big_endian(const uint8_t* bytes, uint32_t size) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < size; ++i) value = value << 8 | bytes[i];
  return value;
}

uint32_t load_size(uint16_t code) {
  switch (code) {
    case kLdAbsB:
    case kLdIndB:
      return 1;
    case kLdAbsH:
    case kLdIndH:
      return 2;
    default:
      return 4;
  }
}

class CallSource {
 public:
  explicit CallSource(const CallData& call) : call_(call) {}
  uint32_t length() const { return sizeof(CallData); }
  Loaded absolute(uint16_t, uint32_t k, uint32_t, uint32_t) const {
    uint32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(&call_) + k, sizeof value);
    return {value};
  }
  // The verifier refuses both in this flavour.
  Loaded indirect(uint16_t, uint32_t) const { return kFailedLoad; }
  Loaded byte(uint32_t) const { return kFailedLoad; }

 private:
  const CallData& call_;
};

class PacketSource {
 public:
  explicit PacketSource(const Packet& packet) : packet_(packet) {}
  uint32_t length() const { return packet_.wire_length; }
  Loaded absolute(uint16_t code, uint32_t k, uint32_t a, uint32_t x) const {
    return k >= kAncillaryBase ? ancillary(static_cast<Ancillary>((k - kAncillaryBase) / 4), a, x) : indirect(code, k);
  }
  Loaded indirect(uint16_t code, uint32_t offset) const { return at(offset, load_size(code)); }
  Loaded byte(uint32_t offset) const { return at(offset, 1); }

 private:
  Loaded at(uint32_t offset, uint32_t size) const {
    const uint8_t* bytes = packet_bytes(packet_, static_cast<int32_t>(offset), size);
    return bytes == nullptr ? kFailedLoad : Loaded{big_endian(bytes, size)};
  }
  Loaded ancillary(Ancillary which, uint32_t a, uint32_t x) const {
    if (which == Ancillary::kAluXorX) return {a ^ x};
    if (!ancillary_supported(which)) return kFailedLoad;
    if (packet_.metadata != nullptr) return {packet_.metadata->values[static_cast<size_t>(which)]};
    if (which == Ancillary::kIfIndex || which == Ancillary::kHardwareType) return {a, true};
    return {0};
  }
  const Packet& packet_;
};

template <typename Source>
uint32_t interpret(std::span<const Instruction> code, const Source& source) {
  uint32_t a = 0;
  uint32_t x = 0;
  uint32_t scratch[kScratchWords] = {};
  // No bound on pc: jumps go forward, inside, and the last instruction returns; holding a Program is the proof.
  for (size_t pc = 0;; ++pc) {
    const Instruction insn = code[pc];
    const uint32_t k = insn.k;
    const auto branch = [&](bool taken) { pc += taken ? insn.jt : insn.jf; };
    // One line per opcode.
    // clang-format off
    switch (insn.code) {
      case kLdImm: a = k; break;
      case kLdxImm: x = k; break;
      case kLdMem: a = scratch[k]; break;
      case kLdxMem: x = scratch[k]; break;
      case kSt: scratch[k] = a; break;
      case kStx: scratch[k] = x; break;
      case kTax: x = a; break;
      case kTxa: a = x; break;
      case kLdLen: a = source.length(); break;
      case kLdxLen: x = source.length(); break;
      case kLdAbsW:
      case kLdAbsH:
      case kLdAbsB:
      case kLdIndW:
      case kLdIndH:
      case kLdIndB: {
        const bool absolute = insn.code == kLdAbsW || insn.code == kLdAbsH || insn.code == kLdAbsB;
        const Loaded loaded = absolute ? source.absolute(insn.code, k, a, x) : source.indirect(insn.code, x + k);
        if (loaded.ends) return loaded.value;
        a = loaded.value;
        break;
      }
      case kLdxMsh: {
        const Loaded loaded = source.byte(k);
        if (loaded.ends) return loaded.value;
        x = (loaded.value & 15) * 4;
        break;
      }
      case kAddK: a += k; break;
      case kAddX: a += x; break;
      case kSubK: a -= k; break;
      case kSubX: a -= x; break;
      case kMulK: a *= k; break;
      case kMulX: a *= x; break;
      case kDivK: a /= k; break;
      case kModK: a %= k; break;
      case kDivX:
        if (x == 0) return 0;
        a /= x;
        break;
      case kModX:
        if (x == 0) return 0;
        a %= x;
        break;
      case kAndK: a &= k; break;
      case kAndX: a &= x; break;
      case kOrK: a |= k; break;
      case kOrX: a |= x; break;
      case kXorK: a ^= k; break;
      case kXorX: a ^= x; break;
      case kLshK: a <<= k; break;
      case kLshX: a <<= x & 31; break;
      case kRshK: a >>= k; break;
      case kRshX: a >>= x & 31; break;
      case kNeg: a = 0u - a; break;
      case kJa: pc += k; break;
      case kJeqK: branch(a == k); break;
      case kJeqX: branch(a == x); break;
      case kJgtK: branch(a > k); break;
      case kJgtX: branch(a > x); break;
      case kJgeK: branch(a >= k); break;
      case kJgeX: branch(a >= x); break;
      case kJsetK: branch((a & k) != 0); break;
      case kJsetX: branch((a & x) != 0); break;
      case kRetK: return k;
      case kRetA: return a;
      default: std::abort();  // no Program holds any other opcode
    }
    // clang-format on
  }
}

}  // namespace

uint32_t run_reference(const Program& program, const CallData& call) noexcept {
  if (program.flavour() != Flavour::kSeccomp) std::abort();
  return interpret(program.code(), CallSource(call));
}

uint32_t run_reference(const Program& program, const Packet& packet) noexcept {
  if (program.flavour() != Flavour::kPacket) std::abort();
  return interpret(program.code(), PacketSource(packet));
}

uint32_t run_reference(const Program& program, std::span<const uint8_t> packet, uint32_t wire_length) noexcept {
  return run_reference(program, Packet(packet, wire_length));
}

}  // namespace srun::bpf
