#pragma once
// The filters that `sandbox-bench decide` runs, made here so that no data file is needed.
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "bpf/instruction.h"
#include "bpf/program.h"

namespace srun::bench {

// Compiled by libpcap for Ethernet, optimised. Errors: built without libpcap.
Result<std::vector<bpf::Instruction>> capture_filter(const char* expression);
// libpcap's interpreter on the same bytes; 0 without libpcap.
uint32_t run_libpcap(const bpf::Instruction* code, const uint8_t* bytes, uint32_t length) noexcept;
bool have_libpcap();

// One compare after the other, as libseccomp lays it out without its tree: for each number `argument 0 != 0` allows,
// everything else is killed.
std::vector<bpf::Instruction> linear_numbers(uint32_t count);
// `count` rules on one number, one after the other: argument 0 == 1000 + i and argument 1 != 0 gives an errno.
std::vector<bpf::Instruction> chained_rules(uint32_t number, uint32_t count);

// What a program of the packet flavour that reads big-endian words must be given to see the call.
std::vector<uint8_t> call_as_packet(const bpf::CallData& call);

// Ethernet, IPv4, TCP with payload to port 22.
std::vector<uint8_t> ssh_packet();

}  // namespace srun::bench
