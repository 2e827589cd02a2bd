#include "policy/network_lowering.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "kernel/syscall_table.h"
#include "policy/network_rules.h"

namespace srun::policy {
namespace {

// Values of the kernel's ABI that are the same on every architecture of the table.
constexpr uint64_t kUnix = 1, kInet = 2, kInet6 = 10, kNetlink = 16;
constexpr uint64_t kStream = 1, kDgram = 2, kTypeMask = 0xf;
constexpr uint64_t kMsgFastopen = 0x20000000;
constexpr uint64_t kLandlockTcp = 3;        // LANDLOCK_ACCESS_NET_BIND_TCP and _CONNECT_TCP, ABI 4
constexpr uint64_t kAbstractUnixScope = 1;  // LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, ABI 6

bpf::ArgTest test(uint8_t arg, bpf::CompareOp op, std::vector<uint64_t> values, uint64_t mask = ~uint64_t{0},
                  bpf::CompareWidth width = bpf::CompareWidth::kU32) {
  bpf::ArgTest out;
  out.arg = arg;
  out.width = width;
  out.op = op;
  out.mask = mask;
  out.values = std::move(values);
  return out;
}

Rule rule(std::initializer_list<std::string_view> names, ActionSpec action, std::vector<bpf::ArgTest> when,
          const Place& place, std::string reason) {
  Rule made;
  for (const std::string_view name : names)
    if (const kernel::Syscall* const call = kernel::find_syscall(name)) made.calls.push_back({call, true});
  made.when = std::move(when);
  made.action = action;
  made.place = place;
  made.reason = std::move(reason);
  return made;
}

const NetworkSection* section_of(const StackLayer& layer) {
  return layer.policy != nullptr && layer.policy->network && !layer.policy->network->all ? &*layer.policy->network
                                                                                         : nullptr;
}

// Names that a rule lists are found in the program's /etc/hosts, with the addresses that the rule stands for: the name
// servers need not be asked, and nobody else's answer counts (H31).
void add_hosts_file(const LoweringOptions& options, Enforcement& out) {
  char resolved[PATH_MAX];
  if (!options.masks || realpath("/etc/hosts", resolved) == nullptr) {
    out.warnings.emplace_back(
        "the names of the network section are not known to the program: its /etc/hosts can't be covered here; give "
        "\"dns\": true, or addresses");
    return;
  }
  Mask hosts{Mask::Kind::kContent, resolved, false, {}};
  std::ifstream file(resolved, std::ios::binary);
  hosts.content.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (!hosts.content.empty() && hosts.content.back() != '\n') hosts.content += '\n';
  for (const auto& [name, addresses] : out.network.hosts)
    for (const IpAddress& address : addresses) {
      std::string text = address_text(address);
      if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
      const std::string line = text + " " + name + "\n";
      if (hosts.content.find(line) == std::string::npos) hosts.content += line;
    }
  out.files.masks.push_back(std::move(hosts));
}

}  // namespace

bool restricts_network(const PolicyStack& stack) {
  return std::any_of(stack.layers.begin(), stack.layers.end(),
                     [](const StackLayer& layer) { return section_of(layer) != nullptr; });
}

std::vector<Rule> network_layer_rules(const NetworkSection& section) {
  if (section.all) return {};
  const Place place{section.file, section.line, section.pointer};
  const ActionSpec refuse{Action::kErrno, EACCES, Check::kNone};
  const ActionSpec absent{Action::kErrno, EPROTONOSUPPORT,
                          Check::kNone};  // what programs that try MPTCP or SCTP fall back on
  std::vector<Rule> rules;
  const bool inet = section.loopback || section.dns || !section.bind.empty() ||
                    std::any_of(section.connect.begin(), section.connect.end(),
                                [](const NetworkEntry& entry) { return entry.protocol != Protocol::kUnix; });
  if (!inet) {
    rules.push_back(rule({"socket", "socketpair"}, refuse, {test(0, bpf::CompareOp::kNotEqual, {kUnix})}, place,
                         section.line != 0 ? "no network in this policy" : ""));
    return rules;
  }
  rules.push_back(
      rule({"socket"}, refuse, {test(0, bpf::CompareOp::kNotIn, {kUnix, kInet, kInet6, kNetlink})}, place, {}));
  const std::string odd = "no rule can speak about such sockets";
  rules.push_back(rule({"socket"}, refuse,
                       {test(0, bpf::CompareOp::kEqual, {kNetlink}), test(2, bpf::CompareOp::kNotEqual, {0})}, place,
                       odd));
  const bpf::ArgTest internet = test(0, bpf::CompareOp::kIn, {kInet, kInet6});
  for (const uint64_t type : {3, 4, 5, 6, 10})  // raw, reliably delivered, sequenced, DCCP, packet
    rules.push_back(
        rule({"socket"}, refuse, {internet, test(1, bpf::CompareOp::kMasked, {type}, kTypeMask)}, place, odd));
  rules.push_back(
      rule({"socket"}, absent,
           {internet, test(1, bpf::CompareOp::kMasked, {kStream}, kTypeMask), test(2, bpf::CompareOp::kNotIn, {0, 6})},
           place, odd));
  rules.push_back(
      rule({"socket"}, refuse,
           {internet, test(1, bpf::CompareOp::kMasked, {kDgram}, kTypeMask), test(2, bpf::CompareOp::kNotIn, {0, 17})},
           place, odd));
  return rules;
}

std::vector<Rule> network_rules(const PolicyStack& stack, bool audit) {
  if (!restricts_network(stack)) return {};
  const Place place{"(guard layer)", 0, "network"};
  const ActionSpec ask{Action::kCheck, 0, Check::kNetwork};
  const ActionSpec refuse{Action::kErrno, EPERM, Check::kNone};
  const ActionSpec unsupported{Action::kErrno, EOPNOTSUPP, Check::kNone};  // tcp(7): as where fast open is switched off
  const std::string past = "an address would be named where no rule looks";
  std::vector<Rule> rules;
  if (!audit) {
    // A connection by the first byte that is sent (tcp(7)); the option does it for a plain connect, which then waits.
    rules.push_back(
        rule({"sendto"}, unsupported, {test(3, bpf::CompareOp::kMasked, {kMsgFastopen}, kMsgFastopen)}, place, past));
    rules.push_back(
        rule({"sendmsg"}, unsupported, {test(2, bpf::CompareOp::kMasked, {kMsgFastopen}, kMsgFastopen)}, place, past));
    rules.push_back(
        rule({"sendmmsg"}, unsupported, {test(3, bpf::CompareOp::kMasked, {kMsgFastopen}, kMsgFastopen)}, place, past));
    // TCP_FASTOPEN and its key, TCP_FASTOPEN_CONNECT, TCP_REPAIR; TCP_ULP, which replaces the protocol; IP_OPTIONS;
    // IPV6_2292PKTOPTIONS, _HOPOPTS, _DSTOPTS, _RTHDR, and the newer three, IPV6_ADDRFORM.
    rules.push_back(rule({"setsockopt"}, unsupported,
                         {test(1, bpf::CompareOp::kEqual, {6}), test(2, bpf::CompareOp::kIn, {19, 23, 30, 33})}, place,
                         past));
    rules.push_back(rule({"setsockopt"}, {Action::kErrno, ENOENT, Check::kNone},
                         {test(1, bpf::CompareOp::kEqual, {6}), test(2, bpf::CompareOp::kEqual, {31})}, place, past));
    // SO_ZEROCOPY: what is sent on behalf is a copy, whose end the kernel would tell the program instead.
    rules.push_back(rule({"setsockopt"}, unsupported,
                         {test(1, bpf::CompareOp::kEqual, {1}), test(2, bpf::CompareOp::kEqual, {60})}, place,
                         "messages are copied by the supervisor"));
    // The supervisor must be able to read what it decides about (H34): said to have worked, without effect.
    rules.push_back(
        rule({"prctl"}, {Action::kReturn, 0, Check::kNone}, {test(0, bpf::CompareOp::kEqual, {4})}, place, past));
    rules.push_back(rule({"setsockopt"}, refuse,
                         {test(1, bpf::CompareOp::kEqual, {0}), test(2, bpf::CompareOp::kEqual, {4})}, place, past));
    rules.push_back(
        rule({"setsockopt"}, refuse,
             {test(1, bpf::CompareOp::kEqual, {41}), test(2, bpf::CompareOp::kIn, {1, 3, 4, 5, 6, 54, 55, 57, 59})},
             place, past));
  }
  rules.push_back(
      rule({"sendto"}, {}, {test(4, bpf::CompareOp::kEqual, {0}, ~uint64_t{0}, bpf::CompareWidth::kU64)}, place, {}));
  rules.push_back(rule({"connect", "bind", "listen", "sendto", "sendmsg", "sendmmsg"}, ask, {}, place,
                       "addresses are decided by the supervisor"));
  return rules;
}

Result<void, PolicyError> lower_network(const PolicyStack& stack, const LoweringOptions& options,
                                        VerdictTableBuilder& verdicts, Enforcement& out) {
  if (!restricts_network(stack)) return {};
  for (const StackLayer& layer : stack.layers) {
    if (layer.policy == nullptr) continue;
    for (const UnsafeEntry& entry : layer.policy->unsafe)
      if (entry.part == "namespaces" || entry.part == "io_uring" || entry.part == "foreign-abi" ||
          entry.part == "mount")
        return failure(PolicyError{
            entry.place.file,
            entry.place.line,
            entry.place.pointer,
            "\"" + entry.part +
                "\" cannot be lifted together with a network section: sockets could be used where no rule sees it",
            {}});
  }
  std::vector<NetworkMatcher::Layer> layers;
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    const NetworkSection* const section = section_of(stack.layers[i]);
    if (section == nullptr) continue;
    Verdict unmatched;
    unmatched.action = Action::kErrno;
    unmatched.value = EACCES;
    unmatched.quiet = options.denials == Denials::kNone;
    unmatched.rule.layer = static_cast<uint16_t>(i + 1);
    unmatched.rule.file = section->file;
    unmatched.rule.line = section->line;
    unmatched.rule.pointer = section->pointer;
    unmatched.rule.reason = section->connect.empty() && section->bind.empty()
                                ? (section->loopback ? "loopback" : "none")
                                : "no entry matches";
    layers.push_back({*section, verdicts.add(std::move(unmatched))});
    for (const NetworkEntry& entry : section->connect) {
      if (!entry.name.empty() && !entry.answers.empty()) out.network.hosts.emplace_back(entry.name, entry.answers);
    }
  }
  if (!out.network.hosts.empty() && !options.audit) add_hosts_file(options, out);
  out.network.present = true;
  out.network.audit = options.audit;
  out.network.matcher = std::make_shared<const NetworkMatcher>(std::move(layers));
  // Besides the supervisor's own look: it acts from outside of the domain, and nothing is left for the program to do
  // itself.
  if (!options.audit && options.landlock_abi >= 4) out.landlock.handled_net |= kLandlockTcp;
  if (!options.audit && options.landlock_abi >= 6) out.landlock.scoped |= kAbstractUnixScope;
  return {};
}

std::optional<std::string> suggested_network_fix(const PolicyStack& stack, const Verdict& verdict,
                                                 std::string_view what, bool binds) {
  if (verdict.rule.layer == 0 || verdict.rule.layer > stack.layers.size()) return std::nullopt;
  const size_t index = verdict.rule.layer - 1U;
  const NetworkSection* const section = section_of(stack.layers[index]);
  if (section == nullptr || (binds && !what.starts_with("tcp:"))) return std::nullopt;
  const std::string flag = binds ? "--listen " + std::string(what.substr(4)) : "--net " + std::string(what);
  NetworkFlags flags;
  if (!(binds ? add_listen_flag(what.substr(4), flags) : add_net_flag(what, flags)).empty()) return std::nullopt;
  // Flags extend the last layer; what an earlier one refuses they do not lift.
  size_t last = stack.layers.size();
  while (last > 0 && (stack.layers[last - 1].policy == nullptr ||
                      (stack.layers[last - 1].policy->open_ended && !stack.layers[last - 1].policy->network)))
    --last;
  if (last != index + 1) return std::nullopt;
  const bool plain = std::all_of(what.begin(), what.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f &&
           std::string_view("\"'`$&|;<>(){}*?!\\#~,").find(static_cast<char>(c)) == std::string_view::npos;
  });
  const std::vector<NetworkEntry>& made = binds ? flags.bind : flags.connect;
  if (!plain || made.size() != 1) return std::nullopt;
  SocketAddress address;
  address.protocol = made[0].protocol;
  address.address = made[0].network;
  address.port = made[0].first_port;
  address.path = made[0].path;
  std::vector<NetworkMatcher::Layer> layers;
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    const NetworkSection* const own = section_of(stack.layers[i]);
    if (own == nullptr) continue;
    layers.push_back({*own, {}});
    if (i == index) apply_network_flags(layers.back().section, true, flags);
  }
  const NetworkMatcher changed(std::move(layers));
  const NetworkDecision decision = binds ? changed.bind(address) : changed.connect(address);
  if (!decision.allowed || decision.only_own) return std::nullopt;
  return "to allow: " + flag;
}

}  // namespace srun::policy
