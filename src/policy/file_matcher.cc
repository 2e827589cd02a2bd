#include "policy/file_matcher.h"

#include <sys/sysmacros.h>

#include "policy/kernel_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace srun::policy {
namespace {

constexpr size_t kRead = static_cast<size_t>(FileVerb::kRead);
constexpr size_t kWrite = static_cast<size_t>(FileVerb::kWrite);
constexpr size_t kExecute = static_cast<size_t>(FileVerb::kExecute);

std::string_view first_component(std::string_view& rest) {
  // `rest` starts with "/"; afterwards it starts with the next one or is empty.
  const size_t end = std::min(rest.find('/', 1), rest.size());
  const std::string_view component = rest.substr(1, end - 1);
  rest.remove_prefix(end);
  return component;
}

bool component_matches(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?[") == std::string_view::npos) return pattern == name;
  // fnmatch(3) wants terminated strings; a component is at most NAME_MAX bytes.
  char pattern_text[512];
  char name_text[512];
  if (pattern.size() >= sizeof pattern_text || name.size() >= sizeof name_text) return false;
  std::memcpy(pattern_text, pattern.data(), pattern.size());
  pattern_text[pattern.size()] = '\0';
  std::memcpy(name_text, name.data(), name.size());
  name_text[name.size()] = '\0';
  return fnmatch(pattern_text, name_text, FNM_NOESCAPE) == 0;
}

// The deepest prefix of `path` (in components, `depth` of them are behind us) that the rest of the pattern matches; -1:
// none.
int deepest(std::string_view pattern, std::string_view path, int depth) {
  while (!pattern.empty()) {
    std::string_view after = pattern;
    const std::string_view component = first_component(after);
    if (component == "**") {
      int best = -1;
      // Zero or more components.
      while (true) {
        best = std::max(best, deepest(after, path, depth));
        if (path.empty()) return best;
        first_component(path);
        ++depth;
      }
    }
    if (path.empty()) return -1;
    const std::string_view name = first_component(path);
    if (!component_matches(component, name)) return -1;
    ++depth;
    pattern = after;
  }
  return depth;
}

constexpr FileAccess kChanges =
    FileAccess::kWrite | FileAccess::kCreate | FileAccess::kRemove | FileAccess::kAttributes;

struct Compiled {
  std::string pattern;
  bool wild = false;
  int depth = 0;  // of a plain pattern
  size_t entry = 0;
};

int depth_of(std::string_view path) {
  return path == "/" ? 0 : static_cast<int>(std::count(path.begin(), path.end(), '/'));
}

class StackMatcher final : public FileMatcher {
 public:
  StackMatcher(const std::vector<FileLayer>& layers, const FileMatcherOptions& options) : options_(options) {
    for (const FileLayer& layer : layers) {
      Layer& made = layers_.emplace_back();
      made.present = layer.section->present;
      made.unmatched = layer.unmatched;
      made.open_ended = layer.section->open_ended;
      made.empty.fill(true);
      for (const FileEntry& entry : layer.section->entries) made.empty[static_cast<size_t>(entry.verb)] = false;
      for (size_t i = 0; i < layer.section->entries.size(); ++i) {
        const FileEntry& entry = layer.section->entries[i];
        made.verbs.push_back(entry.verb);
        made.errors.push_back(entry.error != 0 ? entry.error : EACCES);
        made.verdicts.push_back(layer.entries[i]);
        for (const FileIdentity& identity : entry.objects)
          objects_.push_back({identity, entry.verb == FileVerb::kReadOnly, made.errors.back(), layer.entries[i]});
        for (const FilePattern& pattern : entry.patterns)
          made.patterns.push_back({pattern.text, pattern.wild, depth_of(pattern.text), i});
      }
    }
    for (const std::string& line : *find_path_group("@devices")) devices_.push_back(line);
  }

  FileDecision decide(std::string_view path, FileAccess wanted) const override {
    FileDecision strictest;
    strictest.effect = FileEffect::kAllow;
    for (const Layer& layer : layers_) {
      const FileDecision decision = decide_in(layer, path, wanted);
      if (decision.effect > strictest.effect) strictest = decision;
    }
    if (options_.audit) {
      if (strictest.effect == FileEffect::kDeny) strictest.effect = FileEffect::kLog;
      strictest.kernel_grants = true;
    } else if (wanted == FileAccess::kExecute && strictest.effect != FileEffect::kDeny) {
      // Executing has no on-behalf form: what restricts it, Landlock enforces (file_lowering.h).
      strictest.kernel_grants = true;
    } else if (strictest.effect == FileEffect::kAllow && options_.kernel != nullptr) {
      strictest.kernel_grants = options_.kernel->grants_all(path, wanted);
    }
    return strictest;
  }

  std::optional<FileDecision> decide_object(const FileIdentity& object, FileAccess wanted) const override {
    if (options_.audit || wanted == FileAccess::kMetadata) return std::nullopt;
    for (const Protected& one : objects_)
      if (one.identity == object && (!one.read_only || has(wanted, kChanges))) return denial(one.error, one.verdict);
    return std::nullopt;
  }
  bool has_objects() const override { return !objects_.empty(); }

  std::optional<FileDecision> decide_alias(std::string_view name, FileAccess wanted) const override {
    if (options_.audit || wanted == FileAccess::kMetadata) return std::nullopt;
    for (const Layer& layer : layers_) {
      const FileDecision decision = decide_in(layer, name, wanted);
      if (decision.effect != FileEffect::kDeny) continue;
      // An entry that takes away, not the absence of one that grants: a link may well stand where nothing else is
      // granted.
      if (std::find(layer.unmatched.begin(), layer.unmatched.end(), decision.verdict) == layer.unmatched.end())
        return decision;
    }
    return std::nullopt;
  }

  std::optional<FileDecision> decide_move(std::string_view from, std::string_view to, bool exchange,
                                          bool directory) const override {
    if (options_.audit) return std::nullopt;
    for (const Layer& layer : layers_) {
      // A rule that takes away and can match at or below one of the names would be moved away from its object.
      for (const Compiled& compiled : layer.patterns) {
        const FileVerb verb = layer.verbs[compiled.entry];
        if (!takes_away(verb) && verb != FileVerb::kLog) continue;
        if (!directory || travels(compiled, from, to)) continue;
        if (can_match_below(compiled, from) || can_match_below(compiled, to))
          return denial(EXDEV, layer.verdicts[compiled.entry]);
      }
      for (const FileAccess verb : {FileAccess::kRead, FileAccess::kWrite, FileAccess::kExecute}) {
        const FileDecision old_name = decide_in(layer, from, verb);
        const FileDecision new_name = decide_in(layer, to, verb);
        if (old_name.effect == FileEffect::kDeny && new_name.effect != FileEffect::kDeny)
          return denial(EXDEV, old_name.verdict);
        if (exchange && new_name.effect == FileEffect::kDeny && old_name.effect != FileEffect::kDeny)
          return denial(EXDEV, new_name.verdict);
      }
    }
    return std::nullopt;
  }

 private:
  struct Layer {
    std::vector<Compiled> patterns;
    std::vector<FileVerb> verbs;
    std::vector<int32_t> errors;
    std::vector<bpf::VerdictId> verdicts;
    std::array<bool, kFileVerbs> present{};
    std::array<bool, kFileVerbs> empty{};
    std::array<bpf::VerdictId, 3> unmatched{};
    bool open_ended = false;
  };

  static FileDecision denial(int32_t error, bpf::VerdictId verdict) {
    FileDecision decision;
    decision.effect = FileEffect::kDeny;
    decision.error = error;
    decision.verdict = verdict;
    return decision;
  }

  static int depth(const Compiled& compiled, std::string_view path) {
    if (compiled.wild) return match_depth(compiled.pattern, path);
    const std::string& pattern = compiled.pattern;
    if (pattern.size() == 1) return 0;
    if (!path.starts_with(pattern) || (path.size() > pattern.size() && path[pattern.size()] != '/')) return -1;
    return compiled.depth;
  }

  // "DIR/**/NAME" means NAME wherever it is below DIR: moving within DIR lifts nothing.
  static bool travels(const Compiled& compiled, std::string_view from, std::string_view to) {
    const size_t wild = compiled.pattern.find_first_of("*?[");
    if (wild == std::string::npos || !compiled.pattern.substr(wild).starts_with("**/")) return false;
    const std::string_view literal = std::string_view(compiled.pattern).substr(0, wild);
    return from.starts_with(literal) && to.starts_with(literal);
  }

  static bool can_match_below(const Compiled& compiled, std::string_view path) {
    if (depth(compiled, path) >= 0) return false;  // it covers the name itself: decide() has spoken about that
    const size_t wild = compiled.wild ? compiled.pattern.find_first_of("*?[") : std::string::npos;
    const std::string_view literal =
        std::string_view(compiled.pattern)
            .substr(0, wild == std::string::npos ? compiled.pattern.size() : compiled.pattern.rfind('/', wild));
    const std::string below = path == "/" ? "/" : std::string(path) + "/";
    if (literal.starts_with(below)) return true;
    // A wildcard above or at the name can reach anything below it.
    return compiled.wild && (literal.empty() || path == literal || path.starts_with(std::string(literal) + "/"));
  }

  FileDecision decide_in(const Layer& layer, std::string_view path, FileAccess wanted) const {
    FileDecision strictest;
    strictest.effect = FileEffect::kAllow;
    const auto stricter = [&strictest](const FileDecision& decision) {
      if (decision.effect > strictest.effect) strictest = decision;
    };
    if (has(wanted, FileAccess::kRead)) stricter(verb_decision(layer, path, kRead));
    if (has(wanted, kChanges)) stricter(verb_decision(layer, path, kWrite));
    if (has(wanted, FileAccess::kExecute))
      stricter(verb_decision(layer, path, layer.present[kExecute] ? kExecute : kRead));
    if (has(wanted, FileAccess::kMetadata)) {
      const FileDecision decision = verb_decision(layer, path, kRead);
      if (decision.effect == FileEffect::kLog) stricter(decision);
    }
    return strictest;
  }

  // `verb`: read, write or execute.
  FileDecision verb_decision(const Layer& layer, std::string_view path, size_t verb) const {
    int best = -1;
    int best_rank = -1;
    const Compiled* winner = nullptr;
    for (const Compiled& compiled : layer.patterns) {
      const FileVerb entry = layer.verbs[compiled.entry];
      int rank = -1;
      switch (entry) {
        case FileVerb::kDeny:
          rank = 4;
          break;
        case FileVerb::kAsk:
          rank = 3;
          break;
        case FileVerb::kReadOnly:
          rank = verb == kWrite ? 2 : -1;
          break;
        case FileVerb::kLog:
          rank = 1;
          break;
        case FileVerb::kRead:
          rank = verb == kRead ? 0 : -1;
          break;
        case FileVerb::kWrite:
          rank = verb == kExecute ? -1 : 0;
          break;
        case FileVerb::kExecute:
          rank = verb == kExecute ? 0 : -1;
          break;
      }
      if (rank < 0) continue;
      const int at = depth(compiled, path);
      if (at < 0 || at < best || (at == best && rank <= best_rank)) continue;
      best = at;
      best_rank = rank;
      winner = &compiled;
    }
    FileDecision decision;
    decision.effect = FileEffect::kAllow;
    if (winner != nullptr) {
      const size_t entry = winner->entry;
      switch (layer.verbs[entry]) {
        case FileVerb::kDeny:
          return denial(layer.errors[entry], layer.verdicts[entry]);
        case FileVerb::kAsk:
        case FileVerb::kReadOnly:
          return denial(EACCES, layer.verdicts[entry]);
        case FileVerb::kLog:
          decision.effect = FileEffect::kLog;
          decision.verdict = layer.verdicts[entry];
          return decision;
        case FileVerb::kRead:
        case FileVerb::kWrite:
        case FileVerb::kExecute:
          return decision;
      }
    }
    if (layer.open_ended || (verb == kRead && !layer.present[kRead])) return decision;
    // A list that is written and empty means nothing at all, devices included.
    if (verb != kExecute && !(layer.present[verb] && layer.empty[verb]))
      for (const std::string& device : devices_)
        if (path.starts_with(device) && (path.size() == device.size() || path[device.size()] == '/')) return decision;
    return denial(EACCES, layer.unmatched[verb]);
  }

  struct Protected {
    FileIdentity identity;
    bool read_only = false;
    int32_t error = 0;
    bpf::VerdictId verdict{};
  };

  FileMatcherOptions options_;
  std::vector<Protected> objects_;
  std::vector<Layer> layers_;
  std::vector<std::string> devices_;
};

}  // namespace

bool is_raw_device(const struct stat& status) {
  constexpr unsigned kMemory = 1, kMem = 1, kKmem = 2, kPort = 4;  // Documentation/admin-guide/devices.txt
  if (S_ISBLK(status.st_mode)) return true;
  if (!S_ISCHR(status.st_mode) || major(status.st_rdev) != kMemory) return false;
  const unsigned number = minor(status.st_rdev);
  return number == kMem || number == kKmem || number == kPort;
}

std::vector<FileLayer> file_layers(const PolicyStack& stack) {
  std::vector<FileLayer> layers;
  for (const StackLayer& layer : stack.layers) {
    if (layer.policy == nullptr || !layer.policy->files) continue;
    FileLayer& made = layers.emplace_back();
    made.section = &*layer.policy->files;
    made.entries.resize(made.section->entries.size());
  }
  return layers;
}

int match_depth(std::string_view pattern, std::string_view path) {
  if (pattern == "/") return 0;
  return deepest(pattern, path == "/" ? std::string_view() : path, 0);
}

std::shared_ptr<const FileMatcher> make_file_matcher(const std::vector<FileLayer>& layers,
                                                     const FileMatcherOptions& options) {
  return std::make_shared<StackMatcher>(layers, options);
}

}  // namespace srun::policy
