#pragma once
// What to answer to a notification: by its scalars here, by what they point to in the brokers. Service thread only.
#include <cstdint>
#include <memory>

#include "bpf/lazy_verdicts.h"
#include "bpf/program.h"
#include "policy/enforcement.h"
#include "supervisor/affinity.h"
#include "supervisor/answer.h"
#include "supervisor/file_broker.h"
#include "supervisor/network_broker.h"
#include "supervisor/notification.h"
#include "supervisor/process_tree.h"
#include "supervisor/slow_calls.h"
#include "supervisor/task_table.h"

namespace srun::supervisor {

class Dispatcher {
 public:
  // All references are borrowed. `own_pid_namespace`: inode of the supervisor's, to recognise tasks whose numbers mean
  // something else.
  Dispatcher(const policy::Enforcement& enforcement, Membership membership, Affinity& affinity, SlowCalls& slow,
             const bpf::RunnerOptions& engine = {});

  // `task` is the asking one, asleep until the answer.
  Answer decide(const Notification& notification, TaskRecord& task, uint64_t now);

 private:
  Answer check(const policy::Verdict& verdict, const Notification& notification, TaskRecord& task, uint64_t now);
  Answer check_process(policy::Check check, const bpf::CallData& call, TaskRecord& task, uint64_t now);
  Answer check_pid(int32_t pid, TaskRecord& task);
  Answer check_kill(int32_t pid, int32_t signal, TaskRecord& task);
  Answer check_priority(const bpf::CallData& call, TaskRecord& task);
  Answer check_ptrace(const bpf::CallData& call, TaskRecord& task);
  bool foreign_pid_namespace(pid_t tid) const;

  const policy::Enforcement& enforcement_;
  bpf::LazyVerdicts verdicts_;
  Membership membership_;
  Affinity& affinity_;
  std::unique_ptr<FileBroker> files_;  // null: no policy has a files section
  std::unique_ptr<NetworkBroker> network_;  // null: no policy restricts the network
  uint64_t own_pid_namespace_;
};

}  // namespace srun::supervisor
