#include "policy/oci_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "bpf/instruction.h"

namespace srun::policy {
namespace {

struct ActionName {
  std::string_view name;
  uint32_t action;
};
constexpr std::array<ActionName, 9> kActions = {{
    {"SCMP_ACT_KILL_THREAD", bpf::kRetKillThread},
    {"SCMP_ACT_KILL", bpf::kRetKillThread},
    {"SCMP_ACT_KILL_PROCESS", bpf::kRetKillProcess},
    {"SCMP_ACT_TRAP", bpf::kRetTrap},
    {"SCMP_ACT_ERRNO", bpf::kRetErrno},
    {"SCMP_ACT_TRACE", bpf::kRetTrace},
    {"SCMP_ACT_ALLOW", bpf::kRetAllow},
    {"SCMP_ACT_LOG", bpf::kRetLog},
    {"SCMP_ACT_NOTIFY", bpf::kRetUserNotif},
}};

struct OpName {
  std::string_view name;
  OciOp op;
};
constexpr std::array<OpName, 7> kOps = {{
    {"SCMP_CMP_NE", OciOp::kNotEqual},
    {"SCMP_CMP_LT", OciOp::kLess},
    {"SCMP_CMP_LE", OciOp::kLessEqual},
    {"SCMP_CMP_EQ", OciOp::kEqual},
    {"SCMP_CMP_GE", OciOp::kGreaterEqual},
    {"SCMP_CMP_GT", OciOp::kGreater},
    {"SCMP_CMP_MASKED_EQ", OciOp::kMaskedEqual},
}};

// EM_* with the flags of <linux/audit.h>: 64-bit 0x80000000, little endian 0x40000000, MIPS N32 0x20000000.
constexpr std::array<OciArch, 23> kArches = {{
    {"SCMP_ARCH_X86", kernel::kAuditI386},
    {"SCMP_ARCH_X86_64", kernel::kAuditX86_64},
    {"SCMP_ARCH_X32", kernel::kAuditX86_64},
    {"SCMP_ARCH_ARM", 0x40000028},
    {"SCMP_ARCH_AARCH64", kernel::kAuditAArch64},
    {"SCMP_ARCH_LOONGARCH64", 0xc0000102},
    {"SCMP_ARCH_M68K", 0x00000004},
    {"SCMP_ARCH_MIPS", 0x00000008},
    {"SCMP_ARCH_MIPS64", 0x80000008},
    {"SCMP_ARCH_MIPS64N32", 0xa0000008},
    {"SCMP_ARCH_MIPSEL", 0x40000008},
    {"SCMP_ARCH_MIPSEL64", 0xc0000008},
    {"SCMP_ARCH_MIPSEL64N32", 0xe0000008},
    {"SCMP_ARCH_PARISC", 0x0000000f},
    {"SCMP_ARCH_PARISC64", 0x8000000f},
    {"SCMP_ARCH_PPC", 0x00000014},
    {"SCMP_ARCH_PPC64", 0x80000015},
    {"SCMP_ARCH_PPC64LE", 0xc0000015},
    {"SCMP_ARCH_RISCV64", 0xc00000f3},
    {"SCMP_ARCH_S390", 0x00000016},
    {"SCMP_ARCH_S390X", 0x80000016},
    {"SCMP_ARCH_SH", 0x4000002a},
    {"SCMP_ARCH_SHEB", 0x0000002a},
}};

// Go's names of architectures and libseccomp's, as the loaders of Docker and Podman compare them.
constexpr std::array<std::string_view, 26> kConditionArches = {
    "386",      "amd64",     "arm",       "arm64",   "loong64",  "loongarch64", "mips",   "mips3l64n32", "mips64",
    "mips64le", "mips64n32", "mips64p32", "mipsel",  "mipsel64", "mipsel64n32", "mipsle", "parisc",      "parisc64",
    "ppc",      "ppc64",     "ppc64le",   "riscv64", "s390",     "s390x",       "x32",    "x86"};

constexpr std::array<std::string_view, 41> kCapabilities = {
    "CAP_AUDIT_CONTROL",   "CAP_AUDIT_READ",   "CAP_AUDIT_WRITE",
    "CAP_BLOCK_SUSPEND",   "CAP_BPF",          "CAP_CHECKPOINT_RESTORE",
    "CAP_CHOWN",           "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",          "CAP_FSETID",       "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",       "CAP_KILL",         "CAP_LEASE",
    "CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN",    "CAP_MAC_OVERRIDE",
    "CAP_MKNOD",           "CAP_NET_ADMIN",    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",   "CAP_NET_RAW",      "CAP_PERFMON",
    "CAP_SETFCAP",         "CAP_SETGID",       "CAP_SETPCAP",
    "CAP_SETUID",          "CAP_SYSLOG",       "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",        "CAP_SYS_CHROOT",   "CAP_SYS_MODULE",
    "CAP_SYS_NICE",        "CAP_SYS_PACCT",    "CAP_SYS_PTRACE",
    "CAP_SYS_RAWIO",       "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",  "CAP_WAKE_ALARM"};

// arm, mips, powerpc, riscv, s390; "recv", "send", "syscall" and "timerfd" are pseudo calls or were never a call.
constexpr std::array<std::string_view, 33> kElsewhere = {"arm_fadvise64_64",
                                                         "arm_sync_file_range",
                                                         "breakpoint",
                                                         "cachectl",
                                                         "cacheflush",
                                                         "get_tls",
                                                         "multiplexer",
                                                         "pciconfig_iobase",
                                                         "pciconfig_read",
                                                         "pciconfig_write",
                                                         "recv",
                                                         "riscv_flush_icache",
                                                         "riscv_hwprobe",
                                                         "rtas",
                                                         "s390_guarded_storage",
                                                         "s390_pci_mmio_read",
                                                         "s390_pci_mmio_write",
                                                         "s390_runtime_instr",
                                                         "s390_sthyi",
                                                         "send",
                                                         "set_tls",
                                                         "spu_create",
                                                         "spu_run",
                                                         "subpage_prot",
                                                         "swapcontext",
                                                         "switch_endian",
                                                         "sync_file_range2",
                                                         "sys_debug_setcontext",
                                                         "syscall",
                                                         "sysmips",
                                                         "timerfd",
                                                         "usr26",
                                                         "usr32"};

template <typename Table>
auto find_named(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.name == name; });
}

template <typename Table>
std::string nearest_in(const Table& table, std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& entry : table) names.push_back(entry.name);
  return std::string(nearest_name(name, names));
}

}  // namespace

std::optional<uint32_t> find_oci_action(std::string_view name) {
  const auto found = find_named(kActions, name);
  return found == kActions.end() ? std::nullopt : std::optional(found->action);
}

std::string nearest_oci_action(std::string_view name) { return nearest_in(kActions, name); }

std::string_view oci_action_name(uint32_t action) {
  for (const ActionName& entry : kActions)
    if (entry.action == (action & bpf::kRetActionMask)) return entry.name;
  return "an unknown action";
}

std::optional<OciOp> find_oci_op(std::string_view name) {
  const auto found = find_named(kOps, name);
  return found == kOps.end() ? std::nullopt : std::optional(found->op);
}

std::string nearest_oci_op(std::string_view name) { return nearest_in(kOps, name); }

const OciArch* find_oci_arch(std::string_view name) {
  const auto found = find_named(kArches, name);
  return found == kArches.end() ? nullptr : &*found;
}

std::string nearest_oci_arch(std::string_view name) { return nearest_in(kArches, name); }

std::string_view oci_arch_name(kernel::Arch arch) {
  switch (arch) {
    case kernel::Arch::kX86_64:
      return "SCMP_ARCH_X86_64";
    case kernel::Arch::kI386:
      return "SCMP_ARCH_X86";
    case kernel::Arch::kAArch64:
      break;
  }
  return "SCMP_ARCH_AARCH64";
}

std::string_view oci_condition_arch(kernel::Arch arch) {
  switch (arch) {
    case kernel::Arch::kX86_64:
      return "amd64";
    case kernel::Arch::kI386:
      return "x86";
    case kernel::Arch::kAArch64:
      break;
  }
  return "arm64";
}

bool is_oci_condition_arch(std::string_view name) {
  return std::find(kConditionArches.begin(), kConditionArches.end(), name) != kConditionArches.end();
}

bool is_capability(std::string_view name) {
  return std::find(kCapabilities.begin(), kCapabilities.end(), name) != kCapabilities.end();
}

std::string nearest_capability(std::string_view name) { return std::string(nearest_name(name, kCapabilities)); }

bool is_call_elsewhere(std::string_view name) {
  return std::find(kElsewhere.begin(), kElsewhere.end(), name) != kElsewhere.end();
}

}  // namespace srun::policy
