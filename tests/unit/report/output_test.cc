#include "report/output.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "pipe_fixture.h"

using namespace srun;
using namespace srun::report;
using namespace srun::report::test;
using Batching = OutputSink::Batching;

namespace {

// A directory that is removed with everything in it.
struct Directory {
  std::string path;
  Directory() {
    std::string made = "/tmp/srun-report-XXXXXX";
    if (mkdtemp(made.data()) != nullptr) path = made;
  }
  ~Directory() {
    for (const char* name : {"out", "link", "target", "fifo"}) unlink((path + "/" + name).c_str());
    rmdir(path.c_str());
  }
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// SIGPIPE as a fresh program has it: deadly. Whoever started the tests may have had it ignored, as Python does.
void make_sigpipe_deadly() {
  const bool done = std::signal(SIGPIPE, SIG_DFL) != SIG_ERR;
  REQUIRE(done);
}

}  // namespace

TEST_CASE("output: a file is created for its owner only, emptied if it exists, and closed on exec") {
  const Directory directory;
  const std::string path = directory.path + "/out";
  std::ofstream(path) << "old contents";
  {
    Result<UniqueFd> again = open_output(path);
    REQUIRE(again.has_value());
    CHECK(contents(path) == "");
    CHECK((fcntl(again->get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  unlink(path.c_str());
  Result<UniqueFd> made = open_output(path);
  REQUIRE(made.has_value());
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 077) == 0);
}

TEST_CASE("output: a symbolic link is not followed and its target keeps its contents") {
  const Directory directory;
  const std::string target = directory.path + "/target";
  const std::string link = directory.path + "/link";
  std::ofstream(target) << "precious";
  REQUIRE(symlink(target.c_str(), link.c_str()) == 0);
  const Result<UniqueFd> refused = open_output(link);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ELOOP);
  CHECK(refused.error().message() == "open " + link +
                                         ": Too many levels of symbolic links (it is a symbolic link, which is not "
                                         "followed; a descriptor is written fd:N)");
  CHECK(contents(target) == "precious");
}

TEST_CASE("output: a FIFO that nobody reads is an error at once, not a wait") {
  const Directory directory;
  const std::string path = directory.path + "/fifo";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const Result<UniqueFd> refused = open_output(path);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ENXIO);
}

TEST_CASE("output: an inherited descriptor is duplicated above 2; closed and read-only ones are refused") {
  const Pipe pipe;
  Result<UniqueFd> copy = adopt_output(pipe.write_end.get());
  REQUIRE(copy.has_value());
  CHECK(copy->get() > 2);
  CHECK(copy->get() != pipe.write_end.get());
  CHECK((fcntl(copy->get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(adopt_output(pipe.read_end.get()).error().message() ==
        "use fd:" + std::to_string(pipe.read_end.get()) + ": Bad file descriptor (it is not open for writing)");
  CHECK(adopt_output(987).error().message() == "use fd:987: Bad file descriptor (no such descriptor was inherited)");
}

TEST_CASE("output: every line arrives whole and in order, in either way of writing") {
  for (const Batching batching : {Batching::kLineByLine, Batching::kBlocks}) {
    Pipe pipe;
    OutputSink sink(std::move(pipe.write_end), batching);
    std::string expected;
    for (int i = 0; i < 500; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      sink.add(line);
      expected += line;
    }
    sink.flush();
    CHECK(pipe.drain() == expected);
    CHECK(sink.queued_bytes() == 0);
    CHECK(sink.lost_lines() == 0);
  }
}

TEST_CASE("output: line by line is one write per line") {
  // A packet socket keeps the boundaries of writes.
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd reader(ends[0]);
  OutputSink sink(UniqueFd(ends[1]), Batching::kLineByLine);
  sink.add("first\n");
  sink.add("second line\n");
  sink.flush();
  char block[64];
  CHECK(std::string(block, static_cast<size_t>(recv(reader.get(), block, sizeof(block), 0))) == "first\n");
  CHECK(std::string(block, static_cast<size_t>(recv(reader.get(), block, sizeof(block), 0))) == "second line\n");
}

TEST_CASE("output: a full pipe does not make flush wait; what the limit leaves no room for is dropped by whole lines") {
  Pipe pipe;
  constexpr size_t kLimit = 256 << 10;
  OutputSink sink(std::move(pipe.write_end), Batching::kBlocks, kLimit);
  const std::string line(999, 'x');
  constexpr int kLines = 600;  // 600,000 bytes: more than pipe and limit together
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLines; ++i) {
    sink.add(line + "\n");
    sink.flush();
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  CHECK(sink.queued_bytes() <= kLimit);
  CHECK(sink.lost_lines() > 0);
  CHECK_FALSE(sink.take_failure().has_value());
  std::string got;
  for (int i = 0; i < 100 && sink.queued_bytes() > 0; ++i) {
    got += pipe.drain();
    sink.flush();
  }
  got += pipe.drain();
  CHECK(got.size() == (kLines - sink.lost_lines()) * 1000);
  CHECK(got.find("x\nx") != std::string::npos);
  CHECK(got.ends_with("x\n"));
}

TEST_CASE("output: finish gives up on a stuck reader after its patience and counts the lines") {
  Pipe pipe;
  OutputSink sink(std::move(pipe.write_end), Batching::kBlocks);
  for (int i = 0; i < 200; ++i) sink.add(std::string(999, 'x') + "\n");  // a pipe takes 65,536 bytes
  const auto start = std::chrono::steady_clock::now();
  sink.finish(std::chrono::milliseconds(100));
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took >= std::chrono::milliseconds(99));
  CHECK(took < std::chrono::seconds(2));
  CHECK(sink.lost_lines() >= 134);
  CHECK(sink.lost_lines() <= 140);
}

TEST_CASE("output: a reader that went away is told once, kills nobody, and costs only its lines") {
  make_sigpipe_deadly();
  for (const bool is_socket : {false, true}) {
    Pipe pipe;
    UniqueFd writer = std::move(pipe.write_end);
    if (is_socket) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      pipe.read_end.reset(ends[0]);
      writer.reset(ends[1]);
    }
    OutputSink sink(std::move(writer), Batching::kBlocks);
    pipe.read_end.reset();
    sink.add("one\n");
    sink.add("two\n");
    sink.flush();
    sink.add("three\n");
    sink.flush();
    CHECK(sink.lost_lines() == 3);
    const std::optional<Error> failure = sink.take_failure();
    REQUIRE(failure.has_value());
    CHECK(failure->message() == "write: Broken pipe");
    CHECK_FALSE(sink.take_failure().has_value());
  }
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
}

TEST_CASE("output: a full disk is told once and its lines are counted") {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) {
    MESSAGE("skipped: no /dev/full here");
    return;
  }
  OutputSink sink(UniqueFd(fcntl(full.get(), F_DUPFD_CLOEXEC, 3)), Batching::kBlocks);
  sink.add("one\n");
  sink.flush();
  const std::optional<Error> failure = sink.take_failure();
  REQUIRE(failure.has_value());
  CHECK(failure->code == ENOSPC);
  sink.add("two\n");
  sink.flush();
  CHECK_FALSE(sink.take_failure().has_value());
  sink.finish(std::chrono::milliseconds(50));
  CHECK(sink.lost_lines() == 2);
}

TEST_CASE("output: the open file description of an inherited descriptor is left as it was") {
  const Pipe pipe;
  OutputSink sink(std::move(*adopt_output(pipe.write_end.get())), Batching::kLineByLine);
  sink.add("x\n");
  sink.flush();
  CHECK((fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("output: a terminal is raw only while it is") {
  int outer = -1;
  int inner = -1;
  if (openpty(&outer, &inner, nullptr, nullptr, nullptr) != 0) {
    MESSAGE("skipped: no pseudo-terminal here");
    return;
  }
  const UniqueFd master(outer);
  const UniqueFd slave(inner);
  CHECK_FALSE(terminal_is_raw(slave.borrow()));
  termios mode{};
  REQUIRE(tcgetattr(slave.get(), &mode) == 0);
  const termios cooked = mode;
  cfmakeraw(&mode);
  REQUIRE(tcsetattr(slave.get(), TCSANOW, &mode) == 0);
  CHECK(terminal_is_raw(slave.borrow()));
  REQUIRE(tcsetattr(slave.get(), TCSANOW, &cooked) == 0);
  CHECK_FALSE(terminal_is_raw(slave.borrow()));
  const Pipe pipe;
  CHECK_FALSE(terminal_is_raw(pipe.read_end.borrow()));
}
