#include "kernel/constants.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace srun::kernel {
namespace {

enum class Family : uint8_t { kOther, kErrno, kSignal };

struct Row {
  std::string_view name;
  uint64_t value;
  Family family;
};
constexpr Row row(std::string_view name, int64_t value, Family family) {
  return {name, static_cast<uint64_t>(value), family};
}

constexpr Row kRows[] = {
#define SRUN_CONSTANT(name, value) row(name, value, Family::kOther),
#define SRUN_ERRNO(name, value) row(name, value, Family::kErrno),
#define SRUN_SIGNAL(name, value) row(name, value, Family::kSignal),
#include "kernel/constants.def"
#undef SRUN_CONSTANT
#undef SRUN_ERRNO
#undef SRUN_SIGNAL
};
constexpr size_t kRowCount = std::size(kRows);
static_assert(std::is_sorted(std::begin(kRows), std::end(kRows),
                             [](const Row& a, const Row& b) { return a.name < b.name; }));

constexpr std::array<Constant, kRowCount> make_constants() {
  std::array<Constant, kRowCount> result{};
  for (size_t i = 0; i < kRowCount; ++i) result[i] = {kRows[i].name, kRows[i].value};
  return result;
}
constexpr std::array<Constant, kRowCount> kConstants = make_constants();

// arch/arm64/include/uapi/asm/fcntl.h; O_TMPFILE contains O_DIRECTORY.
constexpr Constant kAArch64Constants[] = {
    {"O_DIRECT", 0200000},   {"O_DIRECTORY", 040000},  {"O_LARGEFILE", 0400000},
    {"O_NOFOLLOW", 0100000}, {"O_TMPFILE", 020040000},
};

const Row* find_row(std::string_view name) {
  const auto at = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                   [](const Row& row, std::string_view wanted) { return row.name < wanted; });
  return at != std::end(kRows) && at->name == name ? &*at : nullptr;
}

std::optional<int> find_in_family(std::string_view name, Family family) {
  const Row* const row = find_row(name);
  return row != nullptr && row->family == family ? std::optional(static_cast<int>(row->value)) : std::nullopt;
}

}  // namespace

std::span<const Constant> constants() { return kConstants; }

std::optional<uint64_t> find_constant(std::string_view name) {
  const Row* const row = find_row(name);
  return row != nullptr ? std::optional(row->value) : std::nullopt;
}

std::optional<uint64_t> find_constant(std::string_view name, Arch arch) {
  if (arch == Arch::kAArch64)
    for (const Constant& constant : kAArch64Constants)
      if (constant.name == name) return constant.value;
  return find_constant(name);
}

std::optional<int> find_errno(std::string_view name) { return find_in_family(name, Family::kErrno); }

std::optional<int> find_signal(std::string_view name) { return find_in_family(name, Family::kSignal); }

}  // namespace srun::kernel
