#pragma once
#include <cstdint>
#include <span>

#include "bpf/packet.h"
#include "bpf/program.h"

namespace srun::bpf {

// The reference interpreter: a plain switch over the classic instructions; every other engine is compared with it.
// Pure and thread-safe. Running a program of the other flavour is a broken invariant and aborts.
//
// Seccomp flavour. Never fails: X = 0 in DIV/MOD ends with 0 as in the kernel.
uint32_t run_reference(const Program& program, const CallData& call) noexcept;
// Packet flavour; big-endian loads, an out-of-bounds load ends with 0. Negative offsets and ancillary loads as stated
// in packet.h; the load size of an ancillary load is ignored.
uint32_t run_reference(const Program& program, const Packet& packet) noexcept;
// The same without metadata. `wire_length` is what LD LEN gives.
uint32_t run_reference(const Program& program, std::span<const uint8_t> packet, uint32_t wire_length) noexcept;

}  // namespace srun::bpf
