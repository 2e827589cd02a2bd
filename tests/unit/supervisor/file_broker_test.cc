// The broker alone, on a real listener: a victim program makes every call that names a file, once natively and once with each
// of them served on its behalf. Results, errnos and the state of the tree must be equal.
#include "supervisor/file_broker.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kernel/syscall_table.h"
#include "supervisor/file_calls.h"

namespace srun::supervisor {
namespace {

// Allows everything but what lies below `denied`, on behalf: nothing is left to the kernel.
class Everything final : public policy::FileMatcher {
 public:
  std::string denied;
  policy::FileDecision decide(std::string_view path, policy::FileAccess wanted) const override {
    policy::FileDecision decision;
    decision.effect = policy::FileEffect::kAllow;
    constexpr policy::FileAccess kChanges = policy::FileAccess::kWrite | policy::FileAccess::kCreate | policy::FileAccess::kRemove |
                                            policy::FileAccess::kAttributes | policy::FileAccess::kRead;
    if (!denied.empty() && path.starts_with(denied) && policy::has(wanted, kChanges)) {
      decision.effect = policy::FileEffect::kDeny;
      decision.error = EACCES;
    }
    // chdir has no other form than to go on.
    return decision;
  }
  std::optional<policy::FileDecision> decide_object(const policy::FileIdentity&, policy::FileAccess) const override { return std::nullopt; }
  bool has_objects() const override { return false; }
  std::optional<policy::FileDecision> decide_alias(std::string_view, policy::FileAccess) const override { return std::nullopt; }
  std::optional<policy::FileDecision> decide_move(std::string_view, std::string_view, bool, bool) const override { return std::nullopt; }
};

std::vector<sock_filter> filter_for_file_calls() {
  std::vector<sock_filter> code;
  code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0));
  for (const FileCall& call : file_calls()) {
    if (call.op == FileOp::kExec) continue;  // has no on-behalf form
    const kernel::Syscall* const row = kernel::find_syscall(call.name);
    const auto number = row->number(kernel::kNativeArch);
    if (!number) continue;
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *number, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return code;
}

struct Ended {
  std::string output;
  int status = -1;
  uint64_t served = 0;
};

// Runs the victim with its output in `out`; under the broker if `matcher` is set.
Ended run(const std::vector<std::string>& command, const std::string& out, const policy::FileMatcher* matcher) {
  policy::FileEnforcement files;
  files.present = true;
  files.broker = true;
  if (matcher != nullptr) files.matcher = std::shared_ptr<const policy::FileMatcher>(std::shared_ptr<void>(), matcher);
  const std::vector<sock_filter> code = filter_for_file_calls();
  auto* const listener = static_cast<std::atomic<int>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(listener != MAP_FAILED);
  listener->store(-1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int out_fd = open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(out_fd >= 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(null_fd, 0);
    dup2(out_fd, 1);
    if (matcher != nullptr) {
      const sock_fprog program{static_cast<unsigned short>(code.size()), const_cast<sock_filter*>(code.data())};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | (1UL << 5), &program);
      listener->store(fd < 0 ? -2 : static_cast<int>(fd));
      if (fd < 0) _exit(125);
      while (listener->load() >= 0) usleep(100);  // until the parent has its copy
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  Ended ended;
  if (matcher != nullptr) {
    while (listener->load() == -1) usleep(100);
    const int number = listener->load();
    REQUIRE(number >= 0);
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
    const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
    REQUIRE(fd);
    listener->store(-3);
    SlowCalls slow;
    FileBroker broker(files, Membership(getpid(), getppid()), slow);
    while (true) {
      pollfd entry{fd.get(), POLLIN, 0};
      if (poll(&entry, 1, 30'000) <= 0 || (entry.revents & POLLIN) == 0) break;
      seccomp_notif request{};
      if (ioctl(fd.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) continue;
      Notification notification;
      notification.id = request.id;
      notification.tid = static_cast<pid_t>(request.pid);
      notification.listener = fd.borrow();
      std::memcpy(static_cast<void*>(&notification.call), &request.data, sizeof notification.call);
      const Answer answer = broker.serve(notification);
      CHECK_FALSE(answer.internal_error);
      notification.send(answer);
      ++ended.served;
    }
  }
  waitpid(child, &ended.status, 0);
  close(out_fd);
  close(null_fd);
  munmap(listener, 4096);
  std::ifstream file(out, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  ended.output = text.str();
  return ended;
}

// A fresh directory, in memory where there is one: the victim makes some 60,000 files.
struct Directory {
  Directory() {
    std::string pattern = access("/dev/shm", W_OK) == 0 ? "/dev/shm/srun-XXXXXX" : "/tmp/srun-XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
    REQUIRE(mkdir((path + "/work").c_str(), 0755) == 0);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

std::string victim(const char* name) {
  const char* const bin = std::getenv("SANDBOX_RUN_BIN_DIR");
  return std::string(bin != nullptr ? bin : "bin") + "/victims/" + name;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

}  // namespace

TEST_CASE("file broker: every call on every kind of path has the native result when it is served on behalf") {
  const std::string program = victim("file_calls");
  REQUIRE_MESSAGE(access(program.c_str(), X_OK) == 0, program);
  Directory directory;
  const Ended native = run({program, directory.path + "/work"}, directory.path + "/native", nullptr);
  REQUIRE(native.status == 0);
  const Everything everything;
  const Ended brokered = run({program, directory.path + "/work"}, directory.path + "/brokered", &everything);
  CHECK(brokered.status == 0);
  CHECK(brokered.served > 50'000);
  const std::vector<std::string> expected = lines(native.output);
  const std::vector<std::string> actual = lines(brokered.output);
  CHECK(expected.size() > 3'000);
  CHECK(actual.size() == expected.size());
  int shown = 0;
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    if (expected[i] == actual[i] || ++shown > 20) continue;
    CHECK(actual[i] == expected[i]);
  }
  CHECK(shown == 0);
}

TEST_CASE("file broker: a path, a link and a directory that flip between allowed and denied never open the denied file") {
  Directory directory;
  const std::string work = directory.path + "/work";
  for (const char* name : {"open", "swap", "closed"}) {
    REQUIRE(mkdir((work + "/" + name).c_str(), 0755) == 0);
    std::ofstream(work + "/" + name + "/file") << (std::strcmp(name, "closed") == 0 ? "secret" : "public");
  }
  Everything denying;
  denying.denied = std::filesystem::canonical(work).string() + "/closed";
  const Ended raced = run({victim("path_race"), work, "100000"}, directory.path + "/out", &denying);
  CHECK(raced.status == 0);
  CHECK(raced.output == "opened 0\n");
}

}  // namespace srun::supervisor
