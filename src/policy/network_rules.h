#pragma once
// The `network` section as it is written: "none", "loopback", "all", or lists of endpoints.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/json_document.h"
#include "policy/network.h"
#include "policy/policy_error.h"

namespace srun::policy {

[[nodiscard]] Result<NetworkSection, PolicyError> parse_network(const Node& node);

// "tcp:HOST:PORT", "udp:…", "unix:PATH", "unix:@NAME"; HOST is an address, [IPv6], CIDR, name or "*", PORT a number,
// range or
// "*". Returns what is wrong, with what was expected; empty: `entry` is filled but for its place.
std::string parse_endpoint(std::string_view text, NetworkEntry& entry);

// --net and --listen: an endpoint as above, where "tcp:" and, for --net, the port may be left out (443 and 80 then).
struct NetworkFlags {
  bool none = false;
  bool loopback = false;
  bool all = false;
  std::vector<NetworkEntry> connect;
  std::vector<NetworkEntry> bind;
  bool any() const { return none || loopback || all || !connect.empty() || !bind.empty(); }
};
std::string add_net_flag(std::string_view rules, NetworkFlags& flags);    // one --net: rules with commas
std::string add_listen_flag(std::string_view text, NetworkFlags& flags);  // [HOST:]PORT

// What flags make of a section: they extend it, but for "none", which takes its place.
void apply_network_flags(NetworkSection& section, bool existed, const NetworkFlags& flags);

// `base` is what a file extends: scalars are the nearest's, lists concatenate.
void merge_network(NetworkSection& own, NetworkSection base);

// Looks up all names, in this process; answers that lead inside are left out (is_internal) but for those that an entry
// on addresses of the same section allows. Names without an answer stay, and a note says so.
void resolve_names(NetworkSection& section, std::vector<std::string>& notes);
std::vector<IpAddress> look_up(const std::string& name);

// The host's name servers as endpoints, from the text of resolv.conf(5).
std::vector<NetworkEntry> name_servers(std::string_view resolv_conf);

}  // namespace srun::policy
