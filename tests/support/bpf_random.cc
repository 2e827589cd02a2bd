#include "support/bpf_random.h"

#include <algorithm>

#include "bpf/opcodes.h"
#include "bpf/packet.h"

namespace srun::bpf::test {

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint32_t Random::below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

uint32_t Random::value() {
  constexpr uint32_t kBoundaries[] = {0,          1,          2,          31,         32,        33,   63,
                                      64,         0x7f,       0x80,       15,         16,        0xff, 0xffff,
                                      0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  switch (below(4)) {
    case 0:
      return kBoundaries[below(std::size(kBoundaries))];
    case 1:
      return below(300);
    case 2:
      return 1u << below(32);
    default:
      return static_cast<uint32_t>(next());
  }
}

namespace {

constexpr Opcode kAluK[] = {kAddK, kSubK, kMulK, kDivK, kOrK, kAndK, kLshK, kRshK, kXorK, kModK};
constexpr Opcode kAluX[] = {kAddX, kSubX, kMulX, kDivX, kOrX, kAndX, kLshX, kRshX, kXorX, kModX};
constexpr Opcode kJumps[] = {kJeqK, kJeqK, kJgtK, kJgeK, kJsetK, kJeqX, kJgtX, kJgeX, kJsetX};
constexpr Opcode kArgumentTests[] = {kJeqK, kJeqK, kJeqK, kJgtK, kJgeK, kJsetK};
constexpr Opcode kPacketLoads[] = {kLdAbsW, kLdAbsH, kLdAbsB, kLdIndW, kLdIndH, kLdIndB};

class Generator {
 public:
  Generator(Random& random, const ProgramShape& shape)
      : random_(random),
        shape_(shape),
        length_(shape.min_length + random.below(shape.max_length - shape.min_length + 1)),
        scratch_words_(random.below(4)) {}

  std::vector<Instruction> run() {
    for (uint32_t word = 0; word < scratch_words_ && room() > 1; ++word) {
      if (random_.percent(50)) emit(kLdImm, random_.value());
      if (room() > 1) emit(kSt, word);
    }
    // Reads are emitted only for the words that the prologue has written on every path.
    initialised_ = std::min<uint32_t>(scratch_words_, stores());
    const uint32_t returns = 1 + random_.below(4);
    while (room() > returns) step();
    while (room() > 0) emit_return();
    return std::move(code_);
  }

 private:
  uint32_t room() const { return length_ - static_cast<uint32_t>(code_.size()); }
  uint32_t stores() const {
    return static_cast<uint32_t>(
        std::count_if(code_.begin(), code_.end(), [](const Instruction& insn) { return insn.code == kSt; }));
  }
  void emit(uint16_t opcode, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) { code_.push_back({opcode, jt, jf, k}); }

  void emit_return() {
    if (random_.percent(40)) {
      emit(kRetA, random_.value());
    } else {
      emit(kRetK, random_.percent(50) ? kRetErrno | random_.below(200) : random_.value());
    }
  }

  // A forward distance that stays inside; mostly short so that most of the program is reached.
  uint8_t distance() {
    const uint32_t limit = std::min<uint32_t>(255, room() - 2);
    return static_cast<uint8_t>(random_.below((random_.percent(70) ? std::min<uint32_t>(limit, 4) : limit) + 1));
  }

  void emit_jump(uint16_t opcode, uint32_t k) {
    const uint8_t jt = random_.percent(40) ? 0 : distance();
    const uint8_t jf = random_.percent(60) ? 0 : distance();
    emit(opcode, k, jt, jf);
  }

  uint32_t call_word() {
    return random_.percent(50) ? 4 * random_.below(16) : (random_.percent(70) ? 0 : 16 + 4 * random_.below(2));
  }

  void emit_load() {
    if (shape_.flavour == Flavour::kSeccomp) {
      emit(kLdAbsW, call_word());
      return;
    }
    const Opcode opcode = kPacketLoads[random_.below(std::size(kPacketLoads))];
    uint32_t k = random_.below(shape_.packet_length);
    if (random_.percent(3)) k = random_.value() & 0x7fffffff;
    if (shape_.negative_offsets && random_.percent(8)) {
      k = (random_.percent(50) ? 0xfff00000 : 0xffe00000) + random_.below(shape_.packet_length);
      if (random_.percent(30)) k = kAncillaryBase + 4 * random_.below(kAncillaryCount);
      // Just below the ancillary range, and what is below the link layer: both verify and fail.
      if (random_.percent(5)) k = random_.percent(50) ? 0xffffefff : 0x80000000 + random_.below(100);
    }
    if (opcode == kLdIndW || opcode == kLdIndH || opcode == kLdIndB) {
      if (random_.percent(60)) emit(kLdxImm, random_.percent(80) ? random_.below(16) : random_.value());
      if (room() > 1) emit(opcode, k);
    } else if (random_.percent(12)) {
      emit(kLdxMsh, k);
    } else {
      emit(opcode, k);
    }
  }

  void emit_equality_run() {
    const uint32_t count = std::min<uint32_t>(2 + random_.below(random_.percent(15) ? 60 : 10), room() - 2);
    const uint32_t base = random_.value();
    const uint32_t spread = random_.percent(70) ? 2 * count : 1u << random_.below(31);
    const uint32_t target = static_cast<uint32_t>(code_.size()) + count + random_.below(4);
    emit_load();
    for (uint32_t i = 0; i < count && room() > 2; ++i) {
      const uint32_t k = base + random_.below(spread + 1);
      const uint32_t pc = static_cast<uint32_t>(code_.size());
      uint8_t jt = distance();
      if (random_.percent(60) && target > pc && target < length_ && target - pc - 1 <= 255) {
        jt = static_cast<uint8_t>(target - pc - 1);
      }
      emit(random_.percent(95) ? kJeqK : kJgtK, k, jt, random_.percent(95) ? 0 : distance());
    }
  }

  void emit_argument_compare() {
    if (room() < 10) return;
    const uint32_t low = shape_.flavour == Flavour::kSeccomp ? 16 + 8 * random_.below(6) : random_.below(32);
    const uint32_t high_value = random_.percent(60) ? 0 : random_.value();
    // Often to the end, where the returns are and nobody reads A any more.
    const auto place = [&] {
      const uint32_t behind = static_cast<uint32_t>(code_.size()) + 6;
      const uint32_t last = std::min(length_ - 1, behind + 240);
      return random_.percent(60) ? last - random_.below(2) : behind + random_.below(last - behind + 1);
    };
    const uint32_t yes = place();
    const uint32_t no = place();
    const auto to = [&](uint32_t target) { return static_cast<uint8_t>(target - code_.size() - 1); };
    emit(kLdAbsW, low + 4);
    const bool ordered = random_.percent(40);
    // Above decides, below decides, equal looks at the low half; or equality alone.
    if (ordered) emit(kJgtK, high_value, to(yes), 0);
    emit(kJeqK, high_value, 0, to(no));
    emit(kLdAbsW, low);
    if (random_.percent(10)) emit(kAndK, random_.value());
    const Opcode compare = ordered ? (random_.percent(50) ? kJgtK : kJgeK) : kArgumentTests[random_.below(6)];
    emit(compare, random_.value(), to(yes), to(no));
  }

  void emit_alu() {
    const bool seccomp = shape_.flavour == Flavour::kSeccomp;
    const uint32_t count = seccomp ? 9 : 10;  // seccomp has no MOD
    if (random_.percent(50)) {
      const Opcode opcode = kAluK[random_.below(count)];
      uint32_t k = random_.value();
      if (opcode == kLshK || opcode == kRshK) k %= 32;
      if (opcode == kDivK || opcode == kModK) k = std::max<uint32_t>(k, 1);
      emit(opcode, k);
    } else {
      const Opcode opcode = kAluX[random_.below(count)];
      // X is often 0, and DIV and MOD then end the program: keep them rare.
      if ((opcode == kDivX || opcode == kModX) && random_.percent(80)) return;
      emit(opcode, random_.value());
    }
  }

  void emit_transfer() {
    switch (random_.below(scratch_words_ > 0 && initialised_ > 0 ? 10 : 6)) {
      case 0:
        emit(kTax, 0);
        break;
      case 1:
        emit(kTxa, 0);
        break;
      case 2:
        emit(kLdImm, random_.value());
        break;
      case 3:
        emit(kLdxImm, random_.value());
        break;
      case 4:
        emit(random_.percent(50) ? kLdLen : kLdxLen, 0);
        break;
      case 5:
        emit(kNeg, 0);
        break;
      case 6:
        emit(kSt, random_.below(initialised_));
        break;
      case 7:
        emit(kStx, random_.below(initialised_));
        break;
      case 8:
        emit(kLdMem, random_.below(initialised_));
        break;
      default:
        emit(kLdxMem, random_.below(initialised_));
        break;
    }
  }

  void step() {
    switch (random_.below(10)) {
      case 0:
      case 1:
        emit_load();
        break;
      case 2:
        emit_alu();
        break;
      case 3:
        emit_transfer();
        break;
      case 4:
        if (room() > 8) emit_equality_run();
        break;
      case 5:
        emit_argument_compare();
        break;
      case 6:
        if (random_.percent(15)) {
          emit_return();
        } else if (random_.percent(15)) {
          emit(kJa, distance());
        }
        break;
      default:
        emit_jump(kJumps[random_.below(std::size(kJumps))], random_.value());
        break;
    }
  }

  Random& random_;
  const ProgramShape& shape_;
  const uint32_t length_;
  const uint32_t scratch_words_;
  uint32_t initialised_ = 0;
  std::vector<Instruction> code_;
};

}  // namespace

std::vector<Instruction> random_program(Random& random, const ProgramShape& shape) {
  return Generator(random, shape).run();
}

CallData random_call(Random& random, std::span<const Instruction> code) {
  const auto word = [&]() -> uint64_t {
    switch (random.below(6)) {
      case 0:
        return 0;
      case 1:
        return random.value();
      case 2:
        return code[random.below(static_cast<uint32_t>(code.size()))].k + random.below(3) - 1;
      default:
        return code[random.below(static_cast<uint32_t>(code.size()))].k;
    }
  };
  CallData call;
  call.nr = static_cast<int32_t>(word());
  call.arch = random.percent(80) ? 0xc000003e : static_cast<uint32_t>(word());
  call.instruction_pointer = random.next();
  for (uint64_t& arg : call.args) {
    arg = word() & 0xffffffff;
    if (random.percent(40)) arg |= word() << 32;
  }
  return call;
}

std::vector<uint8_t> random_packet(Random& random, std::span<const Instruction> code, uint32_t max_length) {
  std::vector<uint8_t> bytes(random.percent(70) ? max_length : random.below(max_length + 1));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.percent(50) ? random.below(16) : random.next());
  // Plant constants where the program loads, as the loads see them: a compare after a load then often holds.
  for (size_t pc = 0; pc + 1 < code.size(); ++pc) {
    const uint32_t size = code[pc].code == kLdAbsW   ? 4
                          : code[pc].code == kLdAbsH ? 2
                          : code[pc].code == kLdAbsB ? 1
                                                     : 0;
    if (size == 0 || code[pc].k >= bytes.size() || bytes.size() - code[pc].k < size || random.percent(40)) continue;
    const size_t ahead = std::min<size_t>(code.size() - 1, pc + 1 + random.below(6));
    for (uint32_t i = 0; i < size; ++i) {
      bytes[code[pc].k + i] = static_cast<uint8_t>(code[ahead].k >> (8 * (size - 1 - i)));
    }
  }
  return bytes;
}

}  // namespace srun::bpf::test
