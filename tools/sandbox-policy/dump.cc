#include <charconv>

#include "base/text.h"
#include "bpf/call_trace.h"
#include "report/call_text.h"
#include "sandbox-policy/call_words.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"
#include "sandbox-policy/process_filters.h"

namespace srun::tool {
namespace {

using bpf::Instruction;

// "layer 2, instruction 0013 ret ERRNO(1)": the line of the listing, its columns closed up.
std::string place_text(size_t layer, std::span<const Instruction> code, size_t instruction) {
  const std::string listing = bpf::disassemble(code, names_of_calls());
  size_t start = 0;
  for (size_t line = 0; line < instruction; ++line) start = listing.find('\n', start) + 1;
  std::string text = "layer " + std::to_string(layer + 1) + ", instruction ";
  for (const char c : std::string_view(listing).substr(start, listing.find('\n', start) - start)) {
    if (c != ' ' || text.back() != ' ') text += c;
  }
  return text;
}

// Where an answer looked at an argument that was not given, it holds for 0 there.
std::string assumptions_text(const std::vector<bpf::Program>& layers, const std::vector<bpf::CallTrace>& traces,
                             const KnownArguments& arguments) {
  bool used[6] = {};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (const size_t pc : traces[layer].instructions) {
      const Instruction& insn = layers[layer].code()[pc];
      constexpr uint16_t kLoadWord = 0x20;  // BPF_LD | BPF_W | BPF_ABS
      if (insn.code == kLoadWord && insn.k >= 16 && insn.k < 64) used[(insn.k - 16) / 8] = true;
    }
  }
  std::string words;
  for (size_t i = 0; i < 6; ++i)
    if (used[i] && !arguments.known[i]) words += (words.empty() ? "arg" : ", arg") + std::to_string(i);
  return words.empty() ? words : "assumed     0 for what was not given and is looked at: " + words + "\n";
}

int explain_call(const std::vector<std::vector<Instruction>>& filters, const CallWords& call, bool with_arguments) {
  const bpf::CallData data = call.data();
  std::vector<bpf::Program> layers;
  for (size_t i = 0; i < filters.size(); ++i) {
    auto program = bpf::verify(filters[i], bpf::Flavour::kSeccomp);
    if (!program) {
      complain("layer " + std::to_string(i + 1) + ": " + program.error().message());
      return kBadPolicy;
    }
    layers.push_back(std::move(*program));
  }
  print("call        " +
        (with_arguments ? report::call_text(call.audit, call.number, data.args)
                        : report::call_name(call.audit, call.number)) +
        ", number " + std::to_string(call.number) + "\n");

  // As the kernel: all run, newest first, the strictest wins and the newest on a tie (seccomp(2)).
  std::vector<bpf::CallTrace> traces;
  for (const bpf::Program& layer : layers) traces.push_back(bpf::trace_call(layer, data));
  size_t winner = layers.size() - 1;
  for (size_t layer = winner; layer-- > 0;)
    if (bpf::stricter(traces[layer].value, traces[winner].value)) winner = layer;

  const uint32_t value = traces[winner].value;
  print("verdict     " + bpf::return_value_text(value) + "\n");
  print("decided by  " + place_text(winner, layers[winner].code(), traces[winner].deciding_instruction()) + "\n");
  for (size_t layer = layers.size(); layer-- > 0;) {
    if (layer == winner) continue;
    print("overruled   " + bpf::return_value_text(traces[layer].value) + ": " +
          place_text(layer, layers[layer].code(), traces[layer].deciding_instruction()) + "\n");
  }
  print(assumptions_text(layers, traces, call.arguments));

  bpf::KernelBitmap bitmap(host_bitmap_rules(this_kernel()));
  size_t executed = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    bitmap.push(layers[layer]);
    executed += traces[layer].instructions.size();
  }
  print("cost        " +
        (bitmap.passes(call.audit, call.number)
             ? std::string("one test in the kernel's bitmap of allowed calls, no filter runs")
             : count_of(executed, "instruction") + " in " + count_of(layers.size(), "filter")) +
        "\n");
  const uint32_t action = value & bpf::kRetActionMask;
  return action == bpf::kRetAllow || action == bpf::kRetLog ? kFine : kFinding;
}

}  // namespace

int dump(const std::string& process, const std::string& call_name, const std::vector<std::string>& arguments,
         kernel::Arch arch, bool x32, OutputFormat format, unsigned layer) {
  pid_t tid = 0;
  const auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), tid);
  if (error != std::errc{} || end != process.data() + process.size() || tid < 1) {
    complain("\"" + process + "\" is no process number");
    return kBadPolicy;
  }
  CallWords call;
  if (!call_name.empty() && (!read_call(call_name, arch, x32, call) || !read_arguments(arguments, call)))
    return kBadPolicy;
  const auto filters = process_filters(tid);
  if (!filters) {
    complain(filters.error().message());
    return kBadPolicy;
  }
  const std::string name = "process " + process + " (" + escape_for_terminal(process_name(tid)) + ")";
  if (layer > filters->size()) {
    complain(name + " has " + count_of(filters->size(), "filter") + ", no layer " + std::to_string(layer));
    return kBadPolicy;
  }
  if (filters->empty()) {
    if (format) {
      complain(name + " has no filter");
      return kBadPolicy;
    }
    print("# " + name + " has no filter\n");
    return kFine;
  }
  if (!call_name.empty()) return explain_call(*filters, call, !arguments.empty());
  if (format && layer == 0 && filters->size() > 1) {
    complain(name + " has " + count_of(filters->size(), "filter") + "; choose one with --layer, 1 is the oldest");
    return kBadPolicy;
  }
  if (!format) print("# " + name + ": " + count_of(filters->size(), "filter") + ", the oldest is layer 1\n");
  for (size_t i = 0; i < filters->size(); ++i) {
    if (layer != 0 && layer != i + 1) continue;
    const std::vector<Instruction>& code = (*filters)[i];
    if (!format) print("# layer " + std::to_string(i + 1) + ": " + count_of(code.size(), "instruction") + "\n");
    print(program_text(code, format, names_of_calls()));
  }
  return kFine;
}

}  // namespace srun::tool
