#include "policy/network_rules.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace srun::policy {
namespace {

std::optional<unsigned> number(std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

// "10.0.0.1" (mapped) or "::1" without brackets.
bool parse_address(std::string_view text, IpAddress& address, bool& four) {
  const std::string copy(text);
  in_addr v4{};
  if (inet_pton(AF_INET, copy.c_str(), &v4) == 1) {
    address = {};
    address[10] = address[11] = 0xff;
    std::memcpy(address.data() + 12, &v4, 4);
    four = true;
    return true;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, copy.c_str(), &v6) != 1) return false;
  std::memcpy(address.data(), &v6, 16);
  four = false;
  return true;
}

bool is_host_name(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  bool letter = false;
  char before = '.';
  for (const char c : text) {
    const bool alnum = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!alnum && c != '-' && c != '.' && c != '_') return false;
    if (c == '.' && before == '.') return false;
    letter = letter || std::isalpha(static_cast<unsigned char>(c)) != 0;
    before = c;
  }
  return letter && text.front() != '-';
}

std::string parse_host(std::string_view host, NetworkEntry& entry) {
  if (host == "*") {
    entry.any_host = true;
    return {};
  }
  std::string_view address = host;
  std::string_view prefix;
  bool has_prefix = false;
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos) return "\"[\" without \"]\"";
    address = host.substr(1, close - 1);
    std::string_view rest = host.substr(close + 1);
    if (!rest.empty() && rest.front() != '/') return "expected [ADDRESS] or [ADDRESS]/BITS";
    has_prefix = !rest.empty();
    if (has_prefix) prefix = rest.substr(1);
  } else if (const size_t slash = host.find('/'); slash != std::string_view::npos) {
    address = host.substr(0, slash);
    prefix = host.substr(slash + 1);
    has_prefix = true;
  }
  bool four = false;
  if (parse_address(address, entry.network, four)) {
    entry.prefix = 128;
    if (!has_prefix) return {};
    const std::optional<unsigned> bits = number(prefix, four ? 32 : 128);
    if (!bits) return "a prefix is 0 to " + std::string(four ? "32" : "128") + " bits";
    entry.prefix = *bits + (four ? 96 : 0);
    return {};
  }
  if (has_prefix || host.starts_with('[')) return "not an address";
  if (host.find('*') != std::string_view::npos)
    return "names have no wildcards: what a pattern of names leads to is whoever answers for it";
  const bool numeric =
      std::all_of(host.begin(), host.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  if (numeric || !is_host_name(host)) return "not an address, a CIDR, a name or \"*\"";
  entry.name = host;
  return {};
}

std::string parse_ports(std::string_view text, NetworkEntry& entry) {
  if (text == "*") {
    entry.first_port = 0;
    entry.last_port = 65535;
    return {};
  }
  const size_t dash = text.find('-');
  const std::optional<unsigned> first = number(text.substr(0, dash), 65535);
  const std::optional<unsigned> last = dash == std::string_view::npos ? first : number(text.substr(dash + 1), 65535);
  if (!first || !last || *first > *last) return "a port is a number up to 65535, a range FIRST-LAST or \"*\"";
  entry.first_port = static_cast<uint16_t>(*first);
  entry.last_port = static_cast<uint16_t>(*last);
  return {};
}

// "HOST:PORT" apart; IPv6 addresses are in brackets.
bool split_port(std::string_view text, std::string_view& host, std::string_view& port) {
  const size_t after = text.starts_with('[') ? text.find(']') : 0;
  if (after == std::string_view::npos) return false;
  const size_t colon = text.find(':', after);
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) return false;
  host = text.substr(0, colon);
  port = text.substr(colon + 1);
  return true;
}

Result<std::vector<NetworkEntry>, PolicyError> parse_list(const Node& list) {
  if (!list.is_array()) return failure(list.error("expected a list of endpoints"));
  std::vector<NetworkEntry> entries;
  for (size_t i = 0; i < list.size(); ++i) {
    const Node& item = list[i];
    NetworkEntry entry;
    if (!item.is_string()) return failure(item.error("expected an endpoint, as \"tcp:10.0.0.1:443\""));
    if (const std::string wrong = parse_endpoint(item.string(), entry); !wrong.empty())
      return failure(item.error("\"" + item.string() + "\": " + wrong));
    entry.file = item.file();
    entry.line = item.line();
    entry.pointer = item.pointer();
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

std::string parse_endpoint(std::string_view text, NetworkEntry& entry) {
  entry.text = text;
  if (text.find('\0') != std::string_view::npos) return "a zero byte";
  if (text.starts_with("unix:")) {
    entry.protocol = Protocol::kUnix;
    entry.path = text.substr(5);
    if (entry.path.size() < 2 || (entry.path.front() != '/' && entry.path.front() != '@'))
      return "expected unix:/PATH or unix:@NAME";
    if (entry.path.front() == '@')
      return entry.path.size() > sizeof(sockaddr_un::sun_path) ? "longer than a socket's name can be" : "";
    // The same place without symbolic links, as far as it exists: what a socket is told by.
    std::string rest;
    for (std::string head = entry.path; !head.empty(); head.erase(head.rfind('/'))) {
      char resolved[PATH_MAX];
      if (realpath(head.c_str(), resolved) != nullptr) {
        entry.path = (std::string_view(resolved) == "/" ? "" : resolved) + rest;
        break;
      }
      rest = head.substr(head.rfind('/')) + rest;
    }
    return {};
  }
  if (text.starts_with("tcp:"))
    entry.protocol = Protocol::kTcp;
  else if (text.starts_with("udp:"))
    entry.protocol = Protocol::kUdp;
  else
    return "expected tcp:HOST:PORT, udp:HOST:PORT, unix:/PATH or unix:@NAME";
  std::string_view host;
  std::string_view port;
  if (!split_port(text.substr(4), host, port)) return "expected HOST:PORT; an IPv6 address is written in brackets";
  if (std::string wrong = parse_host(host, entry); !wrong.empty()) return wrong;
  return parse_ports(port, entry);
}

Result<NetworkSection, PolicyError> parse_network(const Node& node) {
  NetworkSection section;
  section.file = node.file();
  section.line = node.line();
  section.pointer = node.pointer();
  if (node.is_string()) {
    if (node.string() == "none") return section;
    section.loopback = node.string() == "loopback";
    section.all = node.string() == "all";
    if (section.loopback || section.all) return section;
  }
  if (!node.is_object())
    return failure(
        node.error("expected \"none\", \"loopback\", \"all\" or an object with connect, bind, dns, loopback"));
  for (size_t i = 0; i < node.size(); ++i) {
    const Node& member = node[i];
    if (member.key() == "connect" || member.key() == "bind") {
      auto list = parse_list(member);
      if (!list) return failure(std::move(list.error()));
      if (member.key() == "bind")
        for (const NetworkEntry& entry : *list) {
          if (entry.protocol == Protocol::kUnix)
            return failure(member.error("\"" + entry.text + "\": a Unix socket's name is a matter of files.write"));
          if (!entry.name.empty())
            return failure(member.error("\"" + entry.text + "\": an address, CIDR or \"*\" is bound, not a name"));
        }
      (member.key() == "bind" ? section.bind : section.connect) = std::move(*list);
    } else if (member.key() == "dns" || member.key() == "loopback") {
      if (!member.is_bool()) return failure(member.error("expected true or false"));
      (member.key() == "dns" ? section.dns : section.loopback) = member.boolean();
    } else {
      return failure(member.error("unknown key \"" + member.key() + "\"; known are connect, bind, dns, loopback"));
    }
  }
  return section;
}

std::string add_net_flag(std::string_view rules, NetworkFlags& flags) {
  while (true) {
    const size_t comma = rules.find(',');
    const std::string_view rule = rules.substr(0, comma);
    if (rule == "none")
      flags.none = true;
    else if (rule == "loopback")
      flags.loopback = true;
    else if (rule == "all")
      flags.all = true;
    else {
      const bool full = rule.starts_with("tcp:") || rule.starts_with("udp:") || rule.starts_with("unix:");
      std::string_view host;
      std::string_view port;
      std::vector<std::string> texts;
      // On the command line a relative path is meant from here.
      char here[PATH_MAX];
      const bool relative = rule.starts_with("unix:") && rule.size() > 5 && rule[5] != '/' && rule[5] != '@' &&
                            getcwd(here, sizeof here) != nullptr;
      if (relative)
        texts.push_back("unix:" + std::string(here) + "/" + std::string(rule.substr(5)));
      else if (full)
        texts.emplace_back(rule);
      else if (split_port(rule, host, port))
        texts.push_back("tcp:" + std::string(rule));
      else
        texts = {"tcp:" + std::string(rule) + ":443", "tcp:" + std::string(rule) + ":80"};
      for (const std::string& text : texts) {
        NetworkEntry entry;
        if (const std::string wrong = parse_endpoint(text, entry); !wrong.empty()) return wrong;
        entry.file = "(command line)";
        entry.pointer = "--net " + std::string(rule);
        flags.connect.push_back(std::move(entry));
      }
    }
    if (comma == std::string_view::npos) break;
    rules.remove_prefix(comma + 1);
  }
  if (flags.none && (flags.loopback || flags.all || !flags.connect.empty())) return "\"none\" beside something else";
  return {};
}

std::string add_listen_flag(std::string_view text, NetworkFlags& flags) {
  std::string_view host;
  std::string_view port;
  // Without an address: on loopback, both kinds.
  std::vector<std::string> texts;
  if (split_port(text, host, port))
    texts.push_back("tcp:" + std::string(text));
  else
    texts = {"tcp:127.0.0.1:" + std::string(text), "tcp:[::1]:" + std::string(text)};
  for (const std::string& one : texts) {
    NetworkEntry entry;
    if (const std::string wrong = parse_endpoint(one, entry); !wrong.empty()) return wrong;
    if (!entry.name.empty()) return "an address, CIDR or \"*\" is bound, not a name";
    entry.file = "(command line)";
    entry.pointer = "--listen " + std::string(text);
    flags.bind.push_back(std::move(entry));
  }
  return {};
}

void apply_network_flags(NetworkSection& section, bool existed, const NetworkFlags& flags) {
  if (!existed || flags.none) {
    section = {};
    section.replaces = existed;
    section.file = "(command line)";
    section.pointer = flags.none ? "--net none" : flags.loopback ? "--net loopback" : "--net";
  }
  section.all = section.all || flags.all;
  section.loopback = section.loopback || flags.loopback;
  section.connect.insert(section.connect.begin(), flags.connect.begin(), flags.connect.end());
  section.bind.insert(section.bind.begin(), flags.bind.begin(), flags.bind.end());
}

void merge_network(NetworkSection& own, NetworkSection base) {
  // "none" and "all" say everything; what is written nearest holds.
  const bool own_is_word = own.all || (own.connect.empty() && own.bind.empty() && !own.dns);
  if (own_is_word || base.all) return;
  own.loopback = own.loopback || base.loopback;
  own.dns = own.dns || base.dns;
  std::move(base.connect.begin(), base.connect.end(), std::back_inserter(own.connect));
  std::move(base.bind.begin(), base.bind.end(), std::back_inserter(own.bind));
}

std::vector<IpAddress> look_up(const std::string& name) {
  std::vector<IpAddress> found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    IpAddress address{};
    if (one->ai_family == AF_INET) {
      address[10] = address[11] = 0xff;
      std::memcpy(address.data() + 12, &reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr, 4);
    } else if (one->ai_family == AF_INET6) {
      std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6*>(one->ai_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

void resolve_names(NetworkSection& section, std::vector<std::string>& notes) {
  for (NetworkEntry& entry : section.connect) {
    if (entry.name.empty()) continue;
    entry.answers = look_up(entry.name);
    const std::string place =
        entry.file + (entry.line != 0 ? ":" + std::to_string(entry.line) : "") + " " + entry.pointer;
    if (entry.answers.empty()) notes.push_back(place + ": " + entry.name + " has no address now");
    const size_t erased = std::erase_if(entry.answers, is_internal);
    if (erased > 0)
      notes.push_back(place + ": " + entry.name + " also leads to internal addresses, which need a rule of their own");
  }
}

std::vector<NetworkEntry> name_servers(std::string_view resolv_conf) {
  std::vector<NetworkEntry> servers;
  while (!resolv_conf.empty()) {
    std::string_view line = resolv_conf.substr(0, resolv_conf.find('\n'));
    resolv_conf.remove_prefix(std::min(resolv_conf.size(), line.size() + 1));
    if (!line.starts_with("nameserver")) continue;
    line.remove_prefix(10);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    std::string_view address = line.substr(0, line.find_first_of(" \t%#"));
    for (const Protocol protocol : {Protocol::kUdp, Protocol::kTcp}) {
      NetworkEntry entry;
      bool four = false;
      if (!parse_address(address, entry.network, four)) continue;
      entry.protocol = protocol;
      entry.first_port = entry.last_port = 53;
      entry.text = "dns";
      servers.push_back(std::move(entry));
    }
  }
  return servers;
}

}  // namespace srun::policy
