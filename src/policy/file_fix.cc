#include "policy/file_fix.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "policy/file_matcher.h"
#include "policy/file_rules.h"

namespace srun::policy {
namespace {

bool allows(const PolicyStack& stack, std::string_view path, FileAccess access) {
  return make_file_matcher(file_layers(stack), {})->decide(path, access).effect != FileEffect::kDeny;
}

PolicyStack with(const PolicyStack& stack, size_t index, FilesSection files) {
  PolicyStack changed = stack;
  Policy policy = *stack.layers[index].policy;
  policy.files = std::move(files);
  changed.layers[index].policy = std::make_shared<const Policy>(std::move(policy));
  return changed;
}

// The layer that flags extend: the last one that is ours and no flags' own.
std::optional<size_t> extended_layer(const PolicyStack& stack) {
  for (size_t i = stack.layers.size(); i-- > 0;) {
    const Policy* const policy = stack.layers[i].policy.get();
    if (policy != nullptr && policy->files && policy->files->open_ended) continue;  // of --deny
    return policy != nullptr ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> granting(const PolicyStack& stack, size_t index, FileVerb verb, std::string_view path,
                                    FileAccess access) {
  const Policy& policy = *stack.layers[index].policy;
  FilesSection files = *policy.files;
  FileEntry entry;
  entry.verb = verb;
  entry.patterns.push_back({std::string(path), false});
  files.entries.insert(files.entries.begin(), std::move(entry));
  files.present[static_cast<size_t>(verb)] = true;
  if (!allows(with(stack, index, std::move(files)), path, access)) return std::nullopt;
  const std::string name(verb_name(verb));
  const bool flag = verb != FileVerb::kExecute && extended_layer(stack) == index;
  // What a shell would take apart, or a policy would read as a pattern, is not offered as text to copy.
  const bool plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f &&
           std::string_view("\"'`$&|;<>(){}[]*?!\\#~").find(static_cast<char>(c)) == std::string_view::npos;
  });
  if (!plain) return std::nullopt;
  if (flag) return "--" + name + " " + std::string(path);
  if (policy.installed) return std::nullopt;
  return "\"" + std::string(path) + "\" in files." + name + " of " + policy.name;
}

}  // namespace

std::optional<std::string> suggested_file_fix(const PolicyStack& stack, const Verdict& verdict, std::string_view path,
                                              FileAccess access) {
  if (verdict.rule.layer == 0 || verdict.rule.layer > stack.layers.size()) return std::nullopt;
  const size_t index = verdict.rule.layer - 1U;
  const Policy* const policy = stack.layers[index].policy.get();
  // Denied for the object, not for its name: no change about names helps.
  if (policy == nullptr || !policy->files || allows(stack, path, access)) return std::nullopt;
  constexpr FileAccess kChanges =
      FileAccess::kWrite | FileAccess::kCreate | FileAccess::kRemove | FileAccess::kAttributes;
  const FileVerb verb =
      has(access, kChanges) ? FileVerb::kWrite
      : has(access, FileAccess::kExecute) && policy->files->present[static_cast<size_t>(FileVerb::kExecute)]
          ? FileVerb::kExecute
          : FileVerb::kRead;
  const auto by = std::find_if(
      policy->files->entries.begin(), policy->files->entries.end(),
      [&](const FileEntry& entry) { return entry.pointer == verdict.rule.pointer && entry.file == verdict.rule.file; });
  if (by == policy->files->entries.end()) {
    const auto fix = granting(stack, index, verb, path, access);
    return fix ? std::optional("to allow: " + *fix) : std::nullopt;
  }
  if (by->verb == FileVerb::kAsk) return std::nullopt;
  // Somebody wrote down that this must not be.
  FilesSection without = *policy->files;
  std::erase_if(without.entries,
                [&](const FileEntry& entry) { return entry.pointer == by->pointer && entry.file == by->file; });
  const bool command_line = by->file == "(command line)";
  if ((command_line || (!policy->installed && by->file == policy->name)) &&
      allows(with(stack, index, std::move(without)), path, access))
    return "deliberate: " + (command_line ? "leave out " + by->pointer : std::string("remove that entry")) +
           " to allow";
  const auto fix = granting(stack, index, verb, path, access);
  return fix ? "deliberate: " + *fix + " to allow" : std::string("deliberate");
}

}  // namespace srun::policy
