// The io_uring way around every filter.
//   io_uring [FILE]   prints the result of io_uring_setup, io_uring_enter and io_uring_register; if a ring can be had,
//                     opens FILE (default /etc/passwd) and makes an AF_INET socket through it and prints both results
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "victim.h"

static int ring;
static struct io_uring_params params;
static char* rings;
static struct io_uring_sqe* entries;

static int submit(const struct io_uring_sqe* request) {
  unsigned* tail = (unsigned*)(rings + params.sq_off.tail);
  const unsigned mask = *(unsigned*)(rings + params.sq_off.ring_mask);
  const unsigned slot = *tail & mask;
  entries[slot] = *request;
  ((unsigned*)(rings + params.sq_off.array))[slot] = slot;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) return -errno;
  unsigned* head = (unsigned*)(rings + params.cq_off.head);
  const struct io_uring_cqe* results = (const struct io_uring_cqe*)(rings + params.cq_off.cqes);
  const int result = results[*head & *(unsigned*)(rings + params.cq_off.ring_mask)].res;
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
  return result;
}

static void tell_result(const char* what, int result) {
  errno = result < 0 ? -result : 0;
  tell(what, result);
}

int main(int argc, char** argv) {
  ring = (int)tell("io_uring_setup", syscall(SYS_io_uring_setup, 8, &params));
  tell("io_uring_enter", syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0));
  tell("io_uring_register", syscall(SYS_io_uring_register, -1, 0, NULL, 0));
  if (ring >= 0) {
    const size_t size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe) + params.sq_off.array +
                        params.sq_entries * sizeof(unsigned);
    rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                   IORING_OFF_SQES);
    if (rings == MAP_FAILED || entries == MAP_FAILED) return 1;
    const char* file = argc > 1 ? argv[1] : "/etc/passwd";
    struct io_uring_sqe open_file = {.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (uintptr_t)file};
    tell_result("ring openat", submit(&open_file));
    struct io_uring_sqe make_socket = {.opcode = 45, .fd = AF_INET, .off = SOCK_STREAM};  // IORING_OP_SOCKET, 5.19
    tell_result("ring socket", submit(&make_socket));
  }
  puts("end");
  return 0;
}
