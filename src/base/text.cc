#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace srun {
namespace {

// Length of the valid UTF-8 sequence at the front of `bytes`, 0 if there is none (RFC 3629: no surrogates, no
// overlong).
size_t utf8_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  if (lead == 0xe0 && at(1) < 0xa0) return 0;
  if (lead == 0xed && at(1) > 0x9f) return 0;
  if (lead == 0xf0 && at(1) < 0x90) return 0;
  if (lead == 0xf4 && at(1) > 0x8f) return 0;
  return length;
}

// Code points that move a cursor, change direction or hide text without being C0 controls: C1 controls, bidirectional
// marks, zero-width characters, line and paragraph separators, the byte order mark, tags.
bool harmless(std::string_view sequence) {
  uint32_t point = 0;
  const auto at = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  switch (sequence.size()) {
    case 2:
      point = ((at(0) & 0x1fu) << 6) | (at(1) & 0x3fu);
      break;
    case 3:
      point = ((at(0) & 0x0fu) << 12) | ((at(1) & 0x3fu) << 6) | (at(2) & 0x3fu);
      break;
    case 4:
      point = ((at(0) & 0x07u) << 18) | ((at(1) & 0x3fu) << 12) | ((at(2) & 0x3fu) << 6) | (at(3) & 0x3fu);
      break;
    default:
      return true;
  }
  if (point < 0xa0 || point == 0xad || point == 0x61c || point == 0xfeff) return false;
  if (point >= 0x200b && point <= 0x200f) return false;
  if (point >= 0x2028 && point <= 0x202e) return false;
  if (point >= 0x2060 && point <= 0x206f) return false;
  if (point >= 0xfff0 && point <= 0xffff) return false;
  return point < 0xe0000;
}

constexpr std::string_view kHex = "0123456789abcdef";

void append_hex_byte(std::string& out, unsigned char byte) {
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

// Insertions, deletions, replacements, and two neighbours swapped, which is the commonest slip of fast hands.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);  // the row above `above`
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string escape_for_terminal(std::string_view bytes, size_t limit) {
  std::string out;
  while (!bytes.empty()) {
    if (out.size() >= limit) return out + "…";
    const auto byte = static_cast<unsigned char>(bytes[0]);
    const size_t length = utf8_length(bytes);
    if (byte == '\n')
      out += "\\n";
    else if (byte == '\t')
      out += "\\t";
    else if (byte == '\r')
      out += "\\r";
    else if (byte == '\\')
      out += "\\\\";
    else if (byte < 0x20 || byte == 0x7f || length == 0)
      append_hex_byte(out, byte);
    else if (!harmless(bytes.substr(0, length))) {
      for (const char part : bytes.substr(0, length)) append_hex_byte(out, static_cast<unsigned char>(part));
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

bool append_json_string(std::string& out, std::string_view bytes) {
  bool exact = true;
  out += '"';
  while (!bytes.empty()) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    const size_t length = utf8_length(bytes);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += static_cast<char>(byte);
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else if (length == 0) {
      out += "\\ufffd";
      exact = false;
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
  return exact;
}

void append_hex(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t gap = candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
    if (gap >= best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string count_of(size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace srun
