#pragma once
// Who belongs to the run, and ending all of it. Supervisor and guard are subreapers, so every process of the run is a
// descendant of the supervisor, or of the guard once the supervisor is gone.
#include <sys/types.h>

#include <optional>
#include <vector>

namespace srun::supervisor {

// Fields of /proc/TID/status; works for thread ids too. nullopt if the task is gone.
struct TaskStatus {
  pid_t tgid = 0;
  pid_t ppid = 0;
};
std::optional<TaskStatus> task_status(pid_t tid);
// Bytes of /proc/TID/comm without the newline, at most 15; false if the task is gone. Hostile text.
bool read_comm(pid_t tid, char (&comm)[16]);

// Decides whether a process or thread is a member of the run: a descendant of the supervisor that is not the
// supervisor. Used for verdicts on pid arguments (H4), so it answers "no" whenever it can't tell.
class Membership {
 public:
  Membership(pid_t supervisor, pid_t guard) : supervisor_(supervisor), guard_(guard) {}
  bool is_member(pid_t tid) const;
  pid_t supervisor() const { return supervisor_; }
  pid_t guard() const { return guard_; }

 private:
  pid_t supervisor_;
  pid_t guard_;
};

// Processes below `root`, without it; thread group ids. A snapshot of a moving tree.
std::vector<pid_t> descendants(pid_t root);

// Kills and reaps every descendant of the calling process until none is left, whatever it does meanwhile (new sessions,
// double forks, stops). Blocking; returns when waitpid says ECHILD. The wait status of `watched`, should it be among
// them, is stored in *watched_status.
void end_all(pid_t watched = -1, int* watched_status = nullptr);

// Children of the calling process. Taken before a run begins, they are what it inherited from a shell that replaced
// itself (`server & exec sandbox-run …`): strangers to the run.
std::vector<pid_t> own_children();
// The same where there are strangers among the children, which are left alone, with what descends from them. An orphan
// of theirs, which a subreaper adopts too, is told from a member by the number of its seccomp filters: members have
// more than the calling process. None of the strangers may have been waited for. Returns when no member is left.
void end_all_but(std::vector<pid_t> strangers);

}  // namespace srun::supervisor
