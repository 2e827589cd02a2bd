#pragma once
// The `network` sections of a stack: which addresses may be connected to and bound. Built at load, then read-only and
// shared by all threads; asking allocates nothing. Name rules are looked up by whoever asks (H31).
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/rules.h"

namespace srun::policy {

enum class Protocol : uint8_t { kTcp, kUdp, kUnix };

// An address as a rule sees it. IPv4 and IPv4-mapped IPv6 addresses are the same: both are kept mapped.
using IpAddress = std::array<uint8_t, 16>;

struct SocketAddress {
  Protocol protocol = Protocol::kTcp;
  IpAddress address{};  // tcp, udp
  uint16_t port = 0;    // host byte order
  std::string path;     // unix: a canonical path, or "@" and an abstract name
};

bool is_loopback(const IpAddress& address);
bool is_unspecified(const IpAddress& address);
// Loopback, private, link-local (metadata services among them), multicast and the like: what a name that somebody else
// controls must not lead to unless a rule on addresses says so (rebinding, H31).
bool is_internal(const IpAddress& address);
// "10.0.0.1", "[::1]"; with the port "10.0.0.1:80", "[::1]:80".
std::string address_text(const IpAddress& address);
std::string socket_text(const SocketAddress& address);  // "tcp:10.0.0.1:80", "unix:/run/x", "unix:@x"

struct NetworkEntry {
  Protocol protocol = Protocol::kTcp;
  bool any_host = false;
  IpAddress network{};
  unsigned prefix = 128;  // bits of `network` that count
  std::string name;       // a host's name; its answers are in `answers`
  std::vector<IpAddress> answers;
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  std::string path;  // unix
  std::string text;  // as written
  std::string file;
  uint32_t line = 0;
  std::string pointer;
};

// One layer's section. A layer without one restricts nothing.
struct NetworkSection {
  bool all = false;
  bool loopback = false;  // servers of the run, and being one, on the loopback addresses
  bool dns = false;       // the host's name servers may be asked
  std::vector<NetworkEntry> connect;
  std::vector<NetworkEntry> bind;
  std::string file;
  uint32_t line = 0;
  std::string pointer;
  bool replaces = false;  // a flag's, where a file had a section too
};

struct NetworkDecision {
  bool allowed = false;
  bool only_own = false;     // allowed if it is a server of this run: the asker looks
  bpf::VerdictId verdict{};  // of the layer that refused
};

class NetworkMatcher {
 public:
  struct Layer {
    NetworkSection section;
    bpf::VerdictId unmatched{};
  };
  explicit NetworkMatcher(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  // Every layer must allow it.
  NetworkDecision connect(const SocketAddress& address) const;
  NetworkDecision bind(const SocketAddress& address) const;
  // Names whose rules could allow this if they were looked up again.
  std::vector<std::string> names_for(const SocketAddress& address) const;

 private:
  std::vector<Layer> layers_;
};

struct NetworkEnforcement {
  bool present = false;  // some layer has "network" and it is not "all": matcher is set
  bool audit = false;    // --audit: everything goes on, and is recorded if it would have been denied
  std::shared_ptr<const NetworkMatcher> matcher;
  std::vector<std::pair<std::string, std::vector<IpAddress>>> hosts;  // names and their answers at load
};

}  // namespace srun::policy
