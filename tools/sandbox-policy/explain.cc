#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text.h"
#include "bpf/disassembler.h"
#include "bpf/kernel_bitmap.h"
#include "bpf/reference.h"
#include "kernel/syscall_table.h"
#include "policy/catalog.h"
#include "policy/fix.h"
#include "report/call_text.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/evaluate.h"
#include "sandbox-policy/host.h"

namespace srun::tool {
namespace {

using kernel::ArgKind;

// Stands for "some address": no rule can look behind it.
constexpr uint64_t kSomeAddress = 0x7f0000001000;

struct Call {
  uint32_t audit = 0;
  uint32_t number = 0;
  const kernel::Syscall* known = nullptr;
  KnownArguments arguments;
  std::vector<std::string> texts;  // given for pointers, as written

  bpf::CallData data() const {
    bpf::CallData data;
    data.nr = static_cast<int32_t>(number);
    data.arch = audit;
    std::copy(std::begin(arguments.values), std::end(arguments.values), std::begin(data.args));
    return data;
  }
};

bool is_path(std::string_view word) {
  return word.starts_with('/') || word.starts_with("./") || word.starts_with("../") || word.starts_with('~') ||
         word == ".";
}

bool takes_text(ArgKind kind) {
  switch (kind) {
    case ArgKind::kPath:
    case ArgKind::kLinkTarget:
    case ArgKind::kMountSource:
    case ArgKind::kMqName:
    case ArgKind::kString:
    case ArgKind::kXattrName:
    case ArgKind::kBufferIn:
    case ArgKind::kSockaddrIn:
    case ArgKind::kArgv:
    case ArgKind::kEnvp:
      return true;
    default:
      return false;
  }
}

// A number as policies write it: "0x10", "-1", "O_RDONLY|O_CREAT".
Result<uint64_t, policy::PolicyError> number_of(const std::string& word) {
  std::string text;
  append_json_string(text, word);
  auto document = policy::Document::parse(text, "argument " + word);
  if (!document) return failure(std::move(document.error()));
  auto number = policy::parse_number(document->root());
  if (!number) return failure(std::move(number.error()));
  return number->bits;
}

// False: said what is wrong.
bool read_arguments(const std::vector<std::string>& words, Call& call) {
  size_t slot = 0;
  for (const std::string& word : words) {
    const auto kind_at = [&](size_t index) {
      return call.known != nullptr && index < call.known->arg_count ? std::optional(call.known->args[index].kind)
                                                                    : std::nullopt;
    };
    // "openat /etc/shadow" leaves out the directory, as people do.
    if (slot < 6 && kind_at(slot) == ArgKind::kDirFd && is_path(word)) {
      call.arguments.values[slot] = static_cast<uint64_t>(int64_t{-100});  // AT_FDCWD
      call.arguments.known[slot++] = true;
    }
    if (slot >= (call.known != nullptr ? size_t{call.known->arg_count} : size_t{6})) {
      complain("too many arguments at \"" + word + "\"");
      return false;
    }
    if (word == "_") {  // unknown
      ++slot;
      continue;
    }
    const auto value = number_of(word);
    if (value) {
      call.arguments.values[slot] = *value;
    } else if (const auto kind = kind_at(slot); (kind && takes_text(*kind)) || is_path(word)) {
      call.arguments.values[slot] = kSomeAddress;
      call.texts.push_back(word);
    } else {
      const policy::PolicyError& error = value.error();
      complain("argument " + std::to_string(slot) + ": " + error.message +
               (error.suggestion.empty() ? "" : "; did you mean " + error.suggestion + "?"));
      return false;
    }
    call.arguments.known[slot++] = true;
  }
  return true;
}

bool read_call(const std::string& name, kernel::Arch arch, bool x32, Call& call) {
  call.audit = kernel::audit_arch(arch);
  const bool digits = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
  if (digits || name == "-1") {
    const auto number = number_of(name);
    if (!number || (*number > 0xffffffff && name != "-1")) {
      complain("\"" + name + "\" is no call number");
      return false;
    }
    call.number = static_cast<uint32_t>(*number);
    call.known = kernel::find_syscall(arch, call.number);
  } else {
    call.known = kernel::find_syscall(name);
    const auto number = call.known == nullptr ? std::nullopt : call.known->number(arch);
    if (!number) {
      const std::string near = policy::nearest_call(name);
      complain(call.known != nullptr
                   ? name + " does not exist on " + std::string(kernel::arch_name(arch))
                   : "unknown system call \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
      return false;
    }
    call.number = *number;
  }
  if (x32) {
    call.number |= kernel::kX32Bit;
    call.known = nullptr;
  }
  return true;
}

// Who carries it out, from what the kernel's program really answers.
std::string enforcer_text(const policy::Enforcement& enforcement, const Call& call, const policy::Verdict& verdict) {
  const bpf::Program& program = enforcement.programs->kernel;
  const uint32_t answer = bpf::run_reference(program, call.data());
  const std::string text = bpf::return_value_text(answer);
  switch (answer & bpf::kRetActionMask) {
    case bpf::kRetAllow: {
      bpf::KernelBitmapRules rules;
      rules.native_arch = kernel::audit_arch(kernel::kNativeArch);
      rules.native_numbers = kernel::first_unknown_number(kernel::kNativeArch);
      if (kernel::kNativeArch == kernel::Arch::kX86_64) {
        rules.compat_arch = kernel::kAuditI386;
        rules.compat_numbers = kernel::first_unknown_number(kernel::Arch::kI386);
      }
      if (bpf::kernel_sees_allow(program.code(), rules, call.audit, call.number))
        return "the kernel's bitmap of allowed calls, without running a filter (" + text + ")";
      return "the kernel's filter (" + text + ")";
    }
    case bpf::kRetUserNotif:
      return std::string("the supervisor, asked by the kernel's filter (") + text + "); it " +
             (passes(verdict)
                  ? "lets the call go on" +
                        std::string(verdict.action == policy::Action::kLog ? " and records it" : " if it may")
                  : "answers " + verdict_text(verdict));
    default:
      return "the kernel's filter (" + text + ")";
  }
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
  Call call;
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
  // Where some arguments are unknown the program is asked with zeros in their place: the verdict is the same.
  print("enforced by " + enforcer_text(enforcement, call, verdict) + "\n");
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
