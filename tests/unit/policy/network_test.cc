#include "policy/network.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "policy/json_document.h"
#include "policy/loader.h"
#include "policy/network_lowering.h"
#include "policy/network_rules.h"
#include "unit/policy/policy_fixture.h"

namespace srun::policy::test {
namespace {

NetworkEntry entry_of(const std::string& text) {
  NetworkEntry entry;
  const std::string wrong = parse_endpoint(text, entry);
  REQUIRE_MESSAGE(wrong.empty(), text << ": " << wrong);
  return entry;
}

std::string wrong_with(const std::string& text) {
  NetworkEntry entry;
  return parse_endpoint(text, entry);
}

// "tcp:10.0.0.1:80" as an address.
SocketAddress address_of(const std::string& text) {
  const NetworkEntry entry = entry_of(text);
  SocketAddress address;
  address.protocol = entry.protocol;
  address.address = entry.network;
  address.port = entry.first_port;
  address.path = entry.path;
  return address;
}

NetworkSection section_of(const std::string& json) {
  auto document = Document::parse(json, "ci.json");
  REQUIRE(document);
  auto section = parse_network(document->root());
  REQUIRE_MESSAGE(section, section.error().text());
  return std::move(*section);
}

bool connects(const std::vector<std::string>& layers, const std::string& to, bool* only_own = nullptr) {
  std::vector<NetworkMatcher::Layer> made;
  for (const std::string& json : layers) made.push_back({section_of(json), {}});
  const NetworkDecision decision = NetworkMatcher(std::move(made)).connect(address_of(to));
  if (only_own != nullptr) *only_own = decision.only_own;
  return decision.allowed;
}

bool binds(const std::string& json, const std::string& to) {
  return NetworkMatcher({{section_of(json), {}}}).bind(address_of(to)).allowed;
}

}  // namespace

TEST_CASE("network: addresses, prefixes and port ranges match to the bit") {
  const std::string rules =
      R"({"connect": ["tcp:10.1.2.0/23:80-90", "udp:[2001:db8::]/33:*", "tcp:192.0.2.7:443", "unix:@name"]})";
  CHECK(connects({rules}, "tcp:10.1.2.0:80"));
  CHECK(connects({rules}, "tcp:10.1.3.255:90"));
  CHECK(!connects({rules}, "tcp:10.1.4.0:80"));
  CHECK(!connects({rules}, "tcp:10.1.1.255:80"));
  CHECK(!connects({rules}, "tcp:10.1.2.0:91"));
  CHECK(!connects({rules}, "tcp:10.1.2.0:79"));
  CHECK(!connects({rules}, "udp:10.1.2.0:80"));
  CHECK(connects({rules}, "udp:[2001:db8:7fff::1]:1"));
  CHECK(!connects({rules}, "udp:[2001:db8:8000::1]:1"));
  // An IPv4-mapped address is the IPv4 one.
  CHECK(connects({rules}, "tcp:[::ffff:192.0.2.7]:443"));
  CHECK(connects({rules}, "unix:@name"));
  bool only_own = false;
  CHECK(connects({rules}, "unix:@other", &only_own));
  CHECK(only_own);
}

TEST_CASE("network: the words, and that every layer must allow") {
  bool only_own = false;
  CHECK(!connects({R"("none")"}, "tcp:127.0.0.1:80"));
  CHECK(connects({R"("all")"}, "tcp:192.0.2.1:80", &only_own));
  CHECK(!only_own);
  CHECK(connects({R"("loopback")"}, "tcp:127.9.9.9:80", &only_own));
  CHECK(only_own);
  CHECK(connects({R"("loopback")"}, "tcp:[::1]:80"));
  CHECK(!connects({R"("loopback")"}, "tcp:192.0.2.1:80"));
  const std::string rules = R"({"connect": ["tcp:127.0.0.1:*"]})";
  CHECK(connects({rules}, "tcp:127.0.0.1:80", &only_own));
  CHECK(!only_own);
  CHECK(connects({rules, R"("loopback")"}, "tcp:127.0.0.1:80", &only_own));
  CHECK(only_own);
  CHECK(!connects({rules, R"("none")"}, "tcp:127.0.0.1:80"));
}

TEST_CASE("network: binding") {
  CHECK(binds(R"("loopback")", "tcp:127.0.0.1:80"));
  CHECK(!binds(R"("loopback")", "tcp:0.0.0.0:80"));
  CHECK(!binds(R"("none")", "tcp:127.0.0.1:80"));
  CHECK(binds(R"({"bind": ["tcp:*:8000-8100"]})", "tcp:0.0.0.0:8050"));
  CHECK(!binds(R"({"bind": ["tcp:*:8000-8100"]})", "tcp:0.0.0.0:7999"));
  // A UDP socket takes some port for its answers.
  CHECK(binds(R"({"connect": ["udp:192.0.2.1:53"]})", "udp:0.0.0.0:0"));
  CHECK(!binds(R"({"connect": ["udp:192.0.2.1:53"]})", "udp:0.0.0.0:53"));
}

TEST_CASE("network: what is wrong is said") {
  CHECK(wrong_with("10.0.0.1:80").find("expected tcp:") == 0);
  CHECK(wrong_with("tcp:10.0.0.1") != "");
  CHECK(wrong_with("tcp:::1:80") != "");
  CHECK(wrong_with("tcp:10.0.0.1/33:80") == "a prefix is 0 to 32 bits");
  CHECK(wrong_with("tcp:10.0.0.256:80") != "");
  CHECK(wrong_with("tcp:10.0.0.1:65536") != "");
  CHECK(wrong_with("tcp:10.0.0.1:90-80") != "");
  CHECK(wrong_with("tcp:*.example.com:443").find("no wildcards") != std::string::npos);
  CHECK(wrong_with("tcp:-x:443") != "");
  CHECK(wrong_with("unix:relative") != "");
  CHECK(wrong_with("unix:@" + std::string(200, 'x')) != "");
  for (const char* text :
       {R"("nothing")", R"([])", R"({"conect": []})", R"({"connect": "tcp:*:80"})", R"({"connect": [7]})",
        R"({"bind": ["unix:/x"]})", R"({"bind": ["tcp:localhost:80"]})", R"({"dns": 1})"}) {
    CAPTURE(text);
    auto document = Document::parse(text, "ci.json");
    REQUIRE(document);
    CHECK(!parse_network(document->root()));
  }
}

TEST_CASE("network: addresses that a name must not lead to") {
  for (const char* text : {"127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
                           "0.0.0.0", "224.0.0.1", "255.255.255.255", "[::1]", "[fe80::1]", "[fc00::1]", "[ff02::1]",
                           "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[::]", "[::7f00:1]"}) {
    CAPTURE(text);
    CHECK(is_internal(address_of("tcp:" + std::string(text) + ":1").address));
  }
  for (const char* text : {"192.0.2.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "[2001:db8::1]", "[2606:4700::1]"}) {
    CAPTURE(text);
    CHECK(!is_internal(address_of("tcp:" + std::string(text) + ":1").address));
  }
}

TEST_CASE("network: flags extend a section, and `none` takes its place") {
  NetworkFlags flags;
  CHECK(add_net_flag("192.0.2.1,tcp:[2001:db8::1]:22,udp:192.0.2.2:53", flags) == "");
  REQUIRE(flags.connect.size() == 4);  // a host alone: 443 and 80
  CHECK(flags.connect[0].first_port == 443);
  CHECK(add_listen_flag("8080", flags) == "");
  CHECK(flags.bind.size() == 2);
  NetworkSection section = section_of(R"("loopback")");
  apply_network_flags(section, true, flags);
  CHECK(section.loopback);
  CHECK(section.connect.size() == 4);
  NetworkFlags none;
  CHECK(add_net_flag("none", none) == "");
  apply_network_flags(section, true, none);
  CHECK(!section.loopback);
  CHECK(section.connect.empty());
  CHECK(section.replaces);
  NetworkFlags both;
  CHECK(add_net_flag("none,192.0.2.1:80", both) != "");
}

TEST_CASE("network: files: own lists first, theirs after, words by the nearest") {
  NetworkSection own = section_of(R"({"connect": ["tcp:192.0.2.1:80"]})");
  merge_network(own, section_of(R"({"connect": ["tcp:192.0.2.2:80"], "bind": ["tcp:*:1"], "dns": true})"));
  CHECK(own.connect.size() == 2);
  CHECK(own.bind.size() == 1);
  CHECK(own.dns);
  NetworkSection word = section_of(R"("none")");
  merge_network(word, section_of(R"({"connect": ["tcp:192.0.2.2:80"]})"));
  CHECK(word.connect.empty());
}

TEST_CASE("network: name servers") {
  const std::vector<NetworkEntry> servers =
      name_servers("# x\nnameserver 192.0.2.53\nnameserver\t2001:db8::53%eth0 # y\nsearch z\nnameserver not-one\n");
  REQUIRE(servers.size() == 4);
  CHECK(servers[0].protocol == Protocol::kUdp);
  CHECK(servers[1].protocol == Protocol::kTcp);
  CHECK(address_text(servers[2].network) == "[2001:db8::53]");
  CHECK(servers[3].first_port == 53);
}

TEST_CASE("network: a fix is a flag that was tried") {
  const PolicyStack stack = [] {
    auto loaded = load_stack(std::vector<std::string>{"offline"}, {}, load_options());
    REQUIRE(loaded);
    return std::move(*loaded);
  }();
  Verdict verdict;
  verdict.rule.layer = 1;
  CHECK(suggested_network_fix(stack, verdict, "tcp:192.0.2.1:80", false) == "to allow: --net tcp:192.0.2.1:80");
  CHECK(suggested_network_fix(stack, verdict, "tcp:127.0.0.1:80", true) == "to allow: --listen 127.0.0.1:80");
  CHECK(suggested_network_fix(stack, verdict, "unix:/tmp/a b", false) == std::nullopt);
  CHECK(suggested_network_fix(stack, verdict, "udp:192.0.2.1:80", true) == std::nullopt);
}

}  // namespace srun::policy::test
