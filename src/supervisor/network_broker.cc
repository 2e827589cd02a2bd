#include "supervisor/network_broker.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/scope_exit.h"
#include "kernel/arch.h"
#include "kernel/syscall_table.h"
#include "policy/network_rules.h"
#include "supervisor/process_tree.h"
#include "supervisor/socket_messages.h"

namespace srun::supervisor {

using policy::NetworkDecision;
using policy::Protocol;
using policy::SocketAddress;

namespace {

int option(BorrowedFd socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(socket.get(), SOL_SOCKET, name, &value, &size) == 0 ? value : -errno;
}

constexpr int argument(const Notification& notification, int index) {
  return static_cast<int32_t>(notification.call.args[index]);
}

// AF_INET and AF_INET6 addresses as rules see them. False: too short.
bool to_rule(const CopiedAddress& from, int type, SocketAddress& to) {
  to.protocol = type == SOCK_STREAM ? Protocol::kTcp : Protocol::kUdp;
  to.address = {};
  if (from.family() == AF_INET) {
    if (from.length < sizeof(sockaddr_in)) return false;
    const auto& address = reinterpret_cast<const sockaddr_in&>(from.storage);
    to.address[10] = to.address[11] = 0xff;
    std::memcpy(to.address.data() + 12, &address.sin_addr, 4);
    to.port = ntohs(address.sin_port);
    return true;
  }
  constexpr size_t kShortest = 24;  // SIN6_LEN_RFC2133: without a scope
  if (from.family() != AF_INET6 || from.length < kShortest) return false;
  const auto& address = reinterpret_cast<const sockaddr_in6&>(from.storage);
  std::memcpy(to.address.data(), &address.sin6_addr, 16);
  to.port = ntohs(address.sin6_port);
  return true;
}

// Where a connection to "any address" goes (inet(7)): the loopback one of the same kind.
void aim_at_loopback(SocketAddress& address) {
  if (!policy::is_unspecified(address.address)) return;
  if (address.address[11] == 0xff) {
    address.address[12] = 127;
  }
  address.address[15] = 1;
}

timeval send_timeout(BorrowedFd socket) {
  timeval timeout{};
  socklen_t size = sizeof timeout;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, &size) != 0) timeout = {};
  return timeout;
}

// In a thread of its own: the identity of the task, for good.
bool become_task(const Notification& notification) {
  Identity identity;
  if (!identity.can_differ()) return true;
  TaskCredentials task;
  return read_credentials(notification.tid, task) && notification.valid() && identity.become_peer(task);
}

// Whether the kernel tells which file a Unix socket is bound to: asked about one that is bound to none, it answers at
// all.
bool can_tell_bound_files() {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe && RunSockets::is_known(probe.borrow());
}

class SlowConnect final : public SlowCall {
 public:
  SlowConnect(UniqueFd socket, const CopiedAddress& address, UniqueFd object)
      : socket_(std::move(socket)), address_(address), object_(std::move(object)) {}

  Answer run(const Notification& notification, const std::atomic<Interruption>& interruption) override {
    if (!become_task(notification)) return Answer::refuse(EACCES);
    while (true) {
      if (connect(socket_.get(), address_.get(), address_.length) == 0) return Answer::result(0);
      if (errno != EINTR) return Answer::fail(errno);
      if (interruption.load() == Interruption::kSignal) return Answer::fail(kRestart);
      if (interruption.load() == Interruption::kGone) return Answer::fail(EINTR);
      // A wake-up that was not for the task: go on waiting for the same connection.
    }
  }

 private:
  UniqueFd socket_;
  CopiedAddress address_;
  UniqueFd object_;  // what `address_` leads to by /proc/self/fd
};

class SlowSend final : public SlowCall {
 public:
  // `length`: where a sendmmsg wants to have the number of bytes; it returns 1 then. 0: the bytes are the result.
  SlowSend(UniqueFd socket, SocketMessage message, bool stream, UniqueFd object, uint64_t length)
      : socket_(std::move(socket)),
        message_(std::move(message)),
        stream_(stream),
        object_(std::move(object)),
        length_(length) {}

  Answer run(const Notification& notification, const std::atomic<Interruption>& interruption) override {
    if (!become_task(notification)) return Answer::refuse(EACCES);
    const timeval limit = send_timeout(socket_.borrow());
    int64_t left = limit.tv_sec == 0 && limit.tv_usec == 0 ? -1 : limit.tv_sec * 1000 + limit.tv_usec / 1000;
    while (true) {
      const int64_t sent = send_now(socket_.borrow(), message_);
      if (sent >= 0) {
        message_.sent += static_cast<size_t>(sent);
        // A blocking stream takes everything.
        if (!stream_ || message_.sent >= message_.data.size()) return finished(notification);
        continue;
      }
      // What has been sent before something went wrong is the result, and the next call is told what.
      if (sent != -EAGAIN && message_.sent != 0) return finished(notification);
      if (sent == -EPIPE && stream_ && (message_.flags & MSG_NOSIGNAL) == 0) raise_broken_pipe(notification);
      if (sent != -EAGAIN) return Answer::fail(static_cast<int>(-sent));
      if (interruption.load() == Interruption::kSignal)
        return message_.sent != 0 ? finished(notification) : Answer::fail(kRestart);
      if (interruption.load() == Interruption::kGone) return Answer::fail(EINTR);
      if (left == 0) return message_.sent != 0 ? finished(notification) : Answer::fail(EAGAIN);
      // In steps: of a datagram socket the peer's queue, which it waits for, can't be polled for by everybody.
      constexpr int kStep = 20;
      pollfd entry{socket_.get(), POLLOUT, 0};
      const int wait = left < 0 ? kStep : static_cast<int>(std::min<int64_t>(left, kStep));
      if (poll(&entry, 1, wait) > 0 && !stream_) usleep(1000);
      if (left > 0) left -= wait;
    }
  }

 private:
  Answer finished(const Notification& notification) const {
    if (length_ == 0) return Answer::result(static_cast<int64_t>(message_.sent));
    const auto size = static_cast<uint32_t>(message_.sent);
    return notification.write(length_, std::as_bytes(std::span(&size, 1))) == 0 ? Answer::result(1)
                                                                                : Answer::fail(EFAULT);
  }

  UniqueFd socket_;
  SocketMessage message_;
  bool stream_;
  UniqueFd object_;
  uint64_t length_;
};

}  // namespace

NetworkBroker::NetworkBroker(const policy::NetworkEnforcement& network, const policy::FileEnforcement& files,
                             Membership membership, SlowCalls& slow)
    : network_(network), files_(files), slow_(slow), walker_(membership), knows_bound_files_(can_tell_bound_files()) {}

Answer NetworkBroker::serve(const Notification& notification) {
  const kernel::Syscall* const row =
      kernel::find_syscall(kernel::kNativeArch, static_cast<uint32_t>(notification.call.nr));
  Call call = Call::kNone;
  if (row != nullptr && notification.call.arch == kernel::audit_arch(kernel::kNativeArch)) {
    constexpr std::pair<std::string_view, Call> kCalls[] = {{"connect", Call::kConnect}, {"bind", Call::kBind},
                                                            {"listen", Call::kListen},   {"sendto", Call::kSendto},
                                                            {"sendmsg", Call::kSendmsg}, {"sendmmsg", Call::kSendmmsg}};
    for (const auto& [name, known] : kCalls)
      if (row->name == name) call = known;
  }
  if (call == Call::kNone) {
    Answer answer = Answer::refuse(EPERM);
    answer.internal_error = true;
    return answer;
  }
  walked_.parent.reset();
  walked_.object.reset();
  walked_.nameless = false;
  walked_.wants_directory = false;
  walked_.path_length = 0;
  walked_.aliases.clear();
  const ScopeExit own_identity([this] { identity_.restore(); });
  Answer answer = act(notification, call);
  if (network_.audit) {
    // Nothing is done on behalf then: what would have been refused is told, and everything goes on.
    const bool refused = answer.report;
    const std::string_view object = answer.object;
    const uint16_t verdict = answer.verdict;
    const auto error = answer.value;
    answer = Answer::go_on(ContinueReason::kNotRestricted);
    if (refused) {
      answer.report = true;
      answer.outcome = report::Outcome::kAudited;
      answer.object = object;
      answer.verdict = verdict;
      answer.value = error;
    }
  }
  return answer;
}

Answer NetworkBroker::act(const Notification& notification, Call call) {
  Socket socket;
  if (auto answer = open_socket(notification, socket)) return *answer;
  if (!notification.valid()) return Answer::fail(EINTR);
  if (auto answer = take_identity(notification)) return *answer;
  switch (call) {
    case Call::kConnect:
      return connect(notification, socket);
    case Call::kBind:
      return bind(notification, socket);
    case Call::kListen:
      return listen(notification, socket);
    case Call::kSendto:
      return send_to(notification, socket);
    case Call::kSendmsg:
      return send_message(notification, socket);
    case Call::kSendmmsg:
      return send_messages(notification, socket);
    case Call::kNone:
      break;
  }
  return Answer::refuse(EPERM);
}

std::optional<Answer> NetworkBroker::open_socket(const Notification& notification, Socket& socket) const {
  socket.fd = notification.duplicate(argument(notification, 0));
  if (!socket.fd) return errno == EBADF ? Answer::fail(EBADF) : Answer::refuse(EACCES);
  const int flags = fcntl(socket.fd.get(), F_GETFL);
  socket.domain = option(socket.fd.borrow(), SO_DOMAIN);
  socket.type = option(socket.fd.borrow(), SO_TYPE);
  if (flags < 0 || (flags & O_PATH) != 0) return Answer::fail(EBADF);
  if (socket.domain == -ENOTSOCK || socket.domain < 0 || socket.type < 0) return Answer::fail(ENOTSOCK);
  socket.blocking = (flags & O_NONBLOCK) == 0;
  const bool known = socket.domain == AF_UNIX || socket.domain == AF_NETLINK ||
                     ((socket.domain == AF_INET || socket.domain == AF_INET6) &&
                      (socket.type == SOCK_STREAM || socket.type == SOCK_DGRAM));
  // A socket that the run was given, of a kind that no rule can speak about.
  if (!known || (socket.domain == AF_NETLINK && option(socket.fd.borrow(), SO_PROTOCOL) != NETLINK_ROUTE))
    return Answer::refuse(EACCES);
  return std::nullopt;
}

std::optional<Answer> NetworkBroker::take_identity(const Notification& notification) {
  if (!identity_.can_differ()) return std::nullopt;
  if (!read_credentials(notification.tid, task_) || !identity_.become_peer(task_)) return Answer::refuse(EACCES);
  return std::nullopt;
}

Answer NetworkBroker::refuse(const SocketAddress& address, bpf::VerdictId verdict) {
  Answer answer = Answer::refuse(EACCES);
  object_ = policy::socket_text(address);
  answer.object = object_;
  answer.verdict = verdict;
  return answer;
}

std::optional<Answer> NetworkBroker::decide_peer(const Notification& notification, const Socket& socket,
                                                 CopiedAddress& address) {
  const sa_family_t family = address.family();
  if (socket.domain == AF_UNIX) {
    if (family != AF_UNIX) return Answer::fail(EINVAL);
    return decide_unix_peer(notification, address);
  }
  if (socket.domain == AF_NETLINK) {
    // The kernel itself and nobody else: another process's port would be a message to it.
    const auto& peer = reinterpret_cast<const sockaddr_nl&>(address.storage);
    if (address.length < sizeof(sockaddr_nl) || family != AF_NETLINK) return Answer::fail(EINVAL);
    if (peer.nl_pid != 0 || peer.nl_groups != 0) return Answer::refuse(EACCES);
    return std::nullopt;
  }
  SocketAddress peer;
  if ((family != AF_INET && family != AF_INET6) ||
      (socket.domain == AF_INET && family != AF_INET && address.length >= sizeof(sockaddr_in)))
    return Answer::fail(EAFNOSUPPORT);
  if (!to_rule(address, socket.type, peer)) return Answer::fail(EINVAL);
  aim_at_loopback(peer);
  const NetworkDecision decision = network_.matcher->connect(peer);
  if (!decision.allowed) return refuse(peer, decision.verdict);
  if (!decision.only_own) return std::nullopt;
  switch (run_.server_at(peer)) {
    case Server::kOwn:
      return std::nullopt;
    // As it is where nobody listens; not tried, since somebody could begin to in between.
    case Server::kNobody:
      return Answer::fail(ECONNREFUSED);
    case Server::kOther:
      break;
  }
  return refuse(peer, decision.verdict);
}

std::optional<Answer> NetworkBroker::decide_unix_peer(const Notification& notification, CopiedAddress& address) {
  auto& name = reinterpret_cast<sockaddr_un&>(address.storage);
  const size_t size = address.length - offsetof(sockaddr_un, sun_path);
  if (address.length <= offsetof(sockaddr_un, sun_path) || address.length > sizeof name) return Answer::fail(EINVAL);
  SocketAddress peer;
  peer.protocol = Protocol::kUnix;
  if (name.sun_path[0] == '\0') {
    const std::string_view abstract(name.sun_path + 1, size - 1);
    peer.path = "@" + std::string(abstract);
    const NetworkDecision decision = network_.matcher->connect(peer);
    if (!decision.allowed) return refuse(peer, decision.verdict);
    if (!decision.only_own) return std::nullopt;
    switch (run_.abstract_server(abstract)) {
      case Server::kOwn:
        return std::nullopt;
      case Server::kNobody:
        return Answer::fail(ECONNREFUSED);
      case Server::kOther:
        break;
    }
    return refuse(peer, decision.verdict);
  }
  const std::string_view path(name.sun_path, strnlen(name.sun_path, size));
  if (const int error = walker_.walk(notification, AT_FDCWD, path, Last::kFollow, false, walked_))
    return Answer::fail(error);
  struct stat status {};
  if (!walked_.object || fstat(walked_.object.get(), &status) != 0) return Answer::fail(ECONNREFUSED);
  if (!S_ISSOCK(status.st_mode)) return Answer::fail(ECONNREFUSED);
  if (!notification.valid()) return Answer::fail(EINTR);
  peer.path = walked_.canonical();
  const NetworkDecision decision = network_.matcher->connect(peer);
  if (!decision.allowed || (decision.only_own && !run_.owns_file(walked_.object.borrow())))
    return refuse(peer, decision.verdict);
  // Connected by the pinned object, whatever happens to the name.
  std::memset(&name, 0, sizeof name);
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d", walked_.object.get());
  address.length = sizeof name;
  return std::nullopt;
}

Answer NetworkBroker::connect(const Notification& notification, Socket& socket) {
  CopiedAddress address;
  if (const int error = read_address(notification, notification.call.args[1], notification.call.args[2], address))
    return Answer::fail(error);
  if (!notification.valid()) return Answer::fail(EINTR);
  if (address.length < sizeof(sa_family_t)) return Answer::fail(EINVAL);
  // Dissolves an association (connect(2)); the next one is decided then.
  const bool dissolves = address.family() == AF_UNSPEC;
  if (!dissolves)
    if (auto answer = decide_peer(notification, socket, address)) return *answer;
  if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  const bool may_wait = socket.type == SOCK_STREAM || socket.type == SOCK_SEQPACKET;
  if (socket.blocking && may_wait && !dissolves) {
    return slow_.take(notification,
                      std::make_unique<SlowConnect>(std::move(socket.fd), address, std::move(walked_.object)))
               ? Answer::later()
               : Answer::fail(EAGAIN);
  }
  const int result = ::connect(socket.fd.get(), address.get(), address.length);
  const int error = result == 0 ? 0 : errno;
  if (socket.type == SOCK_DGRAM) run_.add(socket.fd.borrow());
  return error == 0 ? Answer::result(0) : Answer::fail(error);
}

std::optional<Answer> NetworkBroker::decide_inet_bind(const SocketAddress& address) {
  const NetworkDecision decision = network_.matcher->bind(address);
  if (!decision.allowed) return refuse(address, decision.verdict);
  return std::nullopt;
}

Answer NetworkBroker::bind(const Notification& notification, Socket& socket) {
  CopiedAddress address;
  if (const int error = read_address(notification, notification.call.args[1], notification.call.args[2], address))
    return Answer::fail(error);
  if (!notification.valid()) return Answer::fail(EINTR);
  if (address.length < sizeof(sa_family_t)) return Answer::fail(EINVAL);
  if (socket.domain == AF_UNIX) {
    const auto& name = reinterpret_cast<const sockaddr_un&>(address.storage);
    if (address.family() != AF_UNIX || address.length > sizeof name) return Answer::fail(EINVAL);
    if (address.length > offsetof(sockaddr_un, sun_path) && name.sun_path[0] != '\0')
      return bind_path(notification, socket, address);
  } else if (socket.domain == AF_NETLINK) {
    const auto& name = reinterpret_cast<const sockaddr_nl&>(address.storage);
    if (address.length < sizeof name || address.family() != AF_NETLINK) return Answer::fail(EINVAL);
  } else {
    SocketAddress own;
    CopiedAddress meant = address;
    // bind(2) takes AF_UNSPEC for AF_INET's any address, for old programs.
    if (socket.domain == AF_INET && meant.family() == AF_UNSPEC) meant.storage.ss_family = AF_INET;
    if (!to_rule(meant, socket.type, own))
      return Answer::fail(meant.family() == AF_INET || meant.family() == AF_INET6 ? EINVAL : EAFNOSUPPORT);
    if (auto answer = decide_inet_bind(own)) return *answer;
  }
  if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  if (::bind(socket.fd.get(), address.get(), address.length) != 0) return Answer::fail(errno);
  run_.add(socket.fd.borrow());
  return Answer::result(0);
}

// The name is a file that is made: where files are restricted, by their rules; always as the task, with its umask.
Answer NetworkBroker::bind_path(const Notification& notification, Socket& socket, const CopiedAddress& address) {
  const auto& name = reinterpret_cast<const sockaddr_un&>(address.storage);
  const std::string_view path(name.sun_path, strnlen(name.sun_path, address.length - offsetof(sockaddr_un, sun_path)));
  if (const int error = walker_.walk(notification, AT_FDCWD, path, Last::kParent, false, walked_))
    return Answer::fail(error);
  if (!walked_.parent) return Answer::fail(EADDRINUSE);
  if (!notification.valid()) return Answer::fail(EINTR);
  if (files_.present) {
    policy::FileDecision decision = files_.matcher->decide(walked_.canonical(), policy::FileAccess::kCreate);
    for (const std::string& alias : walked_.aliases)
      if (decision.effect != policy::FileEffect::kDeny)
        if (const auto other = files_.matcher->decide_alias(alias, policy::FileAccess::kCreate)) decision = *other;
    if (decision.effect == policy::FileEffect::kDeny) {
      Answer answer = Answer::refuse(decision.error != 0 ? decision.error : EACCES);
      object_.assign(walked_.canonical());
      answer.object = object_;
      answer.access = static_cast<uint16_t>(policy::FileAccess::kCreate);
      answer.verdict = decision.verdict;
      return answer;
    }
  }
  if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  if (!read_credentials(notification.tid, task_)) return Answer::refuse(EACCES);
  const size_t length = strnlen(walked_.name.data(), walked_.name.size());
  const UniqueFd before(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd directory = notification.pin_working_directory();
  if (!before || !directory) return Answer::refuse(EACCES);
  // bind(2) keeps the name as it was given, and programs hand what getsockname(2) tells to others. So it is bound by
  // that name, from the task's directory, if the name leads to the pinned directory here too. Whether it still did when
  // the kernel walked it is asked afterwards (unix_diag): a program that changes it meanwhile, to have a socket
  // elsewhere, has one to which nothing is delivered, and is ended. Where the kernel does not tell: by the last
  // component from the pinned directory.
  sockaddr_un given{};
  given.sun_family = AF_UNIX;
  std::memcpy(given.sun_path, path.data(), path.size());
  auto given_length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                             (path.size() < sizeof given.sun_path ? 1 : 0));
  ::umask(task_.umask);  // nothing else in this process makes files at the same time, or uses relative paths
  const ScopeExit own_place([&] {
    ::umask(0);
    identity_.restore();
    if (fchdir(before.get()) != 0) std::abort();  // whatever comes next would mean another place
  });
  bool by_name = knows_bound_files_ && fchdir(directory.get()) == 0;
  if (by_name) {
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string_view::npos ? "."
                               : slash == 0                    ? "/"
                                                               : std::string(path.substr(0, slash));
    const UniqueFd ours(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat here {};
    struct stat there {};
    by_name = ours && fstat(ours.get(), &here) == 0 && fstat(walked_.parent.get(), &there) == 0 &&
              here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  }
  if (!by_name) {
    if (length > sizeof given.sun_path) return Answer::fail(ENAMETOOLONG);
    if (fchdir(walked_.parent.get()) != 0) return Answer::fail(errno);
    std::memset(given.sun_path, 0, sizeof given.sun_path);
    std::memcpy(given.sun_path, walked_.name.data(), length);
    given_length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (length < sizeof given.sun_path ? 1 : 0));
  }
  if (::bind(socket.fd.get(), reinterpret_cast<const sockaddr*>(&given), given_length) != 0) return Answer::fail(errno);
  const UniqueFd made(openat(walked_.parent.get(), walked_.name.data(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (by_name && (!made || !RunSockets::is_bound_to(socket.fd.borrow(), made.borrow()).value_or(false))) {
    // Whoever else has it can't use it either: nothing is delivered to it any more.
    ::shutdown(socket.fd.get(), SHUT_RDWR);
    identity_.restore();
    if (const std::optional<TaskStatus> status = task_status(notification.tid); status && notification.valid())
      kill(status->tgid, SIGKILL);
    SocketAddress elsewhere;
    elsewhere.protocol = Protocol::kUnix;
    elsewhere.path = walked_.canonical();
    return refuse(elsewhere, {});
  }
  run_.add(socket.fd.borrow());
  struct stat status {};
  if (made && fstat(made.get(), &status) == 0 && S_ISSOCK(status.st_mode)) run_.add_file(made.borrow());
  return Answer::result(0);
}

Answer NetworkBroker::listen(const Notification& notification, Socket& socket) {
  if (!notification.valid()) return Answer::fail(EINTR);
  if (socket.domain == AF_INET || socket.domain == AF_INET6) {
    CopiedAddress bound;
    bound.length = sizeof bound.storage;
    if (getsockname(socket.fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0)
      return Answer::fail(errno);
    SocketAddress own;
    if (!to_rule(bound, socket.type, own)) return Answer::refuse(EACCES);
    // Not bound yet: the kernel would take any free port of every address (H13). Bound already: it was decided then, or
    // the socket was handed to the run, and is decided now.
    if (auto answer = decide_inet_bind(own)) {
      if (own.port != 0) return *answer;
      // Where loopback servers are allowed, such a socket becomes one.
      aim_at_loopback(own);
      if (decide_inet_bind(own)) return *answer;
      if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
      if (bound.family() == AF_INET)
        reinterpret_cast<sockaddr_in&>(bound.storage).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      else
        reinterpret_cast<sockaddr_in6&>(bound.storage).sin6_addr = in6addr_loopback;
      if (::bind(socket.fd.get(), bound.get(), bound.length) != 0) return Answer::fail(errno);
    }
  }
  if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  if (::listen(socket.fd.get(), argument(notification, 1)) != 0) return Answer::fail(errno);
  run_.add(socket.fd.borrow());
  return Answer::result(0);
}

Answer NetworkBroker::send_to(const Notification& notification, Socket& socket) {
  const auto& args = notification.call.args;
  SocketMessage message;
  message.flags = argument(notification, 3);
  if (const int error = read_address(notification, args[4], args[5], message.name)) return Answer::fail(error);
  if (const int error = read_data(notification, args[1], args[2], socket.type == SOCK_STREAM, message))
    return Answer::fail(error);
  return send(notification, socket, std::move(message));
}

Answer NetworkBroker::send_message(const Notification& notification, Socket& socket) {
  SocketMessage message;
  message.flags = argument(notification, 2);
  const int error =
      read_message(notification, notification.call.args[1], socket.domain, socket.type == SOCK_STREAM, message);
  if (error == EPERM) return Answer::refuse(EPERM);
  if (error != 0) return Answer::fail(error);
  return send(notification, socket, std::move(message));
}

Answer NetworkBroker::send(const Notification& notification, Socket& socket, SocketMessage message, uint64_t length) {
  if (!notification.valid()) return Answer::fail(EINTR);
  const bool stream = socket.type == SOCK_STREAM;
  const bool internet = socket.domain == AF_INET || socket.domain == AF_INET6;
  if ((message.flags & MSG_FASTOPEN) != 0) return Answer::refuse(EPERM);
  // TCP takes no notice of an address; a connected Unix stream refuses one. A UDP one of no family dissolves nothing.
  if (stream && internet) message.name.length = 0;
  if (message.name.length != 0 && !(stream && socket.domain == AF_UNIX)) {
    if (internet && message.name.family() == AF_UNSPEC) {
      // For old programs AF_INET (net/ipv4/udp.c); on an IPv6 socket it means "as connected".
      if (socket.domain == AF_INET)
        message.name.storage.ss_family = AF_INET;
      else
        message.name.length = 0;
    }
    if (message.name.length != 0)
      if (auto answer = decide_peer(notification, socket, message.name)) return *answer;
  }
  if (network_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  const int64_t sent = send_now(socket.fd.borrow(), message);
  if (socket.type == SOCK_DGRAM && message.name.length != 0) run_.add(socket.fd.borrow());
  const bool may_wait = socket.blocking && (message.flags & MSG_DONTWAIT) == 0;
  if (sent >= 0 && (!stream || !may_wait || static_cast<size_t>(sent) == message.data.size()))
    return Answer::result(sent);
  if (sent >= 0) message.sent = static_cast<size_t>(sent);
  if (sent == -EPIPE && stream && (message.flags & MSG_NOSIGNAL) == 0) raise_broken_pipe(notification);
  if (sent < 0 && (sent != -EAGAIN || !may_wait)) return Answer::fail(static_cast<int>(-sent));
  const auto partial = static_cast<int64_t>(message.sent);
  return slow_.take(notification, std::make_unique<SlowSend>(std::move(socket.fd), std::move(message), stream,
                                                             std::move(walked_.object), length))
             ? Answer::later()
         : partial != 0 ? Answer::result(partial)
                        : Answer::fail(EAGAIN);
}

// One after the other. Only the first may wait: when the next one would, what has been sent is told, as sendmmsg(2)
// does where a signal comes in between.
Answer NetworkBroker::send_messages(const Notification& notification, Socket& socket) {
  constexpr unsigned kMost = 64;
  const auto& args = notification.call.args;
  const unsigned count = std::min(static_cast<unsigned>(args[2]), kMost);
  unsigned done = 0;
  for (; done < count; ++done) {
    const uint64_t place = args[1] + done * sizeof(mmsghdr);
    SocketMessage message;
    message.flags = argument(notification, 3);
    const int error = read_message(notification, place, socket.domain, socket.type == SOCK_STREAM, message);
    Answer answer = error == EPERM ? Answer::refuse(EPERM) : error != 0 ? Answer::fail(error) : Answer::done();
    Socket same;
    same.fd.reset(fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 3));
    same.domain = socket.domain;
    same.type = socket.type;
    same.blocking = socket.blocking && done == 0;
    if (error == 0)
      answer = same.fd ? send(notification, same, std::move(message), place + offsetof(mmsghdr, msg_len))
                       : Answer::fail(errno);
    if (answer.kind != Answer::Kind::kValue) {
      if (done == 0 || answer.kind == Answer::Kind::kContinue) return answer;
      break;
    }
    const auto sent = static_cast<uint32_t>(answer.value);
    if (notification.write(place + offsetof(mmsghdr, msg_len), std::as_bytes(std::span(&sent, 1))) < 0)
      return Answer::fail(EFAULT);
  }
  return Answer::result(done);
}

}  // namespace srun::supervisor
