#pragma once
// Numbers and hostile bytes appended to a line in strace's forms. Nothing here allocates once the string has its room.
#include <cstdint>
#include <string>
#include <string_view>

namespace srun::trace {

void put_decimal(std::string& out, int64_t value);
void put_unsigned(std::string& out, uint64_t value);
void put_hex(std::string& out, uint64_t value);      // 0x1f; 0 is "0"
void put_hex_digits(std::string& out, uint64_t value, int width);  // no 0x, zero-padded
void put_octal(std::string& out, uint64_t value);    // 017; 0 is "0"
void put_mode(std::string& out, uint64_t value);     // at least three digits after the 0: 0644, 000 (R12)
// NULL, or hex (R12).
void put_address(std::string& out, uint64_t address);
// Zero-padded to `width`.
void put_padded(std::string& out, uint64_t value, int width);

enum class HexStrings : uint8_t { kNever, kNonAscii, kAlways };  // -x, -xx
// R17, R20: quoted, with "..." behind the closing quote if `cut`.
void put_quoted(std::string& out, std::string_view bytes, bool cut, HexStrings hex);
// R28: what stands between < and >.
void put_annotation(std::string& out, std::string_view bytes);

}  // namespace srun::trace
