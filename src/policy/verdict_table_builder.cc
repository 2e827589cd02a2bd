#include "policy/verdict_table_builder.h"

#include <cerrno>
#include <cstring>
#include <limits>

#include "policy/guard.h"

namespace srun::policy {

namespace {

constexpr uint16_t kGuardLayer = 0;

bool may_be_notified(const kernel::Syscall* call) { return call == nullptr || !kernel::never_notified(*call); }

bool is_refusal(Action action) {
  return action == Action::kErrno || action == Action::kReturn || action == Action::kTrap || action == Action::kKill;
}

bool needs_notification(const Verdict& verdict) {
  return verdict.action == Action::kLog || verdict.action == Action::kCheck ||
         (verdict.action == Action::kReturn && verdict.value != 0);
}

std::string content_key(const Verdict& verdict) {
  std::string key;
  key.reserve(192);
  // As bytes: a policy has hundreds of these keys, and is compiled at every start.
  const auto number = [&key](int64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    key.append(bytes, sizeof bytes);
  };
  const auto text = [&](const std::string& value) {
    number(static_cast<int64_t>(value.size()));
    key += value;
  };
  number(static_cast<int64_t>(verdict.action));
  number(static_cast<int64_t>(verdict.check));
  number(verdict.value);
  number(verdict.quiet ? 1 : 0);
  number(verdict.notified ? 1 : 0);
  number(static_cast<int64_t>(verdict.audited));
  number(verdict.rule.layer);
  number(verdict.rule.line);
  number(verdict.rule.is_default ? 1 : 0);
  number(verdict.rule.newer_than_table ? 1 : 0);
  text(verdict.rule.file);
  text(verdict.rule.pointer);
  text(verdict.rule.reason);
  return key;
}

}  // namespace

uint32_t project(const Verdict& verdict) {
  const auto data = static_cast<uint32_t>(verdict.value) & bpf::kRetDataMask;
  switch (verdict.action) {
    case Action::kAllow: return bpf::kRetAllow;
    case Action::kLog:
    case Action::kCheck: return bpf::kRetUserNotif;
    case Action::kReturn: return verdict.notified ? bpf::kRetUserNotif : bpf::kRetErrno;  // ERRNO|0 returns 0
    case Action::kErrno: return verdict.notified ? bpf::kRetUserNotif : bpf::kRetErrno | data;
    case Action::kTrap: return bpf::kRetTrap | data;
    case Action::kKill: break;
  }
  return bpf::kRetKillProcess;
}

uint32_t copy_return(const Verdict& verdict, bpf::VerdictId id) {
  // An audited refusal is weaker than a check of the guard layer, which a later layer must never displace, and stronger
  // than a record, so that what would have been denied is told even if another layer records the call. TRACE's rank is
  // free for it: nothing else uses it.
  if (verdict.audited != Action::kAllow) return bpf::kRetTrace | id;
  switch (verdict.action) {
    case Action::kAllow: return bpf::kRetAllow | id;
    case Action::kLog: return bpf::kRetLog | id;
    case Action::kCheck: return bpf::kRetUserNotif | id;
    case Action::kReturn:
    case Action::kErrno: return bpf::kRetErrno | id;
    case Action::kTrap: return bpf::kRetTrap | id;
    case Action::kKill: break;
  }
  return bpf::kRetKillProcess | id;
}

bool VerdictTableBuilder::needs_impossible_notification(const Verdict& verdict, const kernel::Syscall* call) {
  return needs_notification(verdict) && !may_be_notified(call);
}

bpf::VerdictId VerdictTableBuilder::add(Verdict verdict, const kernel::Syscall* call) {
  const bool answers = verdict.action == Action::kErrno || verdict.action == Action::kReturn;
  if (call != nullptr && call->name == "clone3" && answers) verdict = clone3_verdict();
  const bool may_notify = may_be_notified(call);
  verdict.audited = Action::kAllow;
  verdict.notified = false;
  if (needs_impossible_notification(verdict, call)) {
    if (verdict.action == Action::kLog) {
      verdict.action = Action::kAllow;
    } else {
      verdict.action = Action::kErrno;
      verdict.check = Check::kNone;
      verdict.value = EPERM;
    }
  }
  if (options_.audit && verdict.rule.layer != kGuardLayer && is_refusal(verdict.action)) {
    if (may_notify && !verdict.quiet) {
      verdict.audited = verdict.action;
      verdict.action = Action::kLog;
      verdict.notified = true;
    } else {
      verdict.action = Action::kAllow;
    }
  } else if (verdict.action == Action::kErrno) {
    verdict.notified = may_notify && !verdict.quiet && options_.report_denials;
  } else {
    verdict.notified = needs_notification(verdict);
  }

  const auto [entry, fresh] = ids_.try_emplace(content_key(verdict), 0);
  if (!fresh) return entry->second;
  if (verdicts_.size() > std::numeric_limits<bpf::VerdictId>::max()) {
    overflowed_ = true;
    ids_.erase(entry);
    return std::numeric_limits<bpf::VerdictId>::max();
  }
  const auto id = static_cast<bpf::VerdictId>(verdicts_.size());
  entry->second = id;
  returns_.push_back({copy_return(verdict, id), project(verdict)});
  verdicts_.push_back(std::move(verdict));
  return id;
}

}  // namespace srun::policy
