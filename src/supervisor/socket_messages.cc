#include "supervisor/socket_messages.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103  // Linux 4.18
#endif
constexpr size_t kMaxPassed = 253;  // SCM_MAX_FD

// Control messages that only shape a packet or choose among the task's own addresses. IP_RETOPTS and IPv6 extension
// headers could name another destination.
bool is_harmless(int level, int type) {
  if (level == IPPROTO_IP) return type == IP_TOS || type == IP_TTL || type == IP_PKTINFO;
  if (level == IPPROTO_IPV6) return type == IPV6_TCLASS || type == IPV6_HOPLIMIT || type == IPV6_PKTINFO;
  return level == IPPROTO_UDP && type == UDP_SEGMENT;
}

int translate_control(const Notification& notification, int domain, SocketMessage& message) {
  size_t at = 0;
  while (message.control.size() - at >= sizeof(cmsghdr)) {
    cmsghdr header;
    std::memcpy(&header, message.control.data() + at, sizeof header);
    if (header.cmsg_len < CMSG_LEN(0) || header.cmsg_len > message.control.size() - at) return EINVAL;
    std::byte* const data = message.control.data() + at + CMSG_LEN(0);
    const size_t size = header.cmsg_len - CMSG_LEN(0);
    if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_RIGHTS && domain == AF_UNIX) {
      for (size_t i = 0; i + sizeof(int) <= size; i += sizeof(int)) {
        int number = -1;
        std::memcpy(&number, data + i, sizeof number);
        if (message.passed.size() >= kMaxPassed) return EINVAL;
        UniqueFd own = notification.duplicate(number);
        if (!own) return errno == EBADF ? EBADF : EPERM;
        number = own.get();
        std::memcpy(data + i, &number, sizeof number);
        message.passed.push_back(std::move(own));
      }
    } else if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_CREDENTIALS && domain == AF_UNIX) {
      ucred claimed{};
      const std::optional<TaskStatus> status = task_status(notification.tid);
      if (size != sizeof claimed || !status) return EINVAL;
      std::memcpy(&claimed, data, sizeof claimed);
      if (claimed.pid != status->tgid) return EPERM;
      // The kernel checks the ids against the identity that we have then; the number can only be ours.
      claimed.pid = getpid();
      std::memcpy(data, &claimed, sizeof claimed);
    } else if (!is_harmless(header.cmsg_level, header.cmsg_type) || domain == AF_UNIX) {
      return EPERM;
    }
    at += std::min(CMSG_ALIGN(header.cmsg_len), message.control.size() - at);
  }
  return 0;
}

}  // namespace

int read_address(const Notification& notification, uint64_t pointer, uint64_t length, CopiedAddress& address) {
  const auto size = static_cast<int32_t>(length);
  if (size < 0 || static_cast<size_t>(size) > sizeof address.storage) return EINVAL;
  address.length = static_cast<socklen_t>(size);
  if (size == 0) return 0;
  return -notification.read(pointer,
                            std::as_writable_bytes(std::span(&address.storage, 1)).first(static_cast<size_t>(size)));
}

int read_data(const Notification& notification, uint64_t pointer, uint64_t length, bool stream,
              SocketMessage& message) {
  if (!stream && length > kMaxDatagramBytes) return EMSGSIZE;
  message.data.resize(std::min<uint64_t>(length, kMaxStreamBytes));
  return message.data.empty() ? 0 : -notification.read(pointer, message.data);
}

int read_message(const Notification& notification, uint64_t pointer, int domain, bool stream, SocketMessage& message) {
  msghdr header;
  if (const int error = notification.read(pointer, std::as_writable_bytes(std::span(&header, 1)))) return -error;
  if (header.msg_iovlen > IOV_MAX) return EMSGSIZE;
  if (header.msg_name != nullptr && header.msg_namelen != 0) {
    // The kernel cuts a longer name, as here (net/socket.c).
    const auto size = static_cast<int32_t>(header.msg_namelen);
    if (size < 0) return EINVAL;
    const auto most = std::min<size_t>(static_cast<size_t>(size), sizeof message.name.storage);
    if (const int error = read_address(notification, reinterpret_cast<uint64_t>(header.msg_name), most, message.name))
      return error;
  }
  std::vector<iovec> parts(header.msg_iovlen);
  if (!parts.empty())
    if (const int error =
            notification.read(reinterpret_cast<uint64_t>(header.msg_iov), std::as_writable_bytes(std::span(parts))))
      return -error;
  for (const iovec& part : parts) {
    if (part.iov_len > SSIZE_MAX) return EINVAL;
    const size_t before = message.data.size();
    if (!stream && (part.iov_len > kMaxDatagramBytes || before + part.iov_len > kMaxDatagramBytes)) return EMSGSIZE;
    const size_t size = std::min(part.iov_len, kMaxStreamBytes - before);
    message.data.resize(before + size);
    if (size != 0)
      if (const int error =
              notification.read(reinterpret_cast<uint64_t>(part.iov_base), std::span(message.data).subspan(before)))
        return -error;
  }
  if (header.msg_control == nullptr || header.msg_controllen == 0) return 0;
  if (header.msg_controllen > kMaxControlBytes) return ENOBUFS;
  message.control.resize(header.msg_controllen);
  if (const int error = notification.read(reinterpret_cast<uint64_t>(header.msg_control), message.control))
    return -error;
  return translate_control(notification, domain, message);
}

int64_t send_now(BorrowedFd socket, const SocketMessage& message) {
  msghdr header{};
  iovec part{const_cast<std::byte*>(message.data.data()) + message.sent, message.data.size() - message.sent};
  if (message.name.length != 0) {
    header.msg_name = const_cast<sockaddr_storage*>(&message.name.storage);
    header.msg_namelen = message.name.length;
  }
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!message.control.empty() && message.sent == 0) {
    header.msg_control = const_cast<std::byte*>(message.control.data());
    header.msg_controllen = message.control.size();
  }
  const ssize_t sent = sendmsg(socket.get(), &header, (message.flags & ~MSG_ZEROCOPY) | MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? -errno : sent;
}

void raise_broken_pipe(const Notification& notification) {
  const std::optional<TaskStatus> status = task_status(notification.tid);
  if (status && notification.valid()) syscall(SYS_tgkill, status->tgid, notification.tid, SIGPIPE);
}

}  // namespace srun::supervisor
