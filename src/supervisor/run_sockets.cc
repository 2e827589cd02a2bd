#include "supervisor/run_sockets.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

namespace srun::supervisor {
namespace {

// The whole of a file of procfs; empty if it can't be read.
std::string contents(const char* path) {
  std::string text;
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 16384> buffer;
  while (file) {
    const ssize_t size = read(file.get(), buffer.data(), buffer.size());
    if (size < 0) return {};
    if (size == 0) break;
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  return text;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

uint64_t number(std::string_view text, int base) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// "0100007F:0016", "00000000000000000000000001000000:0016": each 32-bit word in the host's order.
bool parse_local(std::string_view text, policy::IpAddress& address, unsigned& port) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return false;
  address = {};
  size_t at = colon == 8 ? 12 : 0;
  if (colon == 8) address[10] = address[11] = 0xff;
  for (size_t word = 0; word < colon; word += 8, at += 4) {
    const auto value = static_cast<uint32_t>(number(text.substr(word, 8), 16));
    std::memcpy(address.data() + at, &value, 4);
  }
  port = static_cast<unsigned>(number(text.substr(colon + 1), 16));
  return true;
}

// The file that a Unix socket is bound to, from sock_diag(7). `answered`: the kernel knows the socket at all.
std::optional<unix_diag_vfs> ask_file(BorrowedFd socket, bool& answered) {
  struct stat ours {};
  if (fstat(socket.get(), &ours) != 0) return std::nullopt;
  const UniqueFd kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel) return std::nullopt;
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = ~0U;
  message.request.udiag_ino = static_cast<uint32_t>(ours.st_ino);
  message.request.udiag_show = UDIAG_SHOW_VFS;
  message.request.udiag_cookie[0] = message.request.udiag_cookie[1] = ~0U;
  alignas(nlmsghdr) std::array<char, 4096> answer;
  if (send(kernel.get(), &message, sizeof message, 0) < 0) return std::nullopt;
  const ssize_t size = recv(kernel.get(), answer.data(), answer.size(), 0);
  const auto* const header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (size < static_cast<ssize_t>(sizeof *header) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      header->nlmsg_len > static_cast<size_t>(size))
    return std::nullopt;
  answered = true;
  for (size_t at = NLMSG_LENGTH(sizeof(unix_diag_msg)); at + sizeof(nlattr) <= header->nlmsg_len;) {
    nlattr attribute;
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute) break;
    if (attribute.nla_type == UNIX_DIAG_VFS && at + sizeof attribute + sizeof(unix_diag_vfs) <= header->nlmsg_len) {
      unix_diag_vfs place;
      std::memcpy(&place, answer.data() + at + sizeof attribute, sizeof place);
      return place;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return std::nullopt;
}
constexpr unsigned kListening = 10;  // TCP_LISTEN

// Calls look(local address, port, listening, inode) for each line of a table of procfs. False: it can't be read.
template <typename Look>
bool for_each_in_table(const std::string& path, Look look) {
  const std::string table = contents(path.c_str());
  // A kernel without IPv6 has no such file and no such sockets.
  if (table.empty()) return path.ends_with('6') && access(path.c_str(), F_OK) != 0;
  std::string_view rest = table;
  rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()));
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // "sl local_address rem_address st queues timer retransmits uid timeout inode …"
    std::array<std::string_view, 10> words;
    for (std::string_view& word : words) word = next_word(line);
    policy::IpAddress local{};
    unsigned port = 0;
    if (words[9].empty() || !parse_local(words[1], local, port)) continue;
    look(local, port, number(words[3], 16) == kListening, number(words[9], 10));
  }
  return true;
}

// The same for the sockets at one port, asked of the kernel (sock_diag(7)): the tables of procfs are walked from end to
// end, which takes milliseconds. False: it can't be asked (no inet_diag), or the answer is not complete.
template <typename Look>
bool for_each_at_port(bool tcp, uint8_t family, uint16_t port, Look look) {
  const UniqueFd kernel(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } query{};
  query.header.nlmsg_len = sizeof query;
  query.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  query.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  query.request.sdiag_family = family;
  query.request.sdiag_protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP;
  query.request.idiag_states = tcp ? 1U << kListening : ~0U;
  query.request.id.idiag_sport = htons(port);
  if (!kernel || send(kernel.get(), &query, sizeof query, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof query))
    return false;
  alignas(nlmsghdr) std::array<char, 16384> answer;
  while (true) {
    const ssize_t got = recv(kernel.get(), answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    for (size_t at = 0; static_cast<size_t>(got) - at >= sizeof(nlmsghdr);) {
      nlmsghdr header;
      std::memcpy(&header, answer.data() + at, sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > static_cast<size_t>(got) - at) return false;
      if (header.nlmsg_type == NLMSG_DONE) return true;
      inet_diag_msg entry;
      if (header.nlmsg_type == NLMSG_ERROR || (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0 ||
          header.nlmsg_len < NLMSG_HDRLEN + sizeof entry)
        return false;
      std::memcpy(&entry, answer.data() + at + NLMSG_HDRLEN, sizeof entry);
      policy::IpAddress local{};
      if (family == AF_INET) local[10] = local[11] = 0xff;
      std::memcpy(local.data() + (family == AF_INET ? 12 : 0), entry.id.idiag_src, family == AF_INET ? 4 : 16);
      look(local, ntohs(entry.id.idiag_sport), entry.idiag_state == kListening, entry.idiag_inode);
      at = std::min(at + NLMSG_ALIGN(header.nlmsg_len), static_cast<size_t>(got));
    }
  }
}

}  // namespace

void RunSockets::add(BorrowedFd socket) {
  struct stat status {};
  if (fstat(socket.get(), &status) != 0) return;
  const std::lock_guard lock(mutex_);
  if (!inodes_.insert(status.st_ino).second) return;
  order_.push_back(status.st_ino);
  if (order_.size() <= kMost) return;
  inodes_.erase(order_.front());
  order_.pop_front();
}

bool RunSockets::key_of(BorrowedFd object, FileKey& key) {
  struct statx status {};
  if (statx(object.get(), "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME | STATX_CTIME, &status) != 0) return false;
  // File systems without birth times: the time of the last change of the inode, which an attacker can't set back.
  const statx_timestamp& time = (status.stx_mask & STATX_BTIME) != 0 ? status.stx_btime : status.stx_ctime;
  key = {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino,
         time.tv_sec * 1'000'000'000 + time.tv_nsec};
  return true;
}

void RunSockets::add_file(BorrowedFd object) {
  FileKey key{};
  if (!key_of(object, key)) return;
  const std::lock_guard lock(mutex_);
  files_.push_back(key);
  if (files_.size() > kMost) files_.pop_front();
}

bool RunSockets::owns_file(BorrowedFd object) const {
  FileKey key{};
  if (!key_of(object, key)) return false;
  const std::lock_guard lock(mutex_);
  return std::find(files_.begin(), files_.end(), key) != files_.end();
}

bool RunSockets::owns_inode(uint64_t inode) const {
  const std::lock_guard lock(mutex_);
  return inodes_.contains(inode);
}

Server RunSockets::server_at(const policy::SocketAddress& address) const {
  const bool tcp = address.protocol == policy::Protocol::kTcp;
  Server found = Server::kNobody;
  const auto look = [&](const policy::IpAddress& local, unsigned port, bool listening, uint64_t inode) {
    if (port != address.port || (tcp && !listening) || (local != address.address && !policy::is_unspecified(local)))
      return;
    if (!owns_inode(inode))
      found = Server::kOther;
    else if (found == Server::kNobody)
      found = Server::kOwn;
  };
  if (for_each_at_port(tcp, AF_INET, address.port, look) && for_each_at_port(tcp, AF_INET6, address.port, look))
    return found;
  found = Server::kNobody;
  if (for_each_in_table(tcp ? "/proc/self/net/tcp" : "/proc/self/net/udp", look) &&
      for_each_in_table(tcp ? "/proc/self/net/tcp6" : "/proc/self/net/udp6", look))
    return found;
  return Server::kOther;
}

bool RunSockets::is_known(BorrowedFd socket) {
  bool answered = false;
  ask_file(socket, answered);
  return answered;
}

std::optional<bool> RunSockets::is_bound_to(BorrowedFd socket, BorrowedFd object) {
  struct stat file {};
  bool answered = false;
  const std::optional<unix_diag_vfs> place = ask_file(socket, answered);
  if (!place || fstat(object.get(), &file) != 0) return std::nullopt;
  // The kernel's own form of a device number, and the lower half of the inode's.
  return place->udiag_vfs_ino == static_cast<uint32_t>(file.st_ino) &&
         place->udiag_vfs_dev == (major(file.st_dev) << 20 | minor(file.st_dev));
}

Server RunSockets::abstract_server(std::string_view name) const {
  const std::string table = contents("/proc/self/net/unix");
  if (table.empty()) return Server::kOther;
  // Zero bytes are written as "@" there too, so equal texts may be different names: then all of them must be the run's.
  std::string shown = "@" + std::string(name);
  std::replace(shown.begin(), shown.end(), '\0', '@');
  Server found = Server::kNobody;
  // A name may hold line ends and blanks; only what begins like a line of the table and ends in the whole name counts,
  // and what a hostile name makes look like another line can only add sockets that are not the run's.
  std::string_view rest = table;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::array<std::string_view, 7> words;
    for (std::string_view& word : words) word = next_word(line);
    if (line.size() < 2 || line.substr(1) != shown) continue;
    if (!owns_inode(number(words[6], 10))) return Server::kOther;
    found = Server::kOwn;
  }
  return found;
}

}  // namespace srun::supervisor
