#include "report/denial_reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/text.h"
#include "report/call_text.h"
#include "report/denial_text.h"

namespace srun::report {
namespace {

bool is_refusal(Outcome outcome) {
  return outcome == Outcome::kDenied || outcome == Outcome::kKilled || outcome == Outcome::kAudited;
}

std::string_view object_of(const Event& event) { return {event.object, event.object_length}; }

bool same_decision(const Event& a, const Event& b) {
  return a.verdict == b.verdict && a.nr == b.nr && a.audit_arch == b.audit_arch && a.outcome == b.outcome &&
         a.answer == b.answer && a.access == b.access && object_of(a) == object_of(b) &&
         std::memcmp(a.args, b.args, sizeof(a.args)) == 0 && comm_of(a) == comm_of(b);
}

constexpr std::chrono::milliseconds kPatience{1000};

}  // namespace

DenialReporter::DenialReporter(const policy::Enforcement& enforcement, OutputSink& sink, DenialOptions options)
    : enforcement_(enforcement), sink_(sink), options_(std::move(options)) {}

void DenialReporter::count(const Event& event) {
  switch (event.outcome) {
    case Outcome::kDenied:
      counts_.denied += event.repeats;
      break;
    case Outcome::kReturned:
      counts_.returned += event.repeats;
      break;
    case Outcome::kLogged:
      counts_.logged += event.repeats;
      break;
    case Outcome::kKilled:
      counts_.killed += event.repeats;
      break;
    case Outcome::kAudited:
      counts_.audited += event.repeats;
      break;
  }
}

DenialReporter::Entry* DenialReporter::entry_of(const Event& event) {
  if (latest_ && same_decision(latest_event_, event)) return &entries_[*latest_];
  // Two names are two denials; the registers only point to them.
  const std::string what = event.object_length == 0
                               ? call_identity(event.audit_arch, event.nr, event.args)
                               : fmt::format("{}:{}:", event.nr, event.access).append(object_of(event));
  std::string key = fmt::format("{:x}/{}/{}/{}/{}/", event.audit_arch, event.verdict, static_cast<int>(event.outcome),
                                event.answer, what);
  key += comm_of(event);
  auto found = index_.find(key);
  if (found == index_.end()) {
    if (entries_.size() >= kMaxTracked) return nullptr;
    found = index_.emplace(std::move(key), entries_.size()).first;
    entries_.push_back(Entry{event, 0, {}, false});
  }
  latest_ = found->second;
  latest_event_ = event;
  return &entries_[found->second];
}

void DenialReporter::add(const Event& event) {
  count(event);
  if (!is_refusal(event.outcome)) return;
  Entry* entry = entry_of(event);
  if (entry == nullptr) {
    untracked_ += event.repeats;
    return;
  }
  entry->count += event.repeats;
  if (options_.quiet || options_.when == DenialOptions::When::kEnd || entry->printed) return;
  if (static_cast<size_t>(entry - entries_.data()) >= kMaxDistinct) return;
  // Only the first decides: a kind that was held back stays held until the end, so that its line is never printed late
  // in the middle of something else.
  if (entry->count != event.repeats || (options_.terminal_is_raw && options_.terminal_is_raw())) return;
  print(*entry);
  sink_.flush();
}

void DenialReporter::print(Entry& entry) {
  if (entry.fix.empty() && options_.suggest_fix) entry.fix = options_.suggest_fix(entry.first).value_or("");
  sink_.add(denial_line(enforcement_, entry.first, entry.count, entry.fix));
  entry.printed = true;
}

void DenialReporter::finish() {
  if (!options_.quiet) {
    const size_t listed = std::min(entries_.size(), kMaxDistinct);
    for (size_t i = 0; i < listed; ++i) {
      Entry& entry = entries_[i];
      // The live line told a count already if the service thread had merged repeats into the first event.
      if (!entry.printed || entry.count > entry.first.repeats) print(entry);
    }
    uint64_t unlisted = untracked_;
    for (size_t i = listed; i < entries_.size(); ++i) unlisted += entries_[i].count;
    if (unlisted > 0) {
      const std::string kinds = untracked_ > 0 ? fmt::format("at least {} more kinds", entries_.size() - listed + 1)
                                               : count_of(entries_.size() - listed, "more kind");
      sink_.add(fmt::format("sandbox-run: {} of denials ({}) not listed; {}\n", kinds, count_of(unlisted, "call"),
                            options_.events_place.empty()
                                ? std::string("--events FILE lists all")
                                : "all are in " + escape_for_terminal(options_.events_place, 300)));
    }
    if (lost_ > 0)
      sink_.add(
          fmt::format("sandbox-run: {} enforced but not recorded: they came faster than they could be taken down\n",
                      count_of(lost_, "more decision") + (lost_ == 1 ? " was" : " were")));
    for (const std::string& line : final_lines_) sink_.add(line);
  }
  sink_.finish(kPatience);
}

}  // namespace srun::report
