#pragma once
// A packet as a program of the packet flavour sees it, outside the kernel.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace srun::bpf {

// Ancillary loads: LD ABS with k = kAncillaryBase + 4 * Ancillary (SKF_AD_* of <linux/filter.h> divided by four).
inline constexpr uint32_t kAncillaryBase = 0xfffff000;  // SKF_AD_OFF
enum class Ancillary : uint8_t {
  kProtocol,
  kPacketType,
  kIfIndex,
  kNetlinkAttribute,
  kNestedNetlinkAttribute,
  kMark,
  kQueue,
  kHardwareType,
  kRxHash,
  kCpu,
  kAluXorX,
  kVlanTag,
  kVlanTagPresent,
  kPayloadOffset,
  kRandom,
  kVlanTpid
};
inline constexpr uint32_t kAncillaryCount = 16;

// What the kernel takes from the socket buffer instead of from the bytes. Indexed by Ancillary; kAluXorX is not a load
// and its word is unused.
struct PacketMetadata {
  std::array<uint32_t, kAncillaryCount> values{};
};

// Does not own the bytes nor the metadata. `wire_length` is what LD LEN gives; bounds are checked against `length`.
// Without metadata the values are 0 and, as in the kernel for a buffer without device, kIfIndex and kHardwareType end
// the program with the current A.
struct Packet {
  // Longer ones are cut: an offset from 2^31 on is a negative one.
  static constexpr size_t kMaxLength = 0x7fffffff;

  const uint8_t* data = nullptr;
  uint32_t length = 0;
  uint32_t wire_length = 0;
  uint32_t network_offset = 0;  // where the network header begins; the link-layer header begins at 0
  const PacketMetadata* metadata = nullptr;

  Packet() = default;
  explicit Packet(std::span<const uint8_t> bytes) : Packet(bytes, static_cast<uint32_t>(bytes.size())) {}
  Packet(std::span<const uint8_t> bytes, uint32_t wire)
      : data(bytes.data()), length(static_cast<uint32_t>(std::min(bytes.size(), kMaxLength))), wire_length(wire) {}
};

// kNetlinkAttribute, kNestedNetlinkAttribute and kPayloadOffset are computed by the kernel from state this room does
// not have: a program that reaches one of them ends with 0 (drop).
constexpr bool ancillary_supported(Ancillary value) {
  return value != Ancillary::kNetlinkAttribute && value != Ancillary::kNestedNetlinkAttribute &&
         value != Ancillary::kPayloadOffset;
}

// Where `size` bytes at the signed offset begin, or nullptr. Offsets from -0x100000 count from the network header, from
// -0x200000 from the link layer (SKF_NET_OFF, SKF_LL_OFF); lower ones fail.
constexpr const uint8_t* packet_bytes(const Packet& packet, int32_t offset, uint32_t size) {
  constexpr int64_t kNetworkBase = -0x100000;
  constexpr int64_t kLinkLayerBase = -0x200000;
  int64_t at = offset;
  if (offset < 0) {
    if (at >= kNetworkBase) {
      at = at - kNetworkBase + packet.network_offset;
    } else if (at >= kLinkLayerBase) {
      at -= kLinkLayerBase;
    } else {
      return nullptr;
    }
  }
  return at + size <= int64_t{packet.length} ? packet.data + at : nullptr;
}

}  // namespace srun::bpf
