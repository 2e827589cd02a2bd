#include "trace/xlat.h"

#include <charconv>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "kernel/constants.h"
#include "trace/put.h"

namespace srun::trace {
namespace {

struct Source {
  std::string_view unknown;
  std::string_view names;
};
constexpr Source kSources[] = {
#define SRUN_XLAT(table, unknown, names) {unknown, names},
#include "trace/xlat.def"
#undef SRUN_XLAT
};

uint64_t parse_literal(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
  }
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::vector<XlatEntry> resolve(std::string_view names) {
  std::vector<XlatEntry> result;
  while (!names.empty()) {
    const size_t bar = names.find('|');
    std::string_view item = names.substr(0, bar);
    names = bar == std::string_view::npos ? std::string_view() : names.substr(bar + 1);
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos) {
      result.push_back({item.substr(0, equals), parse_literal(item.substr(equals + 1))});
    } else if (const auto value = kernel::find_constant(item, kernel::kNativeArch)) {
      result.push_back({item, *value});
    }  // a name that nobody knows is caught by the unit test
  }
  return result;
}

void put_comment(std::string& out, std::string_view text) {
  if (text.empty()) return;
  out += " /* ";
  out += text;
  out += " */";
}

}  // namespace

std::span<const XlatEntry> xlat(XlatId table) {
  static std::vector<XlatEntry> tables[std::size(kSources)];
  std::vector<XlatEntry>& entries = tables[static_cast<size_t>(table)];
  if (entries.empty()) entries = resolve(kSources[static_cast<size_t>(table)].names);
  return entries;
}

std::string_view xlat_name(XlatId table, uint64_t value) {
  for (const XlatEntry& entry : xlat(table))
    if (entry.value == value) return entry.name;
  return {};
}

void put_flags(std::string& out, XlatId table, uint64_t value, XlatStyle style) {
  if (style == XlatStyle::kRaw) return put_hex(out, value);
  const size_t start = out.size();
  if (style == XlatStyle::kVerbose) {
    put_hex(out, value);
    if (value == 0 && xlat_name(table, 0).empty()) return;
    out += " /* ";
  }
  uint64_t rest = value;
  bool any = false;
  for (const XlatEntry& entry : xlat(table)) {
    if (value == 0 ? entry.value == 0 : entry.value != 0 && (rest & entry.value) == entry.value) {
      if (any) out += '|';
      out += entry.name;
      any = true;
      rest &= ~entry.value;
      if (rest == 0) break;
    }
  }
  if (style == XlatStyle::kVerbose) {
    if (!any) {
      out.resize(start);
      put_hex(out, value);
      return put_comment(out, kSources[static_cast<size_t>(table)].unknown);
    }
    if (rest != 0) {
      out += '|';
      put_hex(out, rest);
    }
    out += " */";
    return;
  }
  if (any) {
    if (rest != 0) {
      out += '|';
      put_hex(out, rest);
    }
    return;
  }
  put_hex(out, value);
  if (value != 0) put_comment(out, kSources[static_cast<size_t>(table)].unknown);
}

void put_value(std::string& out, XlatId table, uint64_t value, XlatStyle style) {
  if (style == XlatStyle::kRaw) return put_hex(out, value);
  const std::string_view name = xlat_name(table, value);
  if (style == XlatStyle::kVerbose || name.empty()) {
    put_hex(out, value);
    return put_comment(out, name.empty() ? kSources[static_cast<size_t>(table)].unknown : name);
  }
  out += name;
}

}  // namespace srun::trace
