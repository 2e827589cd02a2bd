#include "report/call_text.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "kernel/arch.h"
#include "kernel/syscall_table.h"

using namespace srun;
using kernel::Arch;

namespace {

struct Args {
  uint64_t values[6] = {};
  Args(std::initializer_list<uint64_t> list) {
    size_t i = 0;
    for (const uint64_t value : list) values[i++] = value;
  }
};

std::string text(std::string_view name, const Args& args, Arch arch = Arch::kX86_64) {
  const kernel::Syscall* call = kernel::find_syscall(name);
  REQUIRE(call != nullptr);
  return report::call_text(kernel::audit_arch(arch), *call->number(arch), args.values);
}

std::string identity(std::string_view name, const Args& args) {
  return report::call_identity(kernel::kAuditX86_64, *kernel::find_syscall(name)->number(Arch::kX86_64), args.values);
}

constexpr uint64_t kAddress = 0x7ffd'1234'5678;

}  // namespace

#if defined(__x86_64__)

TEST_CASE("call text: families, types and flags have their names, unknown ones stay numbers") {
  CHECK(text("socket", {2, 1 | 02000000, 0}) == "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0)");
  CHECK(text("socket", {1, 2 | 04000, 0}) == "socket(AF_UNIX, SOCK_DGRAM|SOCK_NONBLOCK, 0)");
  CHECK(text("socket", {16, 3, 15}) == "socket(AF_NETLINK, SOCK_RAW, 15)");
  CHECK(text("socket", {99, 9, 1}) == "socket(99, 9, 1)");
  CHECK(text("socket", {2, 1 | 0x100, 6}) == "socket(AF_INET, SOCK_STREAM|0x100, 6)");
}

TEST_CASE("call text: only what the kernel reads counts, so high bits neither hide nor change a name") {
  CHECK(text("socket", {0xdead'0000'0002, 1, 0}) == "socket(AF_INET, SOCK_STREAM, 0)");
  CHECK(text("kill", {0xffff'ffff, 9}) == "kill(-1, SIGKILL)");
  CHECK(text("kill", {0xffff'ffff'ffff'f000, 0}) == "kill(-4096, 0)");
  CHECK(text("chmod", {kAddress, 0xabcd'0000 | 0755}) == "chmod(…, 0755)");
}

TEST_CASE("call text: requests, signals and modes") {
  CHECK(text("ptrace", {0x10, 4711, 0, 0}) == "ptrace(PTRACE_ATTACH, 4711)");
  CHECK(text("ptrace", {0x4206, 4711, 0, 1}) == "ptrace(PTRACE_SEIZE, 4711, 0x0, 1)");
  CHECK(text("ptrace", {0x9999, 1, 0, 0}) == "ptrace(39321, 1)");
  CHECK(text("tgkill", {10, 11, 15}) == "tgkill(10, 11, SIGTERM)");
  CHECK(text("ioctl", {0, 0x5412, kAddress}) == "ioctl(0, TIOCSTI, 0x7ffd12345678)");
  CHECK(text("ioctl", {3, 0xc0ffee00, 0}) == "ioctl(3, 0xc0ffee00)");
  CHECK(text("prctl", {4, 1, 0, 0, 0}) == "prctl(PR_SET_DUMPABLE, 1)");
}

TEST_CASE("call text: clone's flags with its exit signal, namespaces of unshare") {
  CHECK(text("clone", {0x10000000 | 17, 0, 0, 0, 0}) == "clone(flags=CLONE_NEWUSER|SIGCHLD)");
  CHECK(text("clone", {17, 0, 0, 0, 0}) == "clone(flags=SIGCHLD)");
  CHECK(text("clone", {0, 0, 0, 0, 0}) == "clone(flags=0)");
  CHECK(text("unshare", {0x10000000 | 0x20000}) == "unshare(CLONE_NEWNS|CLONE_NEWUSER)");
}

TEST_CASE("call text: open flags, their zero access mode, and a mode only where the kernel reads it") {
  CHECK(text("openat", {0xffff'ff9c, kAddress, 02000000, 0xbad}) == "openat(AT_FDCWD, …, O_RDONLY|O_CLOEXEC)");
  CHECK(text("openat", {3, kAddress, 0101 | 01000, 0644}) == "openat(3, …, O_WRONLY|O_CREAT|O_TRUNC, 0644)");
  CHECK(text("openat", {3, kAddress, 020200000 | 2, 0600}) == "openat(3, …, O_RDWR|O_TMPFILE, 0600)");
  CHECK(text("openat", {3, kAddress, 04010000 | 1, 0}) == "openat(3, …, O_WRONLY|O_SYNC)");
  // aarch64 has O_DIRECTORY where x86-64 has O_DIRECT.
  CHECK(text("openat", {3, kAddress, 040000}, Arch::kAArch64) == "aarch64:openat(3, …, O_RDONLY|O_DIRECTORY)");
}

TEST_CASE("call text: pointers are not looked at; rows of them at the end are told once") {
  CHECK(text("execve", {kAddress, kAddress, kAddress}) == "execve(…)");
  CHECK(text("mount", {kAddress, kAddress, kAddress, 0x1000, 0}) == "mount(…, …, …, MS_BIND)");
  CHECK(text("mount", {0, kAddress, 0, 0x20 | 1, kAddress}) == "mount(NULL, …, NULL, MS_RDONLY|MS_REMOUNT, …)");
  CHECK(text("getpid", {1, 2, 3}) == "getpid()");
}

TEST_CASE("call text: ids that mean 'unchanged' are -1") {
  CHECK(text("fchownat", {0xffff'ff9c, kAddress, 0xffff'ffff, 1000, 0x100}) ==
        "fchownat(AT_FDCWD, …, -1, 1000, AT_SYMLINK_NOFOLLOW)");
}

TEST_CASE("call text: foreign calls say whose they are, unknown ones show every register") {
  CHECK(text("ptrace", {0x10, 4711, 0, 0}, Arch::kI386) == "i386:ptrace(PTRACE_ATTACH, 4711)");
  const Args args{1, 2, 3, 4, 5, 0xffff'ffff'ffff'ffff};
  CHECK(report::call_text(kernel::kAuditX86_64, 9999, args.values) ==
        "syscall_9999(0x1, 0x2, 0x3, 0x4, 0x5, 0xffffffffffffffff)");
  CHECK(report::call_text(kernel::kAuditX86_64, 0x40000000 | 39, args.values) == "x32:getpid()");
  CHECK(report::call_name(kernel::kAuditX86_64, 0x40000000 | 520) == "x32:syscall_520");
  CHECK(report::call_name(0xc0000028, 5) == "arch_0xc0000028:syscall_5");
}

#endif

TEST_CASE("call identity: numbers that a loop can change do not make a new call, symbolic ones do") {
  CHECK(identity("ptrace", {0x10, 1}) == identity("ptrace", {0x10, 2}));
  CHECK(identity("ptrace", {0x10, 1}) != identity("ptrace", {0x4206, 1}));
  CHECK(identity("socket", {2, 1, 0}) == identity("socket", {2, 1, 6}));
  CHECK(identity("socket", {2, 1, 0}) != identity("socket", {10, 1, 0}));
  CHECK(identity("socket", {2, 1, 0}) == identity("socket", {0xff'0000'0002, 1, 0}));
  CHECK(identity("kill", {1, 9}) != identity("kill", {1, 15}));
}

TEST_CASE("call text: every call of every architecture has a text for all-zero and all-one arguments") {
  const Args zeros{};
  const Args ones{~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
  for (const kernel::Syscall& call : kernel::syscalls())
    for (const Arch arch : {Arch::kX86_64, Arch::kI386, Arch::kAArch64}) {
      if (!call.number(arch)) continue;
      for (const Args* args : {&zeros, &ones}) {
        const std::string shown = report::call_text(kernel::audit_arch(arch), *call.number(arch), args->values);
        CHECK_MESSAGE(shown.find(std::string(call.name) + "(") != std::string::npos, shown);
        CHECK_MESSAGE(shown.size() < 1000, shown);
      }
    }
}
