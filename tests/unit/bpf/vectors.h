#pragma once
// Reads the public test vectors where they are present. They are never part of the project.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bpf/instruction.h"
#include "bpf/packet.h"
#include "bpf/program.h"

namespace srun::bpf::test {

// bpf-vectors/<name> below $SANDBOX_RUN_DATA_DIR or <source>/../shared/data. Empty, with a doctest message that names
// the file as skipped, where it is absent.
std::optional<nlohmann::json> load_vectors(const std::string& name);

std::vector<Instruction> instructions(const nlohmann::json& insns);
std::vector<uint8_t> bytes_from_hex(const std::string& hex);
// From the 64 little-endian bytes of a struct seccomp_data.
CallData call_from_hex(const std::string& hex);

// One program of the kernel's or FreeBSD's set on one input, with the result that Linux gives.
struct PacketCase {
  std::string name;
  std::vector<Instruction> code;
  std::vector<uint8_t> bytes;
  uint32_t wire_length = 0;
  uint32_t network_offset = 0;
  uint32_t result = 0;
  std::vector<std::string> needs;  // ancillary loads
};
std::vector<PacketCase> kernel_cases(const nlohmann::json& file);
std::vector<PacketCase> freebsd_cases(const nlohmann::json& file);
PacketMetadata kernel_metadata(const nlohmann::json& file);

}  // namespace srun::bpf::test
