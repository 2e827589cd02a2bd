// The table against what others say: libseccomp, the running kernel's tracepoints, the installed headers, systemd.
// Each comparison says that it was skipped where its witness is absent.
#include <doctest/doctest.h>
#include <sys/utsname.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#ifdef SANDBOX_RUN_HAVE_LIBSECCOMP
#include <seccomp.h>

#include <cstdlib>
#endif

#include "kernel/syscall_table.h"

using namespace srun::kernel;

namespace {

constexpr Arch kArches[] = {Arch::kX86_64, Arch::kI386, Arch::kAArch64};

struct Parameter {
  std::string type;
  std::string name;
};

// The parameters behind the common fields of a tracepoint format: "field:const char * filename;  offset:24; …".
std::vector<Parameter> read_format(const std::filesystem::path& path) {
  std::vector<Parameter> parameters;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t field = line.find("field:");
    const size_t offset = line.find("offset:");
    if (field == std::string::npos || offset == std::string::npos || std::stoi(line.substr(offset + 7)) < 16) continue;
    const std::string declaration = line.substr(field + 6, line.find(';') - field - 6);
    const size_t space = declaration.rfind(' ');
    parameters.push_back({declaration.substr(0, space), declaration.substr(space + 1)});
  }
  return parameters;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// The bits and the sign of a C type that occurs in SYSCALL_DEFINEn.
Width width_of(const Parameter& parameter) {
  std::string type = parameter.type;
  if (type.starts_with("const ") && !contains(type, "*")) type = type.substr(6);
  static const std::set<std::string> s32 = {"int",     "pid_t", "clockid_t",    "key_t", "mqd_t",
                                            "timer_t", "rwf_t", "key_serial_t", "__s32"};
  static const std::set<std::string> u32 = {"unsigned int", "unsigned", "u32",   "__u32",
                                            "umode_t",      "uid_t",    "gid_t", "qid_t"};
  static const std::set<std::string> s64 = {"long", "loff_t", "off_t"};
  if (s32.contains(type)) return Width::kS32;
  if (u32.contains(type) || type.starts_with("enum ")) return Width::kU32;
  if (s64.contains(type)) return Width::kS64;
  return Width::kU64;  // pointers, unsigned long, size_t, aio_context_t
}

// Tracepoints carry the names of the kernel's functions, which are not always those of the calls.
std::string call_name(const std::string& function) {
  static const std::map<std::string, std::string> names = {{"newstat", "stat"},        {"newlstat", "lstat"},
                                                           {"newfstat", "fstat"},      {"newuname", "uname"},
                                                           {"sendfile64", "sendfile"}, {"umount", "umount2"}};
  const auto found = names.find(function);
  return found == names.end() ? function : found->second;
}

bool newer_kernel_than_table() {
  utsname names{};
  REQUIRE(uname(&names) == 0);
  int major = 0;
  int minor = 0;
  REQUIRE(std::sscanf(names.release, "%d.%d", &major, &minor) == 2);
  return major > 6 || (major == 6 && minor > 18);
}

std::vector<std::string> output_of(const char* command) {
  std::vector<std::string> lines;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  REQUIRE(pipe != nullptr);
  for (std::array<char, 512> line{}; fgets(line.data(), line.size(), pipe.get()) != nullptr;) {
    lines.emplace_back(line.data());
    if (lines.back().ends_with("\n")) lines.back().pop_back();
  }
  return lines;
}

std::filesystem::path tracepoints() {
  for (const char* root : {"/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"}) {
    std::error_code error;
    if (std::filesystem::exists(std::string(root) + "/sys_enter_openat/format", error)) return root;
  }
  return {};
}

}  // namespace

TEST_CASE("libseccomp and the table give every name that both know the same number, and every number the same name") {
#ifdef SANDBOX_RUN_HAVE_LIBSECCOMP
  const std::map<Arch, uint32_t> tokens = {
      {Arch::kX86_64, SCMP_ARCH_X86_64}, {Arch::kI386, SCMP_ARCH_X86}, {Arch::kAArch64, SCMP_ARCH_AARCH64}};
  for (const Arch arch : kArches) {
    int compared = 0;
    for (const Syscall& row : syscalls()) {
      const int theirs = seccomp_syscall_resolve_name_arch(tokens.at(arch), std::string(row.name).c_str());
      if (theirs == __NR_SCMP_ERROR) continue;  // newer than this libseccomp
      // Negative is libseccomp's pseudo number: the architecture does not have the call, or (i386) it is one of those
      // that also exist behind socketcall or ipc and that libseccomp asks for there. The way back below tells their
      // numbers.
      const int16_t nr = row.numbers[static_cast<size_t>(arch)];
      const bool multiplexed = arch == Arch::kI386 && (nr == 337 || nr == 345 || (nr >= 359 && nr <= 373) || nr >= 393);
      if (theirs < 0 && multiplexed) continue;
      CHECK_MESSAGE((theirs < 0 ? -1 : theirs) == nr, arch_name(arch), " ", row.name);
      ++compared;
    }
    CHECK(compared > 250);
    for (uint32_t nr = 0; nr < 512; ++nr) {
      char* const theirs = seccomp_syscall_resolve_num_arch(tokens.at(arch), static_cast<int>(nr));
      if (theirs == nullptr) continue;
      const Syscall* const ours = find_syscall(arch, nr);
      CHECK_MESSAGE((ours != nullptr && ours->name == theirs), arch_name(arch), " ", nr, " ", theirs);
      std::free(theirs);
    }
  }
#else
  MESSAGE("skipped: built without libseccomp");
#endif
}

TEST_CASE("the running kernel's tracepoints have the table's names, argument counts and widths") {
  const std::filesystem::path root = tracepoints();
  if (root.empty()) {
    MESSAGE("skipped: the tracepoint formats are not readable (tracefs, root only)");
    return;
  }
  // Where the table is narrower than the declaration, because the kernel cuts further in (arg_kinds.def).
  const std::set<std::string> cut = {"clone 0",   "mmap 4",    "readv 0",    "writev 0", "preadv 0",
                                     "preadv2 0", "pwritev 0", "pwritev2 0", "ptrace 1"};
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string directory = entry.path().filename();
    if (!directory.starts_with("sys_enter_")) continue;
    const std::string name = call_name(directory.substr(10));
    const Syscall* const row = find_syscall(name);
    if (row == nullptr && newer_kernel_than_table()) continue;
    CHECK_MESSAGE((row != nullptr && row->number(kNativeArch).has_value()), name);
    if (row == nullptr) continue;
    const std::vector<Parameter> theirs = read_format(entry.path() / "format");
    const ArgList ours = arguments(*row, kNativeArch);
    CHECK_MESSAGE(ours.count == theirs.size(), name);
    for (size_t index = 0; index < theirs.size() && index < ours.count; ++index) {
      const std::string place = name + " " + std::to_string(index);
      const Width declared = width_of(theirs[index]);
      const ArgSpec argument = ours.args[index];
      const bool half = argument.width == Width::kU32 || argument.width == Width::kS32;
      if (cut.contains(place)) {
        CHECK_MESSAGE((half && (declared == Width::kU64 || declared == Width::kS64)), place);
        continue;
      }
      // Descriptors are signed in the table whatever the declaration says: a rule may say -1.
      const bool descriptor = argument.kind == ArgKind::kFd || argument.kind == ArgKind::kDirFd;
      CHECK_MESSAGE((argument.width == declared || (descriptor && declared == Width::kU32)), place);
      ++compared;
    }
  }
  CHECK(compared > 800);
}

TEST_CASE("every text argument of the running kernel that names a file is a path to the table (H35)") {
  const std::filesystem::path root = tracepoints();
  if (root.empty()) {
    MESSAGE("skipped: the tracepoint formats are not readable (tracefs, root only)");
    return;
  }
  // `name` and its like that are no paths: attribute names, host names, types, descriptions.
  const std::set<std::string> no_path = {"fsopen 0", "memfd_create 0", "sethostname 0", "setdomainname 0"};
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string directory = entry.path().filename();
    if (!directory.starts_with("sys_enter_")) continue;
    const std::string name = call_name(directory.substr(10));
    const Syscall* const row = find_syscall(name);
    if (row == nullptr) continue;
    const std::vector<Parameter> theirs = read_format(entry.path() / "format");
    const ArgList ours = arguments(*row, kNativeArch);
    for (size_t index = 0; index < theirs.size() && index < ours.count; ++index) {
      const Parameter& parameter = theirs[index];
      const std::string place = name + " " + std::to_string(index);
      if (!contains(parameter.type, "char *") || contains(parameter.type, "*const") || no_path.contains(place))
        continue;
      if (!contains(parameter.name, "name") && !contains(parameter.name, "path") && !contains(parameter.name, "root") &&
          !contains(parameter.name, "old") && !contains(parameter.name, "special"))
        continue;
      const ArgKind kind = ours.args[index].kind;
      CHECK_MESSAGE((kind == ArgKind::kPath || kind == ArgKind::kLinkTarget || kind == ArgKind::kMqName ||
                     kind == ArgKind::kMountSource || kind == ArgKind::kXattrName),
                    place, " ", parameter.name);
    }
  }
}

TEST_CASE("the installed kernel headers know no call that the table lacks or numbers differently") {
  const std::map<Arch, std::string> files = {{Arch::kX86_64, "unistd_64.h"}, {Arch::kI386, "unistd_32.h"}};
  for (const auto& entry : files) {  // no structured binding: Clang 14 can't capture one in CHECK_MESSAGE
    const Arch arch = entry.first;
    const std::string& file_name = entry.second;
    std::ifstream file("/usr/include/x86_64-linux-gnu/asm/" + file_name);
    if (!file) file.open("/usr/include/asm/" + file_name);
    if (!file) {
      MESSAGE("skipped: no asm/" << file_name);
      continue;
    }
    int compared = 0;
    for (std::string define, name, value, line; std::getline(file, line);) {
      std::istringstream words(line);
      if (!(words >> define >> name >> value) || define != "#define" || !name.starts_with("__NR_")) continue;
      const Syscall* const row = find_syscall(name.substr(5));
      CHECK_MESSAGE((row != nullptr && std::to_string(row->numbers[static_cast<size_t>(arch)]) == value), file_name,
                    " ", line);
      ++compared;
    }
    CHECK(compared > 300);
  }
}

TEST_CASE("groups of systemd's names have the members of systemd 252") {
  const std::vector<std::string> version = output_of("systemd-analyze --version 2>/dev/null");
  if (version.empty() || !version[0].starts_with("systemd 252 ")) {
    MESSAGE("skipped: no systemd-analyze of systemd 252 here");
    return;
  }
  std::map<std::string, std::set<std::string>> theirs;
  std::string group;
  for (const std::string& line : output_of("systemd-analyze --no-pager syscall-filter 2>/dev/null")) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) {
      group.clear();
    } else if (line[0] == '@') {
      group = word;
      theirs[group];
    } else if (!group.empty() && word[0] != '#') {
      theirs[group].insert(word);
    }
  }
  REQUIRE(theirs.size() >= 29);
  // Newer than systemd 252, or put where later versions of systemd have it.
  const std::set<std::string_view> placed_by_us = {"landlock_add_rule",
                                                   "landlock_create_ruleset",
                                                   "landlock_restrict_self",
                                                   "seccomp",
                                                   "futex_wait",
                                                   "futex_wake",
                                                   "futex_requeue",
                                                   "map_shadow_stack",
                                                   "mseal",
                                                   "uprobe",
                                                   "fchmodat2",
                                                   "cachestat",
                                                   "statmount",
                                                   "listmount",
                                                   "setxattrat",
                                                   "getxattrat",
                                                   "listxattrat",
                                                   "removexattrat",
                                                   "file_getattr",
                                                   "file_setattr",
                                                   "open_tree_attr",
                                                   "set_mempolicy_home_node",
                                                   "quotactl_fd",
                                                   "process_mrelease",
                                                   "epoll_ctl_old",
                                                   "epoll_wait_old",
                                                   "tuxcall"};
  // systemd's includes, opened until nothing is left to open.
  for (auto& [name, list] : theirs)
    for (bool again = true; again;) {
      again = false;
      for (const std::string& member : std::set<std::string>(list))
        if (member.starts_with("@")) {
          list.erase(member);
          const std::set<std::string>& inner = theirs[member];
          list.insert(inner.begin(), inner.end());
          again = true;
        }
    }
  for (const auto& entry : theirs) {
    const std::string& name = entry.first;
    const std::set<std::string>& list = entry.second;
    if (name == "@known") continue;
    const std::optional<size_t> index = find_group(name);
    CHECK_MESSAGE(index.has_value(), name);
    if (!index) continue;
    for (const std::string& member : list)
      if (const Syscall* const row = find_syscall(member)) CHECK_MESSAGE(in_group(*row, *index), name, " ", member);
    for (const Syscall& row : syscalls())
      if (in_group(row, *index) && !placed_by_us.contains(row.name))
        CHECK_MESSAGE(list.contains(std::string(row.name)), name, " ", row.name);
  }
}
