#include "vectors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace srun::bpf::test {
namespace {

std::string data_directory() {
  if (const char* directory = std::getenv("SANDBOX_RUN_DATA_DIR")) return directory;
  const char* source = std::getenv("SANDBOX_RUN_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/../shared/data";
}

}  // namespace

std::optional<nlohmann::json> load_vectors(const std::string& name) {
  std::ifstream in(data_directory() + "/bpf-vectors/" + name);
  if (!in) {
    MESSAGE("skipped: bpf-vectors/" << name << " is not here");
    return std::nullopt;
  }
  return nlohmann::json::parse(in);
}

std::vector<Instruction> instructions(const nlohmann::json& insns) {
  std::vector<Instruction> code;
  code.reserve(insns.size());
  for (const nlohmann::json& insn : insns) {
    code.push_back({insn[0].get<uint16_t>(), insn[1].get<uint8_t>(), insn[2].get<uint8_t>(), insn[3].get<uint32_t>()});
  }
  return code;
}

std::vector<uint8_t> bytes_from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

CallData call_from_hex(const std::string& hex) {
  const std::vector<uint8_t> bytes = bytes_from_hex(hex);
  REQUIRE(bytes.size() == sizeof(CallData));
  CallData call;
  std::memcpy(&call, bytes.data(), sizeof call);
  return call;
}

std::vector<PacketCase> kernel_cases(const nlohmann::json& file) {
  std::vector<PacketCase> cases;
  for (const nlohmann::json& vector : file["vectors"]) {
    if (!vector.contains("cases")) continue;
    for (const nlohmann::json& one : vector["cases"]) {
      PacketCase result;
      result.name = vector["name"];
      result.code = instructions(vector["insns"]);
      result.bytes = bytes_from_hex(vector["data_hex"]);
      result.bytes.resize(one["len"].get<size_t>());
      result.network_offset = std::min<uint32_t>(14, static_cast<uint32_t>(result.bytes.size()));
      if (vector.contains("frag_hex")) {
        const std::vector<uint8_t> fragment = bytes_from_hex(vector["frag_hex"]);
        result.bytes.insert(result.bytes.end(), fragment.begin(), fragment.end());
      }
      result.wire_length = static_cast<uint32_t>(result.bytes.size());
      result.result = one["result"];
      if (vector.contains("needs")) result.needs = vector["needs"].get<std::vector<std::string>>();
      cases.push_back(std::move(result));
    }
  }
  return cases;
}

std::vector<PacketCase> freebsd_cases(const nlohmann::json& file) {
  std::vector<PacketCase> cases;
  for (const nlohmann::json& vector : file["vectors"]) {
    if (vector["expect"] != "valid") continue;
    PacketCase result;
    result.name = vector["name"];
    result.code = instructions(vector["insns"]);
    result.bytes = bytes_from_hex(vector["data_hex"]);
    // The two LEN tests claim gigabytes that nobody reads.
    result.bytes.resize(std::min(result.bytes.size(), vector["buflen"].get<size_t>()));
    result.wire_length = vector["wirelen"];
    // Where Linux and FreeBSD differ (IND wraps in Linux) the file has the Linux result; where the wire length is made
    // up it has none, and the value in the BSD test holds.
    const bool linux_result = vector.contains("cases") && !vector["cases"].empty();
    result.result = linux_result ? vector["cases"][0]["result"] : vector["bsd"]["result"];
    cases.push_back(std::move(result));
  }
  return cases;
}

PacketMetadata kernel_metadata(const nlohmann::json& file) {
  PacketMetadata metadata;
  const auto set = [&](Ancillary which, const char* name) {
    metadata.values[static_cast<size_t>(which)] = file["skb"][name].get<uint32_t>();
  };
  set(Ancillary::kProtocol, "protocol");
  set(Ancillary::kPacketType, "pkttype");
  set(Ancillary::kIfIndex, "ifindex");
  set(Ancillary::kMark, "mark");
  set(Ancillary::kQueue, "queue");
  set(Ancillary::kHardwareType, "hatype");
  set(Ancillary::kRxHash, "rxhash");
  set(Ancillary::kVlanTag, "vlan_tag");
  set(Ancillary::kVlanTagPresent, "vlan_tag_present");
  set(Ancillary::kVlanTpid, "vlan_tpid");
  return metadata;
}

}  // namespace srun::bpf::test
