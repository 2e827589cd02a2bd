#pragma once
#include <span>
#include <string>
#include <string_view>

namespace srun {

// Hostile bytes for a terminal or log line (I9): printable ASCII and valid UTF-8 without control characters stay,
// everything else becomes \n, \t, \\ or \xHH; cut with "…" after `limit` bytes of output. Never more than one line.
std::string escape_for_terminal(std::string_view bytes, size_t limit = 4096);

// Appends a JSON string, quotes included, that every JSON reader takes: bytes that are not valid UTF-8 become U+FFFD
// each (lone surrogates would keep them, but strict readers refuse those lines). False if any did: the caller then
// gives the exact bytes beside it, see append_hex.
bool append_json_string(std::string& out, std::string_view bytes);

// Two hex digits per byte.
void append_hex(std::string& out, std::string_view bytes);

// The candidate with the smallest edit distance to `name` if that is small enough to be a likely slip, else empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

// "1 rule", "2 rules".
std::string count_of(size_t count, std::string_view noun);

}  // namespace srun
