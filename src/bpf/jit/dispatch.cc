#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <algorithm>

#include "bpf/jit/assembler.h"

namespace srun::bpf::jit {
namespace {

// Fewer arms are compared one after the other in a tree.
constexpr size_t kMaxTreeArms = 4;
// A table by value is used if it is not much larger than the list of arms.
constexpr uint64_t kTableBytesPerArm = 64;

}  // namespace

// Sends eax to the arms [from, to), which it is known to belong to. `last`: what is emitted next is the following
// instruction.
void Assembler::dispatch(const SwitchArms& arms, size_t from, size_t to, bool last) {
  const size_t count = to - from;
  if (count == 1) {
    go_to(arms[from].target, last);
    return;
  }
  const uint32_t base = arms[from + 1].first;
  const uint32_t span = arms[to - 1].first - base;  // values between the outer arms
  const bool same_outside = arms[from].target == arms[to - 1].target;
  if (count == 3 && same_outside && span == 1) {
    with_constant(base, false, [&](auto value) { cmp(eax, value); });
    je(labels_[arms[from + 1].target], T_NEAR);
    go_to(arms[from].target, last);
    return;
  }
  // A blinded program uses trees only: ranges and tables need constants in places that cannot be masked.
  if (count == 3 && same_outside && !blind_) {
    lea(r10d, ptr[rax + displacement(static_cast<int32_t>(0u - base))]);
    cmp(r10d, span);
    jb(labels_[arms[from + 1].target], T_NEAR);
    go_to(arms[from].target, last);
    return;
  }
  if (count > kMaxTreeArms && second_ && span <= kTableBytesPerArm * count && !blind_) {
    dispatch_by_table(arms, from, to, last);
    return;
  }
  const size_t middle = from + count / 2;
  Label lower;
  with_constant(arms[middle].first, false, [&](auto value) { cmp(eax, value); });
  jb(lower, T_NEAR);
  dispatch(arms, middle, to, false);
  L(lower);
  dispatch(arms, from, middle, last);
}

void Assembler::go_to(uint32_t insn, bool last) {
  if (!last || insn != pc_ + 1) jmp(labels_[insn], T_NEAR);
}

// Between the outer arms a table by value: one bit, one byte or one jump distance each.
void Assembler::dispatch_by_table(const SwitchArms& arms, size_t from, size_t to, bool last) {
  const uint32_t base = arms[from + 1].first;
  const uint32_t span = arms[to - 1].first - base;
  const uint32_t below = arms[from].target;
  const uint32_t above = arms[to - 1].target;
  std::vector<uint32_t> by_value;
  std::vector<uint32_t> distinct;  // at least two: more than two inner arms, and neighbours differ
  for (size_t arm = from + 1; arm + 1 < to; ++arm) {
    by_value.insert(by_value.end(), arms[arm + 1].first - arms[arm].first, arms[arm].target);
    if (std::find(distinct.begin(), distinct.end(), arms[arm].target) == distinct.end()) {
      distinct.push_back(arms[arm].target);
    }
  }
  Label outside;
  lea(r10d, ptr[rax + displacement(static_cast<int32_t>(0u - base))]);
  cmp(r10d, span);
  jae(below == above ? labels_[above] : outside, T_NEAR);
  const bool then_last = last && below == above;
  if (distinct.size() == 2 && span <= 64) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < span; ++i) bits |= uint64_t{by_value[i] == distinct[1]} << i;
    mov(*second_, bits);
    bt(*second_, r10);
    jc(labels_[distinct[1]], T_NEAR);
    go_to(distinct[0], then_last);
  } else {
    Table& table = tables_.emplace_back();
    lea(*second_, ptr[rip + table.label]);
    if (distinct.size() <= 3) {
      for (const uint32_t one : by_value) {
        const auto place = std::find(distinct.begin(), distinct.end(), one);
        table.classes.push_back(static_cast<uint8_t>(place - distinct.begin()));
      }
      cmp(byte[*second_ + r10], 1);
      if (distinct.size() == 3) ja(labels_[distinct[2]], T_NEAR);
      je(labels_[distinct[1]], T_NEAR);
      go_to(distinct[0], then_last);
    } else {
      table.targets = std::move(by_value);
      movsxd(r10, dword[*second_ + r10 * 4]);
      add(r10, *second_);
      jmp(r10);
    }
  }
  if (below == above) return;
  L(outside);
  cmp(eax, base);
  jb(labels_[below], T_NEAR);
  go_to(above, last);
}

void Assembler::emit_table(Table& table) {
  align(4);
  L(table.label);
  for (const uint8_t one : table.classes) db(one);
  // Distances from the table, so that the bytes do not depend on their address.
  for (const uint32_t one : table.targets) {
    dd(static_cast<uint32_t>(labels_[one].getAddress() - table.label.getAddress()));
  }
}

}  // namespace srun::bpf::jit
#endif
