#include "policy/catalog.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/text.h"
#include "kernel/constants.h"
#include "policy/oci_names.h"

namespace srun::policy {

namespace {

template <typename Range>
std::string nearest(std::string_view name, const Range& rows,
                    const std::function<bool(std::string_view)>& wanted = {}) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) {
    if (!wanted || wanted(row.name)) names.push_back(row.name);
  }
  return std::string(nearest_name(name, names));
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Decimal or 0x, whole text; nullopt: not a number of at most 64 bits.
std::optional<PolicyNumber> literal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (negative && value > uint64_t{1} << 63) return std::nullopt;
  return PolicyNumber{negative ? ~value + 1 : value, negative && value != 0};
}

void remove_calls(std::vector<RuleCall>& calls, const std::function<bool(const kernel::Syscall&)>& unwanted) {
  std::erase_if(calls, [&](const RuleCall& entry) { return unwanted(*entry.call); });
}

void add_call(std::vector<RuleCall>& calls, const kernel::Syscall& call, bool by_name) {
  for (RuleCall& entry : calls) {
    if (entry.call == &call) {
      entry.by_name = entry.by_name || by_name;
      return;
    }
  }
  calls.push_back({&call, by_name});
}

Result<void, PolicyError> resolve_one(const Node& node, bool grants, NamedCalls& out) {
  if (!node.is_string()) {
    return failure(node.error("expected the name of a system call or group, found " + std::string(node.kind_text())));
  }
  const bool takes_out = node.string().starts_with('!');
  const std::string_view name = std::string_view(node.string()).substr(takes_out ? 1 : 0);
  if (name.empty()) return failure(node.error("an empty name"));

  if (name.starts_with('@')) {
    const std::optional<size_t> group = kernel::find_group(name);
    if (!group) return failure(node.error("unknown group " + quoted(name), nearest_group(name)));
    if (takes_out) {
      const size_t before = out.calls.size();
      remove_calls(out.calls, [&](const kernel::Syscall& call) { return kernel::in_group(call, *group); });
      if (out.calls.size() == before) {
        return failure(node.error(quoted(node.string()) + " takes nothing out: none of its calls stands before it"));
      }
      return {};
    }
    for (const kernel::Syscall& call : kernel::syscalls()) {
      if (kernel::in_group(call, *group)) add_call(out.calls, call, false);
    }
    return {};
  }

  const kernel::Syscall* call = kernel::find_syscall(name);
  if (call == nullptr && is_call_elsewhere(name)) {
    out.elsewhere = true;
    return {};
  }
  if (call == nullptr) {
    PolicyError unknown = node.error("unknown system call " + quoted(name), nearest_call(name));
    if (!grants || takes_out) return failure(std::move(unknown));
    unknown.message += " grants nothing";
    out.warnings.push_back(unknown.text());
    return {};
  }
  if (takes_out) {
    const size_t before = out.calls.size();
    remove_calls(out.calls, [&](const kernel::Syscall& row) { return &row == call; });
    if (out.calls.size() == before) {
      return failure(node.error(quoted(node.string()) + " takes nothing out: the call does not stand before it"));
    }
    return {};
  }
  add_call(out.calls, *call, true);
  return {};
}

}  // namespace

std::string nearest_call(std::string_view name) { return nearest(name, kernel::syscalls()); }
std::string nearest_group(std::string_view name) { return nearest(name, kernel::groups()); }
std::string nearest_constant(std::string_view name) { return nearest(name, kernel::constants()); }
std::string nearest_errno(std::string_view name) {
  return nearest(name, kernel::constants(), [](std::string_view row) { return kernel::find_errno(row).has_value(); });
}

Result<NamedCalls, PolicyError> resolve_names(const Node& names, bool grants) {
  if (!names.is_array()) {
    return failure(names.error("expected a list of names, found " + std::string(names.kind_text())));
  }
  if (names.size() == 0) return failure(names.error("an empty list of names"));
  NamedCalls out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (auto resolved = resolve_one(names[i], grants, out); !resolved) return failure(std::move(resolved.error()));
  }
  if (out.calls.empty() && out.warnings.empty() && !out.elsewhere)
    return failure(names.error("no call is left of these names"));
  return out;
}

Result<PolicyNumber, PolicyError> parse_number(const Node& node) {
  if (node.is_integer()) return PolicyNumber{node.integer_bits(), node.integer_negative()};
  if (!node.is_string()) {
    return failure(node.error("expected a number or the name of a constant, found " + std::string(node.kind_text())));
  }
  PolicyNumber out;
  std::string_view rest = node.string();
  for (bool more = true; more;) {
    const size_t bar = rest.find('|');
    more = bar != std::string_view::npos;
    const std::string_view part = trimmed(rest.substr(0, bar));
    if (more) rest.remove_prefix(bar + 1);
    if (part.empty()) return failure(node.error("an empty value in " + quoted(node.string())));
    if (const std::optional<PolicyNumber> number = literal(part)) {
      out.bits |= number->bits;
      out.negative = out.negative || number->negative;
    } else if (const std::optional<uint64_t> constant = kernel::find_constant(part)) {
      out.bits |= *constant;
      // The table sign-extends its negative constants; no positive one comes near.
      out.negative = out.negative || static_cast<int64_t>(*constant) < 0;
    } else if (part.front() == '-' || (part.front() >= '0' && part.front() <= '9')) {
      return failure(node.error(quoted(part) + " is not a number of at most 64 bits"));
    } else {
      return failure(node.error("unknown constant " + quoted(part), nearest_constant(part)));
    }
  }
  return out;
}

}  // namespace srun::policy
