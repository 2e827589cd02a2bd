#include "trace/put.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace srun::trace {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

template <typename T>
void put_number(std::string& out, T value, int base = 10) {
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, base);
  out.append(buffer, end.ptr);
}

// What a byte needs inside quotes: 0 itself, 'n' and the like a backslash and that letter, 1 octal.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> table{};
  for (size_t i = 0; i < 256; ++i) table[i] = i >= 0x20 && i < 0x7f ? 0 : 1;
  table['"'] = '"';
  table['\\'] = '\\';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['\v'] = 'v';
  return table;
}
constexpr std::array<char, 256> kEscapes = make_escapes();

void put_octal_byte(std::string& out, unsigned char byte, bool digit_follows) {
  out += '\\';
  if (digit_follows || byte >= 0100) out += kDigits[byte >> 6];
  if (digit_follows || byte >= 010) out += kDigits[(byte >> 3) & 7];
  out += kDigits[byte & 7];
}

}  // namespace

void put_decimal(std::string& out, int64_t value) { put_number(out, value); }
void put_unsigned(std::string& out, uint64_t value) { put_number(out, value); }

void put_hex(std::string& out, uint64_t value) {
  if (value == 0) {
    out += '0';
    return;
  }
  out += "0x";
  put_number(out, value, 16);
}

void put_hex_digits(std::string& out, uint64_t value, int width) {
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out += kDigits[(value >> shift) & 15];
}

void put_octal(std::string& out, uint64_t value) {
  out += '0';
  if (value != 0) put_number(out, value, 8);
}

void put_mode(std::string& out, uint64_t value) {
  out += '0';
  if (value < 010) out += '0';
  put_number(out, value, 8);
}

void put_address(std::string& out, uint64_t address) {
  if (address == 0)
    out += "NULL";
  else
    put_hex(out, address);
}

void put_padded(std::string& out, uint64_t value, int width) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  for (std::ptrdiff_t length = end.ptr - buffer; length < width; ++length) out += '0';
  out.append(buffer, end.ptr);
}

void put_quoted(std::string& out, std::string_view bytes, bool cut, HexStrings hex) {
  const bool all_hex = hex == HexStrings::kAlways ||
                       (hex == HexStrings::kNonAscii && std::any_of(bytes.begin(), bytes.end(), [](char c) {
                          return kEscapes[static_cast<unsigned char>(c)] == 1;
                        }));
  out += '"';
  if (all_hex) {
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      const char text[4] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      out.append(text, sizeof text);
    }
  } else {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      const char escape = kEscapes[byte];
      if (escape == 0) {
        out += bytes[i];
      } else if (escape == 1) {
        put_octal_byte(out, byte, i + 1 < bytes.size() && bytes[i + 1] >= '0' && bytes[i + 1] <= '7');
      } else {
        out += '\\';
        out += escape;
      }
    }
  }
  out += '"';
  if (cut) out += "...";
}

void put_annotation(std::string& out, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const char escape = byte == '<' || byte == '>' ? 1 : kEscapes[byte];
    if (escape == 0) {
      out += bytes[i];
    } else if (escape == 1) {
      put_octal_byte(out, byte, i + 1 < bytes.size() && bytes[i + 1] >= '0' && bytes[i + 1] <= '7');
    } else {
      out += '\\';
      out += escape;
    }
  }
}

}  // namespace srun::trace
