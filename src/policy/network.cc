#include "policy/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace srun::policy {
namespace {

bool is_ipv4(const IpAddress& address) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(address.data(), kMapped, sizeof kMapped) == 0;
}

bool in_network(const IpAddress& address, const IpAddress& network, unsigned prefix) {
  const unsigned whole = prefix / 8;
  if (std::memcmp(address.data(), network.data(), whole) != 0) return false;
  if (prefix % 8 == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff00U >> (prefix % 8));
  return ((address[whole] ^ network[whole]) & mask) == 0;
}

bool in_ipv4(const IpAddress& address, uint8_t a, uint8_t b, unsigned prefix) {
  IpAddress network{};
  network[10] = network[11] = 0xff;
  network[12] = a;
  network[13] = b;
  return in_network(address, network, 96 + prefix);
}

bool matches(const NetworkEntry& entry, const SocketAddress& address) {
  if (entry.protocol != address.protocol) return false;
  if (entry.protocol == Protocol::kUnix) return entry.path == address.path;
  if (address.port < entry.first_port || address.port > entry.last_port) return false;
  if (entry.any_host) return true;
  if (entry.name.empty()) return in_network(address.address, entry.network, entry.prefix);
  return std::find(entry.answers.begin(), entry.answers.end(), address.address) != entry.answers.end();
}

bool any(const std::vector<NetworkEntry>& entries, const SocketAddress& address) {
  return std::any_of(entries.begin(), entries.end(),
                     [&address](const NetworkEntry& entry) { return matches(entry, address); });
}

}  // namespace

bool is_loopback(const IpAddress& address) {
  IpAddress six{};
  six[15] = 1;
  return address == six || in_ipv4(address, 127, 0, 8);
}

bool is_unspecified(const IpAddress& address) {
  IpAddress four{};
  four[10] = four[11] = 0xff;
  return address == IpAddress{} || address == four;
}

bool is_internal(const IpAddress& address) {
  if (is_loopback(address) || is_unspecified(address)) return true;
  if (is_ipv4(address))
    return in_ipv4(address, 0, 0, 8) || in_ipv4(address, 10, 0, 8) || in_ipv4(address, 100, 64, 10) ||
           in_ipv4(address, 169, 254, 16) || in_ipv4(address, 172, 16, 12) || in_ipv4(address, 192, 168, 16) ||
           in_ipv4(address, 198, 18, 15) || address[12] >= 224;
  // Unique local, link-local, multicast; and what embeds an IPv4 address (NAT64, 6to4, IPv4-compatible).
  return (address[0] & 0xfe) == 0xfc || (address[0] == 0xfe && (address[1] & 0xc0) == 0x80) || address[0] == 0xff ||
         (address[0] == 0x00 && address[1] == 0x64) || (address[0] == 0x20 && address[1] == 0x02) ||
         std::all_of(address.begin(), address.begin() + 12, [](uint8_t byte) { return byte == 0; });
}

std::string address_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN];
  if (is_ipv4(address)) return inet_ntop(AF_INET, address.data() + 12, text, sizeof text) != nullptr ? text : "?";
  return inet_ntop(AF_INET6, address.data(), text, sizeof text) != nullptr ? "[" + std::string(text) + "]" : "?";
}

std::string socket_text(const SocketAddress& address) {
  if (address.protocol == Protocol::kUnix) return "unix:" + address.path;
  return (address.protocol == Protocol::kTcp ? "tcp:" : "udp:") + address_text(address.address) + ":" +
         std::to_string(address.port);
}

NetworkDecision NetworkMatcher::connect(const SocketAddress& address) const {
  NetworkDecision decision;
  decision.allowed = true;
  for (const Layer& layer : layers_) {
    const NetworkSection& section = layer.section;
    if (section.all || any(section.connect, address)) continue;
    // Sockets of the run talk to each other whatever the section; so do servers on loopback where it says so.
    const bool own = address.protocol == Protocol::kUnix || (section.loopback && is_loopback(address.address));
    if (!own) return {false, false, layer.unmatched};
    decision.only_own = true;
    decision.verdict = layer.unmatched;
  }
  return decision;
}

NetworkDecision NetworkMatcher::bind(const SocketAddress& address) const {
  for (const Layer& layer : layers_) {
    const NetworkSection& section = layer.section;
    // A Unix socket's name is a file's, or one among the run's abstract names, which only the run's sockets reach.
    if (section.all || address.protocol == Protocol::kUnix || any(section.bind, address)) continue;
    // A UDP socket takes some free port for its answers.
    if (address.protocol == Protocol::kUdp && address.port == 0) continue;
    if (section.loopback && is_loopback(address.address)) continue;
    return {false, false, layer.unmatched};
  }
  return {true, false, {}};
}

std::vector<std::string> NetworkMatcher::names_for(const SocketAddress& address) const {
  std::vector<std::string> names;
  for (const Layer& layer : layers_)
    for (const NetworkEntry& entry : layer.section.connect)
      if (!entry.name.empty() && entry.protocol == address.protocol && address.port >= entry.first_port &&
          address.port <= entry.last_port)
        names.push_back(entry.name);
  return names;
}

}  // namespace srun::policy
