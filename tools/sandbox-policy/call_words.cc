#include "sandbox-policy/call_words.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "policy/catalog.h"
#include "policy/fix.h"
#include "sandbox-policy/host.h"

namespace srun::tool {
namespace {

using kernel::ArgKind;

// Stands for "some address": no rule can look behind it.
constexpr uint64_t kSomeAddress = 0x7f0000001000;

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

}  // namespace

bpf::CallData CallWords::data() const {
  bpf::CallData data;
  data.nr = static_cast<int32_t>(number);
  data.arch = audit;
  std::copy(std::begin(arguments.values), std::end(arguments.values), std::begin(data.args));
  return data;
}

bool read_arguments(const std::vector<std::string>& words, CallWords& call) {
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

bool read_call(const std::string& name, kernel::Arch arch, bool x32, CallWords& call) {
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

bpf::KernelBitmapRules host_bitmap_rules(const kernel::KernelVersion& version) {
  bpf::KernelBitmapRules rules;
  rules.native_arch = kernel::audit_arch(kernel::kNativeArch);
  rules.native_numbers = kernel::first_unknown_number(kernel::kNativeArch);
  if (kernel::kNativeArch == kernel::Arch::kX86_64) {
    rules.compat_arch = kernel::kAuditI386;
    rules.compat_numbers = kernel::first_unknown_number(kernel::Arch::kI386);
    // kernel/seccomp.c, seccomp_is_const_allow: uretprobe since 6.14, uprobe since 6.18. Older stable kernels may have
    // taken the change over; nothing there tells.
    if (version >= kernel::KernelVersion{6, 14}) rules.always_pass.push_back(335);
    if (version >= kernel::KernelVersion{6, 18}) rules.always_pass.push_back(336);
  }
  return rules;
}

}  // namespace srun::tool
