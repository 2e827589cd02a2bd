#pragma once
// Serves the calls that name an address (Check::kNetwork): copies the address, decides about the copy, and acts with
// the copy on a duplicate of the task's socket (H25), with the task's identity. Whatever the program changes meanwhile,
// in memory or in its descriptors, changes nothing of what is done (I1, I4). What may take its time leaves for a thread
// of its own. A peer on a Unix socket sees the supervisor's process number in SO_PEERCRED (H12). Service thread only.
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "policy/files.h"
#include "policy/network.h"
#include "supervisor/credentials.h"
#include "supervisor/notification.h"
#include "supervisor/path_walk.h"
#include "supervisor/run_sockets.h"
#include "supervisor/slow_calls.h"

namespace srun::supervisor {

struct SocketMessage;  // socket_messages.h

// An address as it was read once.
struct CopiedAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sa_family_t family() const { return length >= sizeof(sa_family_t) ? storage.ss_family : sa_family_t{AF_UNSPEC}; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

class NetworkBroker {
 public:
  // References are borrowed. `files` may restrict nothing; where it does, the names of Unix sockets are its business
  // too.
  NetworkBroker(const policy::NetworkEnforcement& network, const policy::FileEnforcement& files, Membership membership,
                SlowCalls& slow);

  Answer serve(const Notification& notification);

 private:
  enum class Call : uint8_t { kNone, kConnect, kBind, kListen, kSendto, kSendmsg, kSendmmsg };
  struct Socket {
    UniqueFd fd;
    int domain = 0;
    int type = 0;
    bool blocking = false;
  };

  Answer act(const Notification& notification, Call call);
  std::optional<Answer> open_socket(const Notification& notification, Socket& socket) const;
  Answer connect(const Notification& notification, Socket& socket);
  Answer bind(const Notification& notification, Socket& socket);
  Answer bind_path(const Notification& notification, Socket& socket, const CopiedAddress& address);
  Answer listen(const Notification& notification, Socket& socket);
  Answer send_to(const Notification& notification, Socket& socket);
  Answer send_message(const Notification& notification, Socket& socket);
  Answer send_messages(const Notification& notification, Socket& socket);
  // `length`: where a sendmmsg wants the number of bytes if the message is sent later; 0 for the others.
  Answer send(const Notification& notification, Socket& socket, SocketMessage message, uint64_t length = 0);

  // The policy's word about a peer's address. An answer if it is "no"; for a Unix path `address` becomes the way to the
  // pinned object.
  std::optional<Answer> decide_peer(const Notification& notification, const Socket& socket, CopiedAddress& address);
  std::optional<Answer> decide_unix_peer(const Notification& notification, CopiedAddress& address);
  std::optional<Answer> decide_inet_bind(const policy::SocketAddress& address);
  Answer refuse(const policy::SocketAddress& address, bpf::VerdictId verdict);
  std::optional<Answer> take_identity(const Notification& notification);

  const policy::NetworkEnforcement& network_;
  const policy::FileEnforcement& files_;
  SlowCalls& slow_;
  PathWalker walker_;
  Identity identity_;
  TaskCredentials task_;
  RunSockets run_;
  Walked walked_;
  bool knows_bound_files_;
  std::string object_;  // what the last answer's `object` shows
};

}  // namespace srun::supervisor
