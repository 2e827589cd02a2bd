#pragma once
// Which servers belong to the run: sockets that it bound, told by what cannot be taken over by somebody else. Service
// thread and slow calls.
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/unique_fd.h"
#include "policy/network.h"

namespace srun::supervisor {

// Who would answer at an address now.
enum class Server : uint8_t { kNobody, kOwn, kOther };

class RunSockets {
 public:
  // A socket that the run has bound, or that got an address by sending; sockets are told by their inodes, which are not
  // used twice while one lives.
  void add(BorrowedFd socket);
  // The file that a Unix socket of the run was bound to.
  void add_file(BorrowedFd object);

  // All sockets that could answer at this address belong to the run. Reads the kernel's tables (proc_pid_net(5)); what
  // can't be read belongs to others.
  Server server_at(const policy::SocketAddress& address) const;
  Server abstract_server(std::string_view name) const;
  bool owns_file(BorrowedFd object) const;

  // Whether the Unix socket is bound to exactly this file; nullopt where the kernel does not tell (sock_diag(7),
  // unix_diag).
  static bool is_known(BorrowedFd socket);  // it tells at all
  static std::optional<bool> is_bound_to(BorrowedFd socket, BorrowedFd object);

 private:
  struct FileKey {
    uint64_t device, inode;
    int64_t birth;  // nanoseconds: inode numbers are used again, birth times are not
    friend bool operator==(const FileKey&, const FileKey&) = default;
  };
  static bool key_of(BorrowedFd object, FileKey& key);
  bool owns_inode(uint64_t inode) const;

  static constexpr size_t kMost = 65536;  // older ones are forgotten, and then belong to others
  mutable std::mutex mutex_;
  std::unordered_set<uint64_t> inodes_;
  std::deque<uint64_t> order_;
  std::deque<FileKey> files_;
};

}  // namespace srun::supervisor
