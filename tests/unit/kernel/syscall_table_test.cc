#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/syscall_table.h"

using namespace srun::kernel;

namespace {

constexpr Arch kArches[] = {Arch::kX86_64, Arch::kI386, Arch::kAArch64};

const Syscall& call(std::string_view name) {
  const Syscall* const found = find_syscall(name);
  REQUIRE_MESSAGE(found != nullptr, std::string(name));
  return *found;
}

ArgSpec arg(std::string_view name, size_t index, Arch arch = Arch::kX86_64) {
  const ArgList list = arguments(call(name), arch);
  REQUIRE_MESSAGE(index < list.count, std::string(name));
  return list.args[index];
}

std::set<std::string_view> members(std::string_view group) {
  const std::optional<size_t> index = find_group(group);
  REQUIRE_MESSAGE(index.has_value(), std::string(group));
  std::set<std::string_view> names;
  for (const Syscall& row : syscalls())
    if (in_group(row, *index)) names.insert(row.name);
  return names;
}

bool is_hole(Arch arch, uint32_t nr) {
  switch (arch) {
    case Arch::kX86_64:
      return nr >= 337 && nr <= 423;
    case Arch::kI386:
      return nr == 222 || nr == 223 || nr == 251 || nr == 285 || (nr >= 387 && nr <= 392) || nr == 415;
    case Arch::kAArch64:
      return (nr >= 244 && nr <= 259) || (nr >= 295 && nr <= 423);
  }
  return false;
}

}  // namespace

TEST_CASE("the table is sorted by name and no name occurs twice") {
  CHECK(std::is_sorted(syscalls().begin(), syscalls().end(),
                       [](const Syscall& a, const Syscall& b) { return a.name < b.name; }));
  CHECK(std::adjacent_find(syscalls().begin(), syscalls().end(),
                           [](const Syscall& a, const Syscall& b) { return a.name == b.name; }) == syscalls().end());
}

TEST_CASE("every number belongs to one call, and both ways to look a call up agree") {
  for (const Arch arch : kArches) {
    std::map<uint32_t, std::string_view> seen;
    for (const Syscall& row : syscalls()) {
      CHECK(find_syscall(row.name) == &row);
      const std::optional<uint32_t> nr = row.number(arch);
      if (!nr) continue;
      CHECK_MESSAGE(seen.emplace(*nr, row.name).second, arch_name(arch), " ", *nr, " ", row.name);
      CHECK(find_syscall(arch, *nr) == &row);
      CHECK(*nr < first_unknown_number(arch));
    }
  }
}

TEST_CASE("every number below the first unknown one is assigned, except the kernel's own holes") {
  for (const Arch arch : kArches) {
    CHECK(first_unknown_number(arch) == 470);
    for (uint32_t nr = 0; nr < first_unknown_number(arch); ++nr)
      CHECK_MESSAGE((find_syscall(arch, nr) == nullptr) == is_hole(arch, nr), arch_name(arch), " ", nr);
  }
}

TEST_CASE("every row has a number somewhere") {
  for (const Syscall& row : syscalls())
    CHECK_MESSAGE(
        std::any_of(std::begin(kArches), std::end(kArches), [&](Arch a) { return row.number(a).has_value(); }),
        row.name);
}

TEST_CASE("the newest calls have the numbers of Linux 6.18") {
  const std::map<std::string_view, uint32_t> newest = {
      {"cachestat", 451},         {"fchmodat2", 452},         {"map_shadow_stack", 453}, {"futex_wake", 454},
      {"futex_wait", 455},        {"futex_requeue", 456},     {"statmount", 457},        {"listmount", 458},
      {"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460}, {"lsm_list_modules", 461}, {"mseal", 462},
      {"setxattrat", 463},        {"getxattrat", 464},        {"listxattrat", 465},      {"removexattrat", 466},
      {"open_tree_attr", 467},    {"file_getattr", 468},      {"file_setattr", 469}};
  for (const auto& [name, nr] : newest)
    for (const Arch arch : kArches) CHECK(call(name).number(arch) == nr);
  CHECK(call("uretprobe").number(Arch::kX86_64) == 335u);
  CHECK(call("uprobe").number(Arch::kX86_64) == 336u);
  CHECK(call("uretprobe").number(Arch::kI386) == std::nullopt);
}

TEST_CASE("i386 has its multiplexers, its old calls and the 64-bit times") {
  CHECK(call("socketcall").numbers == std::array<int16_t, 3>{-1, 102, -1});
  CHECK(call("ipc").numbers == std::array<int16_t, 3>{-1, 117, -1});
  CHECK(call("waitpid").numbers == std::array<int16_t, 3>{-1, 7, -1});
  CHECK(call("clock_gettime64").numbers == std::array<int16_t, 3>{-1, 403, -1});
  CHECK(call("futex_time64").numbers == std::array<int16_t, 3>{-1, 422, -1});
  CHECK(call("openat").numbers == std::array<int16_t, 3>{257, 295, 56});
}

TEST_CASE("names and numbers that do not exist are not found") {
  CHECK(find_syscall("") == nullptr);
  CHECK(find_syscall("opennat") == nullptr);
  CHECK(find_syscall("OPENAT") == nullptr);
  CHECK(find_syscall("zzz") == nullptr);
  for (const Arch arch : kArches) {
    CHECK(find_syscall(arch, 470) == nullptr);
    CHECK(find_syscall(arch, 511) == nullptr);
    CHECK(find_syscall(arch, 512) == nullptr);
    CHECK(find_syscall(arch, kX32Bit | 1) == nullptr);
    CHECK(find_syscall(arch, 0xffffffff) == nullptr);
  }
}

TEST_CASE("arguments that the kernel declares as int are 32 bits wide (pitfalls 5.13)") {
  CHECK(arg("ioctl", 1).width == Width::kU32);
  CHECK(arg("prctl", 0).width == Width::kS32);
  CHECK(arg("prctl", 1).width == Width::kU64);
  CHECK(arg("personality", 0).width == Width::kU32);
  CHECK(arg("keyctl", 0).width == Width::kS32);
  CHECK(arg("keyctl", 1).width == Width::kU64);
  CHECK(arg("openat", 0).width == Width::kS32);
  CHECK(arg("openat", 2).width == Width::kS32);
  CHECK(arg("socket", 0).width == Width::kS32);
  CHECK(arg("socket", 1).width == Width::kS32);
  CHECK(arg("socket", 2).width == Width::kS32);
  CHECK(arg("setns", 1).width == Width::kS32);
  CHECK(arg("fcntl", 1).width == Width::kU32);
  CHECK(arg("prlimit64", 0).width == Width::kS32);
  CHECK(arg("prlimit64", 1).width == Width::kU32);
  for (size_t index = 0; index < 3; ++index) CHECK(arg("setpriority", index).width == Width::kS32);
  CHECK(arg("kill", 0).width == Width::kS32);
  CHECK(arg("kill", 1).width == Width::kS32);
  CHECK(arg("seccomp", 0).width == Width::kU32);
  CHECK(arg("seccomp", 1).width == Width::kU32);
  CHECK(arg("setuid", 0).width == Width::kU32);
  CHECK(arg("lseek", 2).width == Width::kU32);
  CHECK(arg("getdents64", 2).width == Width::kU32);
  CHECK(arg("readlink", 2).width == Width::kS32);
}

TEST_CASE("arguments that the kernel reads whole are 64 bits wide") {
  CHECK(arg("unshare", 0).width == Width::kU64);
  CHECK(arg("mmap", 2).width == Width::kU64);
  CHECK(arg("mmap", 3).width == Width::kU64);
  CHECK(arg("mprotect", 2).width == Width::kU64);
  CHECK(arg("ptrace", 0).width == Width::kS64);
  CHECK(arg("lseek", 1).width == Width::kS64);
  CHECK(arg("write", 2).width == Width::kU64);
  CHECK(arg("openat", 1).width == Width::kU64);
  CHECK(arg("mount", 3).width == Width::kU64);
  CHECK(arg("pkey_alloc", 0).width == Width::kU64);
}

TEST_CASE("what the kernel cuts after the call's entry is narrow too: clone's flags, ptrace's pid, descriptors") {
  CHECK(arg("clone", 0).width == Width::kU32);
  CHECK(arg("clone", 0).kind == ArgKind::kCloneFlags);
  CHECK(arg("ptrace", 1).width == Width::kS32);
  CHECK(arg("mmap", 4).width == Width::kS32);
  CHECK(arg("readv", 0).width == Width::kS32);
  CHECK(arg("pwritev2", 0).width == Width::kS32);
}

TEST_CASE("file modes, i386's old ids and ipc's operation have 16 significant bits, all else the bits of its width") {
  CHECK(significant_bits(arg("chmod", 1)) == 0xffff);
  CHECK(significant_bits(arg("openat", 3)) == 0xffff);
  CHECK(significant_bits(arg("setuid", 0, Arch::kI386)) == 0xffff);
  CHECK(significant_bits(arg("setuid", 0, Arch::kX86_64)) == 0xffffffff);
  CHECK(significant_bits(arg("setuid32", 0, Arch::kI386)) == 0xffffffff);
  CHECK(significant_bits(arg("ipc", 0, Arch::kI386)) == 0xffff);
  CHECK(significant_bits(arg("socketcall", 0, Arch::kI386)) == 0xffffffff);
  CHECK(significant_bits(arg("ioctl", 1)) == 0xffffffff);
  CHECK(significant_bits(arg("unshare", 0)) == 0xffffffffffffffff);
  CHECK(significant_bits(arg("unshare", 0, Arch::kI386)) == 0xffffffff);
}

TEST_CASE("on i386 no argument is wider than 32 bits") {
  for (const Syscall& row : syscalls()) {
    const ArgList list = arguments(row, Arch::kI386);
    for (size_t index = 0; index < list.count; ++index)
      CHECK_MESSAGE((list.args[index].width == Width::kU32 || list.args[index].width == Width::kS32), row.name, " ",
                    index);
  }
}

TEST_CASE("i386 has its own forms: mmap in memory, positions in halves, clone's thread pointer fourth") {
  CHECK(arguments(call("mmap"), Arch::kI386).count == 1);
  CHECK(arguments(call("mmap"), Arch::kX86_64).count == 6);
  CHECK(arguments(call("pread64"), Arch::kI386).count == 5);
  CHECK(arguments(call("pread64"), Arch::kX86_64).count == 4);
  CHECK(arguments(call("fanotify_mark"), Arch::kI386).count == 6);
  CHECK(arg("clone", 3, Arch::kX86_64).kind == ArgKind::kTidOut);
  CHECK(arg("clone", 3, Arch::kI386).kind == ArgKind::kAddress);
  CHECK(arg("clone", 3, Arch::kAArch64).kind == ArgKind::kAddress);
  CHECK(arg("clone", 4, Arch::kAArch64).kind == ArgKind::kTidOut);
}

TEST_CASE("the kinds tell descriptors, paths and buffers apart") {
  CHECK(arg("openat", 0).kind == ArgKind::kDirFd);
  CHECK(arg("openat", 1).kind == ArgKind::kPath);
  CHECK(arg("openat", 2).kind == ArgKind::kOpenFlags);
  CHECK(arg("openat", 3).kind == ArgKind::kMode);
  CHECK(arg("symlinkat", 0).kind == ArgKind::kLinkTarget);
  CHECK(arg("read", 1).kind == ArgKind::kBufferOut);
  CHECK(arg("write", 1).kind == ArgKind::kBufferIn);
  CHECK(arg("connect", 1).kind == ArgKind::kSockaddrIn);
  CHECK(arg("execve", 1).kind == ArgKind::kArgv);
}

TEST_CASE("a buffer is followed by its size in every call") {
  for (const Arch arch : kArches)
    for (const Syscall& row : syscalls()) {
      if (row.name == "mincore") continue;  // one byte for each page of the range before it
      const ArgList list = arguments(row, arch);
      for (size_t index = 0; index < list.count; ++index) {
        if (list.args[index].kind != ArgKind::kBufferIn && list.args[index].kind != ArgKind::kBufferOut) continue;
        const bool sized = std::any_of(list.args.begin() + index, list.args.begin() + list.count,
                                       [](const ArgSpec& spec) { return spec.kind == ArgKind::kSize; });
        CHECK_MESSAGE(sized, row.name, " ", index);
      }
    }
}

TEST_CASE("group names are unique, begin with @ and are found; others are not") {
  std::set<std::string_view> names;
  for (size_t index = 0; index < groups().size(); ++index) {
    const Group& group = groups()[index];
    CHECK(group.name.starts_with("@"));
    CHECK(!group.description.empty());
    CHECK(names.insert(group.name).second);
    CHECK(find_group(group.name) == index);
    CHECK_MESSAGE(!members(group.name).empty(), group.name);
  }
  CHECK(find_group("file-system") == std::nullopt);
  CHECK(find_group("@file_system") == std::nullopt);
  CHECK(find_group("") == std::nullopt);
}

TEST_CASE("a group index beyond the groups contains nothing") {
  for (const Syscall& row : syscalls()) {
    CHECK_FALSE(in_group(row, groups().size()));
    CHECK_FALSE(in_group(row, 63));
    CHECK_FALSE(in_group(row, 64));
    CHECK_FALSE(in_group(row, ~size_t{0}));
  }
}

TEST_CASE("every call is in @known") { CHECK(members("@known").size() == syscalls().size()); }

TEST_CASE("groups that include others contain them") {
  const std::map<std::string_view, std::vector<std::string_view>> includes = {
      {"@default", {"@sandbox"}},
      {"@privileged", {"@chown", "@clock", "@module", "@raw-io", "@reboot", "@swap"}},
      {"@system-service",
       {"@aio", "@basic-io", "@chown", "@default", "@sandbox", "@file-system", "@io-event", "@ipc", "@keyring",
        "@memlock", "@network-io", "@process", "@resources", "@setuid", "@signal", "@sync", "@timer"}}};
  for (const auto& include : includes) {  // no structured binding: Clang 14 can't capture one in CHECK_MESSAGE
    const std::string_view outer = include.first;
    const std::set<std::string_view> all = members(outer);
    for (const std::string_view inner : include.second)
      for (const std::string_view name : members(inner)) CHECK_MESSAGE(all.contains(name), outer, " ", name);
  }
}

TEST_CASE("small groups have exactly systemd's members") {
  CHECK(members("@module") == std::set<std::string_view>{"delete_module", "finit_module", "init_module"});
  CHECK(members("@keyring") == std::set<std::string_view>{"add_key", "keyctl", "request_key"});
  CHECK(members("@reboot") == std::set<std::string_view>{"kexec_file_load", "kexec_load", "reboot"});
  CHECK(members("@swap") == std::set<std::string_view>{"swapoff", "swapon"});
  CHECK(members("@raw-io") == std::set<std::string_view>{"ioperm", "iopl"});
  CHECK(members("@pkey") == std::set<std::string_view>{"pkey_alloc", "pkey_free", "pkey_mprotect"});
  CHECK(members("@debug") == std::set<std::string_view>{"lookup_dcookie", "perf_event_open", "pidfd_getfd", "ptrace"});
  CHECK(members("@sandbox") == std::set<std::string_view>{"landlock_add_rule", "landlock_create_ruleset",
                                                          "landlock_restrict_self", "seccomp"});
}

TEST_CASE("@baseline leaves out exactly the dangerous, the privileged and the unimplemented calls") {
  const std::set<std::string_view> outside = {
      // modules, kexec, swap, the whole system
      "init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms", "kexec_load",
      "kexec_file_load", "reboot", "swapon", "swapoff", "sethostname", "setdomainname", "syslog", "vhangup", "acct",
      "quotactl", "quotactl_fd", "nfsservctl", "_sysctl", "bdflush", "uselib", "lookup_dcookie", "lsm_set_self_attr",
      // the clock
      "settimeofday", "clock_settime", "clock_settime64", "stime", "adjtimex", "clock_adjtime", "clock_adjtime64",
      // mounts and namespaces
      "mount", "umount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount",
      "open_tree", "open_tree_attr", "mount_setattr", "unshare", "setns", "open_by_handle_at", "fanotify_init",
      "fanotify_mark",
      // attack surface
      "bpf", "perf_event_open", "userfaultfd", "add_key", "request_key", "keyctl", "io_uring_setup", "io_uring_enter",
      "io_uring_register", "iopl", "ioperm", "vm86", "vm86old",
      // never implemented, or not any more
      "afs_syscall", "break", "ftime", "getpmsg", "gtty", "idle", "lock", "mpx", "prof", "profil", "putpmsg",
      "security", "stty", "tuxcall", "ulimit", "vserver", "epoll_ctl_old", "epoll_wait_old"};
  const std::set<std::string_view> baseline = members("@baseline");
  for (const Syscall& row : syscalls())
    CHECK_MESSAGE(baseline.contains(row.name) != outside.contains(row.name), row.name);
  for (const std::string_view name : outside) CHECK_MESSAGE(find_syscall(name) != nullptr, name);
}

TEST_CASE("the calls that nobody retries are never notified, all others may be (H19)") {
  const std::set<std::string_view> expected = {
      "close",       "close_range", "dup",        "dup2",       "dup3",         "fork",       "vfork",
      "clone",       "clone3",      "exit",       "exit_group", "rt_sigreturn", "sigreturn",  "restart_syscall",
      "setuid",      "setgid",      "setreuid",   "setregid",   "setresuid",    "setresgid",  "setfsuid",
      "setfsgid",    "setgroups",   "setuid32",   "setgid32",   "setreuid32",   "setregid32", "setresuid32",
      "setresgid32", "setfsuid32",  "setfsgid32", "setgroups32"};
  for (const Syscall& row : syscalls()) CHECK_MESSAGE(never_notified(row) == expected.contains(row.name), row.name);
  for (const std::string_view name : expected) CHECK_MESSAGE(find_syscall(name) != nullptr, name);
}
