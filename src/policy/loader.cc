#include "policy/loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "policy/guard.h"
#include "policy/network_lowering.h"
#include "policy/network_rules.h"
#include "policy/parser.h"
#include "policy/sibling_warnings.h"

namespace srun::policy {

namespace {

constexpr std::string_view kCommandLine = "(command line)";
constexpr size_t kMaxExtends = 256;

using FileId = std::pair<uint64_t, uint64_t>;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// `base` is what `own` extends: own parts come first or win.
void merge(Policy& own, Policy base) {
  if (own.description.empty()) own.description = std::move(base.description);
  if (!own.default_action) own.default_action = std::move(base.default_action);
  if (!own.has_syscalls && base.has_syscalls) {
    own.has_syscalls = true;
    own.syscalls_place = std::move(base.syscalls_place);
  }
  std::move(base.rules.begin(), base.rules.end(), std::back_inserter(own.rules));
  std::move(base.unsafe.begin(), base.unsafe.end(), std::back_inserter(own.unsafe));
  std::move(base.warnings.begin(), base.warnings.end(), std::back_inserter(own.warnings));
  std::move(base.notes.begin(), base.notes.end(), std::back_inserter(own.notes));
  std::move(base.sources.begin(), base.sources.end(), std::back_inserter(own.sources));
  if (base.files) {
    if (!own.files) own.files.emplace();
    merge_files(*own.files, std::move(*base.files));
  }
  if (base.network) {
    if (own.network)
      merge_network(*own.network, std::move(*base.network));
    else
      own.network = std::move(base.network);
  }
  if (!base.environment) return;
  if (!own.environment) own.environment.emplace();
  EnvironmentRules& mine = *own.environment;
  EnvironmentRules& theirs = *base.environment;
  std::move(theirs.keep.begin(), theirs.keep.end(), std::back_inserter(mine.keep));
  std::move(theirs.drop.begin(), theirs.drop.end(), std::back_inserter(mine.drop));
  for (auto& [name, value] : theirs.set) {
    const bool set_here =
        std::any_of(mine.set.begin(), mine.set.end(), [&key = name](const auto& row) { return row.first == key; });
    if (!set_here) mine.set.emplace_back(std::move(name), std::move(value));
  }
}

// One --policy with everything that it extends.
class Composer {
 public:
  Composer(const LoadOptions& options, const PolicyDirectories& directories)
      : options_(options), directories_(directories) {}

  Result<StackLayer, PolicyError> load(const std::string& argument) {
    const bool by_name = is_policy_name(argument);
    auto text = by_name ? read_policy_by_name(argument, directories_) : read_policy_file(argument);
    if (!text) return failure(std::move(text.error()));
    auto document = parse(*text, argument);
    if (!document) return failure(std::move(document.error()));
    StackLayer layer;
    layer.info.name = argument;
    if (is_oci_document(document->root())) {
      auto profile = parse_oci(document->root(), options_.oci);
      if (!profile) return failure(std::move(profile.error()));
      layer.info.oci = true;
      layer.info.description = profile->description;
      layer.oci = std::make_shared<const OciProfile>(std::move(*profile));
      return layer;
    }
    auto policy = compose(*document, *text);
    if (!policy) return failure(std::move(policy.error()));
    policy->name = argument;
    policy->installed = by_name;
    layer.info.description = policy->description;
    const std::vector<std::string> warnings = sibling_warnings(*policy);
    policy->warnings.insert(policy->warnings.end(), warnings.begin(), warnings.end());
    layer.policy = std::make_shared<const Policy>(std::move(*policy));
    return layer;
  }

 private:
  static Result<Document, PolicyError> parse(const PolicyText& text, const std::string& shown) {
    auto document = Document::parse(text.text, shown);
    if (document) return document;
    if (std::optional<PolicyError> yaml = yaml_error(text.text, shown)) return failure(std::move(*yaml));
    return document;
  }

  Result<Policy, PolicyError> compose(const Document& document, const PolicyText& text) {
    auto parsed = parse_policy(document.root());
    if (!parsed) return failure(std::move(parsed.error()));
    Policy policy = std::move(parsed->policy);
    if (policy.files) {
      const FileContext context = options_.files ? *options_.files : FileContext::of_this_process();
      std::string directory = directory_of(text.path);
      char resolved[PATH_MAX];
      directory = realpath(directory.empty() ? "." : directory.c_str(), resolved) != nullptr ? resolved : "";
      if (auto expanded = resolve_files(*policy.files, context, directory, policy.notes); !expanded)
        return failure(std::move(expanded.error()));
    }
    char source[PATH_MAX];
    if (realpath(text.path.c_str(), source) != nullptr) policy.sources.emplace_back(source);
    const FileId id(text.device, text.inode);
    seen_.insert(id);
    active_.insert(id);
    for (const ParsedPolicy::Extends& extends : parsed->extends) {
      auto base = extended(extends, text.path);
      if (!base) return failure(std::move(base.error()));
      if (*base) merge(policy, std::move(**base));
    }
    active_.erase(id);
    return policy;
  }

  // nullopt: the file is part of this layer already, by another way.
  Result<std::optional<Policy>, PolicyError> extended(const ParsedPolicy::Extends& extends, const std::string& from) {
    const auto refuse = [&extends](std::string message, std::string suggestion = {}) {
      return failure(PolicyError{extends.place.file, extends.place.line, extends.place.pointer, std::move(message),
                                 std::move(suggestion)});
    };
    const bool by_name = is_policy_name(extends.name);
    const std::string path = extends.name.starts_with('/') ? extends.name : directory_of(from) + extends.name;
    auto text = by_name ? read_policy_by_name(extends.name, directories_) : read_policy_file(path);
    if (!text) {
      const PolicyError& cause = text.error();
      return refuse("cannot extend: " + cause.file + (cause.file.empty() ? "" : " ") + cause.message, cause.suggestion);
    }
    const FileId id(text->device, text->inode);
    if (active_.count(id) != 0) return refuse("\"" + extends.name + "\" extends itself in a circle");
    if (seen_.count(id) != 0) return std::optional<Policy>();
    if (seen_.size() >= kMaxExtends) return refuse("more than " + std::to_string(kMaxExtends) + " files in one policy");
    auto document = parse(*text, by_name ? extends.name : path);
    if (!document) return failure(std::move(document.error()));
    if (is_oci_document(document->root())) {
      return refuse(
          "an OCI profile cannot be extended, its rules mean something else; give it as a layer of its own: --policy " +
          extends.name);
    }
    auto policy = compose(*document, *text);
    if (!policy) return failure(std::move(policy.error()));
    return std::optional<Policy>(std::move(*policy));
  }

  const LoadOptions& options_;
  const PolicyDirectories& directories_;
  std::set<FileId> seen_;
  std::set<FileId> active_;
};

bool grants(FileVerb verb) { return verb == FileVerb::kRead || verb == FileVerb::kWrite; }

// The file flags of one kind, resolved; `notes` gets what does not exist.
Result<FilesSection, PolicyError> file_flags(const QuickFlags& quick, bool granting, const LoadOptions& options,
                                             std::vector<std::string>& notes) {
  const FileContext context = options.files ? *options.files : FileContext::of_this_process();
  FilesSection section;
  for (const QuickFlags::File& flag : quick.files) {
    if (grants(flag.verb) != granting) continue;
    section.entries.push_back(file_flag(flag.verb, flag.path, context));
    const auto verb = static_cast<size_t>(flag.verb);
    section.present[verb] = true;
    section.list_file[verb] = kCommandLine;
  }
  if (auto resolved = resolve_files(section, context, context.directory, notes); !resolved)
    return failure(std::move(resolved.error()));
  return section;
}

Result<void, PolicyError> add_granting_flags(Policy& policy, const QuickFlags& quick, const LoadOptions& options) {
  auto section = file_flags(quick, true, options, policy.notes);
  if (!section) return failure(std::move(section.error()));
  if (section->entries.empty()) return {};
  if (policy.files) {
    // A flag that grants must not take away: where no list restricts reading, --read adds nothing.
    const auto read = static_cast<size_t>(FileVerb::kRead);
    if (!policy.files->present[read]) section->present[read] = false;
    merge_files(*section, std::move(*policy.files));
  }
  policy.files = std::move(*section);
  return {};
}

void add_quick_flags(Policy& policy, const QuickFlags& quick) {
  if (quick.network.any()) {
    const bool existed = policy.network.has_value();
    if (!existed) policy.network.emplace();
    apply_network_flags(*policy.network, existed, quick.network);
  }
  if (quick.env.empty()) return;
  if (!policy.environment) policy.environment.emplace();
  EnvironmentRules flags;
  for (const std::string& flag : quick.env) add_environment_flag(flag, flags);
  EnvironmentRules& rules = *policy.environment;
  rules.keep.insert(rules.keep.end(), flags.keep.begin(), flags.keep.end());
  rules.set.insert(rules.set.end(), flags.set.begin(), flags.set.end());  // applied in order: the last one stays
}

Policy open_ended_policy() {
  Policy policy;
  policy.name = kCommandLine;
  policy.description = "quick flags";
  policy.syscalls_place = {std::string(kCommandLine), 0, "#"};
  policy.has_syscalls = true;
  policy.open_ended = true;
  return policy;
}

void push_layer(PolicyStack& stack, Policy policy) {
  StackLayer layer;
  layer.info = {policy.name, policy.description, false};
  layer.policy = std::make_shared<const Policy>(std::move(policy));
  stack.layers.push_back(std::move(layer));
}

Result<void, PolicyError> apply_quick_flags(PolicyStack& stack, const QuickFlags& quick, bool last_is_own,
                                            const LoadOptions& options) {
  if (!quick.any()) return {};
  Policy policy = last_is_own ? *stack.layers.back().policy : open_ended_policy();
  add_quick_flags(policy, quick);
  if (auto added = add_granting_flags(policy, quick, options); !added) return added;
  if (last_is_own)
    stack.layers.back().policy = std::make_shared<const Policy>(std::move(policy));
  else
    push_layer(stack, std::move(policy));

  Policy taking = open_ended_policy();
  auto section = file_flags(quick, false, options, taking.notes);
  if (!section) return failure(std::move(section.error()));
  if (section->entries.empty()) return {};
  section->open_ended = true;
  taking.files = std::move(*section);
  push_layer(stack, std::move(taking));
  return {};
}

// What the composed section says about system calls becomes rules of its layer; names and name servers are looked up.
void finish_network(PolicyStack& stack) {
  for (StackLayer& layer : stack.layers) {
    if (layer.policy == nullptr || !layer.policy->network) continue;
    Policy policy = *layer.policy;
    resolve_names(*policy.network, policy.notes);
    if (policy.network->dns) {
      std::ifstream file("/etc/resolv.conf", std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      for (NetworkEntry& server : name_servers(text)) policy.network->connect.push_back(std::move(server));
    }
    std::vector<Rule> rules = network_layer_rules(*policy.network);
    policy.rules.insert(policy.rules.begin(), std::make_move_iterator(rules.begin()),
                        std::make_move_iterator(rules.end()));
    layer.policy = std::make_shared<const Policy>(std::move(policy));
  }
}

}  // namespace

void protect_files(PolicyStack& stack, const std::vector<std::string>& outputs) {
  std::vector<std::string> paths = outputs;
  bool restricted = false;
  for (const StackLayer& layer : stack.layers) {
    if (layer.policy == nullptr) continue;
    restricted = restricted || layer.policy->files.has_value();
    paths.insert(paths.end(), layer.policy->sources.begin(), layer.policy->sources.end());
  }
  if (!restricted || paths.empty()) return;
  Policy policy = open_ended_policy();
  policy.name = "(guard layer)";
  policy.description = "policies and outputs of this run are not the program's to change";
  policy.installed = true;  // no change to a file lifts it
  policy.files.emplace();
  policy.files->open_ended = true;
  for (const std::string& path : paths) {
    FileEntry entry;
    entry.verb = FileVerb::kReadOnly;
    entry.text = path;
    entry.file = policy.name;
    entry.pointer = "outputs";
    entry.reason = "policies and outputs of this run are not the program's to change";
    char resolved[PATH_MAX];
    // As it is, whatever is in its name.
    if (realpath(path.c_str(), resolved) == nullptr) continue;
    entry.patterns.push_back({resolved, false});
    struct stat status {};
    if (stat(resolved, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    entry.objects.push_back({status.st_dev, status.st_ino});
    policy.files->entries.push_back(std::move(entry));
  }
  push_layer(stack, std::move(policy));
}

Result<PolicyStack, PolicyError> load_stack(std::span<const std::string> policy_args, const QuickFlags& quick,
                                            const LoadOptions& options) {
  if (policy_args.empty()) {
    return failure(PolicyError{{}, 0, {}, "no policy; --policy baseline filters system calls only", {}});
  }
  const PolicyDirectories directories =
      options.directories ? *options.directories : PolicyDirectories::of_this_process();
  PolicyStack stack;
  for (const std::string& argument : policy_args) {
    stack.display_name += (stack.display_name.empty() ? "" : ",") + argument;
    if (argument == "none") continue;
    auto layer = Composer(options, directories).load(argument);
    if (!layer) return failure(std::move(layer.error()));
    if (layer->oci != nullptr) {
      stack.notes.insert(stack.notes.end(), layer->oci->notes.begin(), layer->oci->notes.end());
      stack.warnings.insert(stack.warnings.end(), layer->oci->warnings.begin(), layer->oci->warnings.end());
    } else {
      const std::vector<std::string>& warnings = layer->policy->warnings;
      stack.warnings.insert(stack.warnings.end(), warnings.begin(), warnings.end());
    }
    stack.layers.push_back(std::move(*layer));
  }
  const bool last_is_own = policy_args.back() != "none" && stack.layers.back().policy != nullptr;
  if (auto applied = apply_quick_flags(stack, quick, last_is_own, options); !applied)
    return failure(std::move(applied.error()));
  finish_network(stack);
  return stack;
}

}  // namespace srun::policy
