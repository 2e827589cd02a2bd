// Socket addresses, options and messages.
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernel/remote_memory.h"
#include "trace/decoder.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

}  // namespace

void Decoder::sockaddr(At& at, uint64_t address, uint64_t length) {
  union {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_nl netlink;
    char bytes[sizeof(sockaddr_storage) + 1];
  } storage;
  std::memset(&storage, 0, sizeof storage);
  const size_t size = std::min<uint64_t>(length, sizeof(sockaddr_storage));
  if (address == 0 || size < 2 || !fetch(at, address, &storage, size)) return put_address(at.out, address);
  const uint16_t family = storage.any.sa_family;
  at.out += "{sa_family=";
  value(at, XlatId::kAddressFamilies, family);
  char text[INET6_ADDRSTRLEN];
  if (family == AF_UNIX && size > 2) {
    at.out += ", sun_path=";
    const char* const path = storage.un.sun_path;
    const size_t room = std::min(size - 2, sizeof storage.un.sun_path);
    if (path[0] == 0) {
      at.out += '@';
      put_quoted(at.out, std::string_view(path + 1, room - 1), false, options_.hex);
    } else {
      put_quoted(at.out, std::string_view(path, strnlen(path, room)), false, options_.hex);
    }
  } else if (family == AF_INET && size >= sizeof storage.in) {
    at.out += ", sin_port=htons(";
    put_unsigned(at.out, ntohs(storage.in.sin_port));
    at.out += "), sin_addr=inet_addr(\"";
    inet_ntop(AF_INET, &storage.in.sin_addr, text, sizeof text);
    at.out += text;
    at.out += "\")";
  } else if (family == AF_INET6 && size >= 24) {
    at.out += ", sin6_port=htons(";
    put_unsigned(at.out, ntohs(storage.in6.sin6_port));
    at.out += "), sin6_flowinfo=htonl(";
    put_unsigned(at.out, ntohl(storage.in6.sin6_flowinfo));
    at.out += "), inet_pton(AF_INET6, \"";
    inet_ntop(AF_INET6, &storage.in6.sin6_addr, text, sizeof text);
    at.out += text;
    at.out += "\", &sin6_addr)";
    if (size >= 28) {
      at.out += ", sin6_scope_id=";
      put_unsigned(at.out, storage.in6.sin6_scope_id);
    }
  } else if (family == AF_NETLINK && size >= sizeof storage.netlink) {
    at.out += ", nl_pid=";
    put_decimal(at.out, static_cast<int32_t>(storage.netlink.nl_pid));
    at.out += ", nl_groups=";
    put_hex_digits(at.out, storage.netlink.nl_groups, 8);
  } else if (size > 2) {
    at.out += ", sa_data=";
    put_quoted(at.out, std::string_view(storage.any.sa_data, std::min<size_t>(size - 2, sizeof storage.any.sa_data)),
               false, options_.hex);
  }
  at.out += '}';
}

void Decoder::control(At& at, uint64_t address, uint64_t length) {
  alignas(cmsghdr) char buffer[2048];
  const size_t size = std::min<uint64_t>(length, sizeof buffer);
  if (address == 0 || size < sizeof(cmsghdr) || !fetch(at, address, buffer, size)) return put_address(at.out, address);
  at.out += '[';
  size_t offset = 0;
  bool first = true;
  while (size - offset >= sizeof(cmsghdr)) {
    cmsghdr header;
    std::memcpy(&header, buffer + offset, sizeof header);
    const size_t data_length =
        header.cmsg_len < sizeof header ? 0 : std::min(header.cmsg_len, size - offset) - sizeof header;
    if (!first) at.out += ", ";
    first = false;
    at.out += "{cmsg_len=";
    put_unsigned(at.out, header.cmsg_len);
    at.out += ", cmsg_level=";
    value(at, XlatId::kSocketLevels, static_cast<uint32_t>(header.cmsg_level));
    at.out += ", cmsg_type=";
    if (header.cmsg_level == SOL_SOCKET)
      value(at, XlatId::kScmTypes, static_cast<uint32_t>(header.cmsg_type));
    else
      put_hex(at.out, static_cast<uint32_t>(header.cmsg_type));
    const char* const data = buffer + offset + sizeof header;
    if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_RIGHTS && data_length >= 4) {
      at.out += ", cmsg_data=[";
      for (size_t i = 0; i + 4 <= data_length; i += 4) {
        int32_t fd = 0;
        std::memcpy(&fd, data + i, 4);
        if (i != 0) at.out += ", ";
        put_fd(at.out, at.call.tid, fd);
      }
      at.out += ']';
    } else if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_CREDENTIALS && data_length >= 12) {
      int32_t ids[3];
      std::memcpy(ids, data, sizeof ids);
      at.out += ", cmsg_data={pid=";
      put_decimal(at.out, ids[0]);
      at.out += ", uid=";
      put_decimal(at.out, ids[1]);
      at.out += ", gid=";
      put_decimal(at.out, ids[2]);
      at.out += '}';
    } else if (data_length != 0) {
      at.out += ", cmsg_data=";
      put_quoted(at.out, std::string_view(data, std::min(data_length, options_.string_limit)),
                 data_length > options_.string_limit, HexStrings::kAlways);
    }
    at.out += '}';
    if (header.cmsg_len < sizeof header) break;
    const size_t step = (header.cmsg_len + 7) & ~size_t{7};
    if (step < header.cmsg_len || step > size - offset) break;
    offset += step;
  }
  at.out += ']';
}

void Decoder::msghdr(At& at, uint64_t address, uint64_t available) {
  struct {
    uint64_t name;
    uint32_t name_length, pad;
    uint64_t iov, iov_length, control, control_length;
    uint32_t flags, pad2;
  } header{};
  static_assert(sizeof header == 56);
  if (!fetch(at, address, header)) return put_address(at.out, address);
  at.out += "{msg_name=";
  if (header.name == 0)
    at.out += "NULL";
  else
    sockaddr(at, header.name, header.name_length);
  at.out += ", msg_namelen=";
  put_decimal(at.out, static_cast<int32_t>(header.name_length));
  at.out += ", msg_iov=";
  iovec(at, header.iov, header.iov_length, available);
  at.out += ", msg_iovlen=";
  put_unsigned(at.out, header.iov_length);
  if (header.control_length != 0) {
    at.out += ", msg_control=";
    control(at, header.control, header.control_length);
  }
  at.out += ", msg_controllen=";
  put_unsigned(at.out, header.control_length);
  at.out += ", msg_flags=";
  flags(at, XlatId::kMsgFlags, header.flags);
  at.out += '}';
}

void Decoder::sockopt(At& at) {
  const bool get = at.kind(at.index) == kSockoptOut;
  const uint64_t address = at.value();
  int32_t length = static_cast<int32_t>(at.value(at.index + 1));
  if (get && (at.call.failed || !fetch(at, at.value(at.index + 1), length))) return put_address(at.out, address);
  const auto level = static_cast<uint32_t>(at.value(1));
  const auto option = static_cast<uint32_t>(at.value(2));
  if (address == 0 || length < 0) return put_address(at.out, address);
  if (level == SOL_SOCKET && option == SO_LINGER && length >= 8) {
    int32_t linger[2];
    if (!fetch(at, address, linger)) return put_hex(at.out, address);
    at.out += "{l_onoff=";
    put_decimal(at.out, linger[0]);
    at.out += ", l_linger=";
    put_decimal(at.out, linger[1]);
    at.out += '}';
    return;
  }
  if (level == SOL_SOCKET && (option == 20 || option == 21) && length >= 16) return timeval(at, address);
  if (level == SOL_SOCKET && option == SO_PEERCRED && length >= 12) {
    int32_t ids[3];
    if (!fetch(at, address, ids)) return put_hex(at.out, address);
    at.out += "{pid=";
    put_decimal(at.out, ids[0]);
    at.out += ", uid=";
    put_decimal(at.out, ids[1]);
    at.out += ", gid=";
    put_decimal(at.out, ids[2]);
    at.out += '}';
    return;
  }
  if ((level == SOL_SOCKET && option == SO_BINDTODEVICE) || (level == 6 && (option == 13 || option == 31)))
    return bytes(at, address, static_cast<uint64_t>(length));
  if (length == 4) {
    int32_t number = 0;
    if (!fetch(at, address, number)) return put_hex(at.out, address);
    at.out += '[';
    if (get && level == SOL_SOCKET && option == SO_ERROR && number != 0 && !errno_symbol(number).empty())
      at.out += errno_symbol(number);
    else
      put_decimal(at.out, number);
    at.out += ']';
    return;
  }
  bytes(at, address, static_cast<uint64_t>(length));
}

bool Decoder::put_socket(At& at) {
  const uint64_t address = at.value();
  switch (at.kind(at.index)) {
    case kSocketOption: {
      const auto option = static_cast<uint32_t>(address);
      switch (static_cast<uint32_t>(at.value(1))) {
        case 0:
          value(at, XlatId::kIpOptions, option);
          break;
        case 1:
          value(at, XlatId::kSocketOptions, option);
          break;
        case 6:
          value(at, XlatId::kTcpOptions, option);
          break;
        case 41:
          value(at, XlatId::kIpv6Options, option);
          break;
        default:
          put_hex(at.out, option);
      }
      return true;
    }
    case kSockoptIn:
    case kSockoptOut:
      sockopt(at);
      return true;
    case kSockaddrIn:
      sockaddr(at, address, static_cast<uint32_t>(at.value(at.index + 1)));
      return true;
    case kSockaddrOut: {
      int32_t length = 0;
      if (address == 0 || at.call.failed || !fetch(at, at.value(at.index + 1), length))
        put_address(at.out, address);
      else
        sockaddr(at, address, static_cast<uint32_t>(length));
      return true;
    }
    case kSockLenInOut: {
      int32_t length = 0;
      if (!fetch(at, address, length)) {
        put_address(at.out, address);
      } else {
        at.out += '[';
        put_decimal(at.out, length);
        at.out += ']';
      }
      return true;
    }
    case kMsghdrIn:
      msghdr(at, address, UINT64_MAX);
      return true;
    case kMsghdrOut:
      if (at.call.failed) {
        // Of what the caller passed only the room for a name is sure to be its own.
        int32_t length = 0;
        if (!fetch(at, address + 8, length)) {
          put_address(at.out, address);
        } else {
          at.out += "{msg_namelen=";
          put_decimal(at.out, length);
          at.out += '}';
        }
      } else {
        msghdr(at, address, static_cast<uint64_t>(at.call.result));
      }
      return true;
    case kMmsghdrIn:
    case kMmsghdrOut: {
      const bool out = at.kind(at.index) == kMmsghdrOut;
      if (out && at.call.failed) {
        put_address(at.out, address);
        return true;
      }
      const uint64_t count =
          out ? static_cast<uint64_t>(at.call.result) : static_cast<uint32_t>(at.value(at.index + 1));
      at.out += '[';
      for (uint64_t i = 0; i < count; ++i) {
        if (i != 0) at.out += ", ";
        if (i >= options_.string_limit) {
          at.out += "...";
          break;
        }
        uint32_t length = 0;
        if (!fetch(at, address + i * 64 + 56, length)) {
          at.out += "...";
          break;
        }
        at.out += "{msg_hdr=";
        msghdr(at, address + i * 64, out ? length : UINT64_MAX);
        if (out) {
          at.out += ", msg_len=";
          put_unsigned(at.out, length);
        }
        at.out += '}';
      }
      at.out += ']';
      return true;
    }
    default:
      return false;
  }
}

}  // namespace srun::trace
