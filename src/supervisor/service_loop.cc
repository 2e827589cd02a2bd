#include "supervisor/service_loop.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "kernel/arch.h"
#include "kernel/sys.h"
#include "kernel/syscall_table.h"

namespace srun::supervisor {
namespace {

constexpr uint64_t kHoldAtMost = 100'000'000;  // a counted repeat is told after this many nanoseconds
constexpr uint64_t kIdentityAge = 10'000'000;  // older than this, comm and tgid are read again

// As much of an object as an event holds: its end.
std::string_view reported_part(std::string_view object) {
  return object.size() > sizeof report::Event::object ? object.substr(object.size() - sizeof report::Event::object)
                                                      : object;
}

bool same_decision(const report::Event& held, const bpf::CallData& call, const Answer& answer) {
  if (held.verdict != answer.verdict || held.nr != static_cast<uint32_t>(call.nr) || held.audit_arch != call.arch)
    return false;
  // What the call was about says more than its pointers.
  if (!answer.object.empty() || held.object_length > 0) {
    const std::string_view object = reported_part(answer.object);
    return held.access == answer.access && object == std::string_view(held.object, held.object_length);
  }
  // Registers that the call does not use hold whatever the program left there.
  const std::optional<kernel::Arch> arch = kernel::arch_from_audit(call.arch);
  const kernel::Syscall* const row = arch ? kernel::find_syscall(*arch, held.nr) : nullptr;
  const size_t used = row != nullptr ? row->arg_count : std::size(held.args);
  return std::memcmp(held.args, call.args, used * sizeof held.args[0]) == 0;
}

}  // namespace

ServiceLoop::ServiceLoop(const policy::Enforcement& enforcement, const ServiceOptions& options, BorrowedFd listener,
                         BorrowedFd wake, Membership membership, EventRing& ring)
    : enforcement_(enforcement),
      options_(options),
      listener_(listener),
      wake_(wake),
      ring_(ring),
      affinity_(options.mode, options.sync_available, options.root_mask, listener, tasks_),
      dispatcher_(enforcement, membership, affinity_, slow_, options.engine) {}

void ServiceLoop::run(pid_t target) {
  affinity_.start(target);
  // The kernel checks that the request is zero (5.5); its size never shrinks, so the header's struct is large enough
  // for what a kernel of any version writes: seccomp_notif has not grown since 5.0.
  seccomp_notif request;
  uint64_t served = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    std::memset(&request, 0, sizeof request);
    if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
      const int error = errno;
      if (error == EINTR) {
        housekeeping(kernel::monotonic_ns(), false);
        continue;
      }
      if (error == ENOENT) {
        // Either the asking task was killed before we read its question (crun#526: go on), or nobody is left under the
        // filter, for which newer kernels answer ENOENT for ever. POLLHUP tells.
        pollfd entry{listener_.get(), POLLIN, 0};
        if (poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0 && (entry.revents & POLLIN) == 0) break;
        continue;
      }
      break;  // EBADF, EFAULT, EINVAL: a fault of ours; leaving closes the listener, which answers ENOSYS to all
    }

    const uint64_t now = kernel::monotonic_ns();
    TaskRecord& task = tasks_.get(static_cast<int32_t>(request.pid), [this](TaskRecord& old) {
      flush_held(old);
      affinity_.forget(old);
    });
    Notification notification;
    notification.id = request.id;
    notification.tid = static_cast<pid_t>(request.pid);
    notification.listener = listener_;
    static_assert(sizeof notification.call == sizeof request.data);
    std::memcpy(static_cast<void*>(&notification.call), &request.data, sizeof notification.call);
    affinity_.on_notification(task, now);
    // pid 0: the task is in a pid namespace that we can't see; nothing about it can be decided from numbers.
    const Answer answer = request.pid != 0 ? dispatcher_.decide(notification, task, now) : Answer::refuse(EPERM);
    if (answer.report) report(answer, notification.call, task, now);
    if (answer.internal_error) internal_errors_.fetch_add(1, std::memory_order_relaxed);
    notification.send(answer);
    served_.store(++served, std::memory_order_relaxed);
    announce_wishes();
  }
  slow_.stop();
  housekeeping(kernel::monotonic_ns(), true);
  finished_.store(true, std::memory_order_release);
  wake_consumer();
}

void ServiceLoop::report(const Answer& answer, const bpf::CallData& call, TaskRecord& task, uint64_t now) {
  // A tight loop of equal decisions costs a counter: the first one is told at once, the others as one event every 100
  // ms. With --events each is told by itself, as long as the control plane keeps up.
  const bool merge = !options_.every_event || ring_.crowded();
  if (merge && task.held.repeats > 0 && same_decision(task.held, call, answer)) {
    ++task.held.repeats;
    if (now - task.held_since_ns > kHoldAtMost) {
      report::Event event = task.held;
      --event.repeats;
      push(event);
      task.held.repeats = 1;
      task.held_since_ns = now;
    }
    return;
  }
  flush_held(task);
  if (task.identity_ns == 0 || now - task.identity_ns > kIdentityAge) {
    // The task is asleep until our answer, so /proc still has it; after the answer it may exec or end.
    if (const std::optional<TaskStatus> status = task_status(task.tid)) task.tgid = status->tgid;
    static_cast<void>(read_comm(task.tid, task.comm));
    task.identity_ns = now;
  }

  report::Event event;
  event.time_ns = kernel::realtime_ns();
  event.tid = task.tid;
  event.tgid = task.tgid;
  event.audit_arch = call.arch;
  event.nr = static_cast<uint32_t>(call.nr);
  std::memcpy(event.args, call.args, sizeof event.args);
  event.instruction_pointer = call.instruction_pointer;
  event.verdict = answer.verdict;
  event.outcome = answer.outcome;
  event.answer = static_cast<int32_t>(answer.value);
  const std::string_view object = reported_part(answer.object);
  if (!object.empty()) std::memcpy(event.object, object.data(), object.size());
  event.object_length = static_cast<uint16_t>(object.size());
  event.object_cut = object.size() < answer.object.size();
  event.access = answer.access;
  std::memcpy(event.comm, task.comm, sizeof event.comm);
  push(event);
  task.held = event;  // repeats == 1 stands for the one just pushed; flush_held() tells what came after it
  task.held_since_ns = now;
  ++held_;
}

void ServiceLoop::push(const report::Event& event) {
  if (ring_.push(event) && ring_.take_wake_request()) wake_consumer();
}

void ServiceLoop::flush_held(TaskRecord& task) {
  if (task.held.repeats == 0) return;
  if (task.held.repeats > 1) {
    report::Event event = task.held;
    --event.repeats;
    push(event);
  }
  task.held.repeats = 0;
  --held_;
}

void ServiceLoop::housekeeping(uint64_t now, bool all) {
  affinity_.reap(now);
  if (held_ > 0) {
    tasks_.for_each([&](TaskRecord& task) {
      if (all || now - task.last_ns > kHoldAtMost) flush_held(task);
    });
  }
  announce_wishes();
}

void ServiceLoop::announce_wishes() {
  const bool leases = affinity_.busy();
  const bool wants_poke = held_ > 0 || leases;
  if (wants_poke == wants_poke_.load(std::memory_order_relaxed) &&
      leases == has_leases_.load(std::memory_order_relaxed))
    return;
  has_leases_.store(leases, std::memory_order_relaxed);
  wants_poke_.store(wants_poke, std::memory_order_seq_cst);
  if (wants_poke && ring_.take_wake_request()) wake_consumer();
}

void ServiceLoop::wake_consumer() {
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the reader is awake already.
  static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

}  // namespace srun::supervisor
