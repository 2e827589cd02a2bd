#pragma once
// A message as the task wants to send it, copied once and with descriptors of our own in place of its numbers (H12).
#include <sys/socket.h>

#include <cstddef>
#include <vector>

#include "base/unique_fd.h"
#include "supervisor/network_broker.h"

namespace srun::supervisor {

inline constexpr size_t kMaxStreamBytes = size_t{16} << 20;   // of a longer one the first part is sent, as send(2) may
inline constexpr size_t kMaxDatagramBytes = size_t{1} << 20;  // a longer one is EMSGSIZE
inline constexpr size_t kMaxControlBytes = 16384;

struct SocketMessage {
  CopiedAddress name;
  std::vector<std::byte> data;
  std::vector<std::byte> control;
  std::vector<UniqueFd> passed;  // what the SCM_RIGHTS numbers in `control` stand for
  int flags = 0;
  size_t sent = 0;  // of `data`, already: control messages go with the first part
};

// A user's address argument. 0 or an errno (positive).
int read_address(const Notification& notification, uint64_t pointer, uint64_t length, CopiedAddress& address);
// The data of a sendto.
int read_data(const Notification& notification, uint64_t pointer, uint64_t length, bool stream, SocketMessage& message);
// A msghdr at `pointer`. EPERM: a control message that is not known to be harmless.
int read_message(const Notification& notification, uint64_t pointer, int domain, bool stream, SocketMessage& message);

// The bytes sent or -errno. Never waits and never raises SIGPIPE here.
int64_t send_now(BorrowedFd socket, const SocketMessage& message);
// The task gets the SIGPIPE that the kernel would have sent it.
void raise_broken_pipe(const Notification& notification);

}  // namespace srun::supervisor
