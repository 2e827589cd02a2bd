#pragma once
// Flags and values by name, in strace's order (xlat.def).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace srun::trace {

enum class XlatId : uint8_t {
#define SRUN_XLAT(table, unknown, names) table,
#include "trace/xlat.def"
#undef SRUN_XLAT
};

// -X: names (abbrev), numbers (raw), both (verbose).
enum class XlatStyle : uint8_t { kAbbrev, kRaw, kVerbose };

struct XlatEntry {
  std::string_view name;
  uint64_t value;
};
// Resolved on first use; not for concurrent first use (one tracer thread).
std::span<const XlatEntry> xlat(XlatId table);
// Empty if none has the value.
std::string_view xlat_name(XlatId table, uint64_t value);

// R13, R14: the names of the bits of `value` joined by "|", the rest in hex.
void put_flags(std::string& out, XlatId table, uint64_t value, XlatStyle style);
// An exclusive set.
void put_value(std::string& out, XlatId table, uint64_t value, XlatStyle style);

}  // namespace srun::trace
