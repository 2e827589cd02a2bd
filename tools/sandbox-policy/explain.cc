#include <algorithm>

#include "base/text.h"
#include "bpf/call_trace.h"
#include "bpf/disassembler.h"
#include "bpf/kernel_bitmap.h"
#include "policy/fix.h"
#include "report/call_text.h"
#include "sandbox-policy/call_words.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/evaluate.h"
#include "sandbox-policy/host.h"

namespace srun::tool {
namespace {

// Who carries it out, from what the kernel's program really answers.
std::string enforcer_text(const policy::Enforcement& enforcement, const CallWords& call, const policy::Verdict& verdict,
                          const bpf::KernelBitmapRules& bitmap) {
  const bpf::Program& program = enforcement.programs->kernel;
  if (bpf::kernel_sees_allow(program.code(), bitmap, call.audit, call.number))
    return "the kernel's bitmap of allowed calls, without running a filter (" + bpf::return_value_text(bpf::kRetAllow) +
           ")";
  const bpf::CallTrace trace = bpf::trace_call(program, call.data());
  const std::string filter = "the kernel's filter (" + bpf::return_value_text(trace.value) + " after " +
                             count_of(trace.instructions.size(), "instruction") + " of " +
                             std::to_string(program.code().size()) + ")";
  if ((trace.value & bpf::kRetActionMask) != bpf::kRetUserNotif) return filter;
  return "the supervisor, asked by " + filter + "; it " +
         (passes(verdict) ? "lets the call go on" +
                                std::string(verdict.action == policy::Action::kLog ? " and records it" : " if it may")
                          : "answers " + verdict_text(verdict));
}

std::string described(const policy::Verdict& verdict) {
  std::string text = escape_for_terminal(rule_text(verdict.rule));
  if (verdict.rule.newer_than_table)
    text += ", newer than the policy knows";
  else if (verdict.rule.is_default)
    text += ", no rule matches";
  if (!verdict.rule.reason.empty()) text += ": " + escape_for_terminal(verdict.rule.reason);
  return text;
}

}  // namespace

int explain(const std::string& policy, const std::string& name, const std::vector<std::string>& words,
            kernel::Arch arch, bool x32) {
  CallWords call;
  if (!read_call(name, arch, x32, call) || !read_arguments(words, call)) return kBadPolicy;
  // i386 and x32 are ABIs of the x86-64 kernel: the program is the same.
  const Host host = this_host(arch == kernel::Arch::kI386 ? kernel::Arch::kX86_64 : arch);
  const auto loaded = load(policy, host);
  if (!loaded) {
    complain(loaded.error().text());
    return kBadPolicy;
  }
  const policy::Enforcement& enforcement = loaded->enforcement;
  const bpf::CallData data = call.data();
  const bpf::KernelBitmapRules bitmap = host_bitmap_rules(host.load.oci.kernel);
  print("call        " +
        (words.empty() ? report::call_name(call.audit, call.number)
                       : report::call_text(call.audit, call.number, data.args)) +
        ", number " + std::to_string(call.number) + " on " + (x32 ? "x32" : std::string(kernel::arch_name(arch))) +
        "\n");

  const auto certain = certain_verdict(enforcement, call.audit, call.number, call.arguments);
  if (!certain) {
    print("verdict     depends on arguments\n");
    bool refused = false;
    for (size_t i = 0; i < enforcement.rules.size(); ++i) {
      const std::vector<Candidate> possible = candidates(enforcement.rules[i], call.audit, call.number, call.arguments);
      for (const Candidate& entry : possible) {
        const policy::Verdict& verdict = enforcement.verdicts[entry.verdict];
        refused = refused || !passes(verdict);
        print(
            (&entry == possible.data() ? "layer       " + escape_for_terminal(enforcement.layers[i].name) + "\n" : "") +
            "            " +
            (entry.rule == nullptr ? std::string(possible.size() == 1 ? "always" : "else")
                                   : conditions_text(entry.rule->all_of)) +
            ": " + verdict_text(verdict) + "  [" + described(verdict) + "]\n");
      }
    }
    return refused ? kFinding : kFine;
  }

  const policy::Verdict& verdict = enforcement.verdicts[*certain];
  print("verdict     " + verdict_text(verdict) + "\n");
  print("rule        " + described(verdict) + "\n");
  const std::vector<uint32_t>& exempt = bitmap.always_pass;
  const bool unfiltered =
      call.audit == bitmap.native_arch && std::find(exempt.begin(), exempt.end(), call.number) != exempt.end();
  if (unfiltered && !passes(verdict)) {
    print("enforced by nobody: this kernel exempts the call from filters, since it is its own (uprobes)\n");
  } else {
    // Where some arguments are unknown the program is asked with zeros in their place: the verdict is the same.
    print("enforced by " + enforcer_text(enforcement, call, verdict, bitmap) + "\n");
  }
  for (size_t i = 0; i < enforcement.rules.size(); ++i) {
    const std::vector<Candidate> possible = candidates(enforcement.rules[i], call.audit, call.number, call.arguments);
    if (possible.size() != 1 || possible.front().verdict == *certain) continue;
    const policy::Verdict& other = enforcement.verdicts[possible.front().verdict];
    if (other.rule.layer == verdict.rule.layer || (i == 0 && other.action == policy::Action::kAllow)) continue;
    print("overruled   " + verdict_text(other) + "  [" + described(other) + "]\n");
  }
  for (const std::string& text : call.texts)
    print("not seen    \"" + escape_for_terminal(text) +
          "\": system call rules see the pointer, not what is behind it\n");
  if (passes(verdict)) return kFine;
  if (const auto fix = policy::suggested_fix(loaded->stack, host.lowering, enforcement, data))
    print("fix         " + escape_for_terminal(*fix) + "\n");
  return kFinding;
}

}  // namespace srun::tool
