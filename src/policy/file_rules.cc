#include "policy/file_rules.h"

#include <dirent.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "kernel/arch.h"
#include "kernel/constants.h"
#include "policy/catalog.h"
#include "policy/file_matcher.h"
#include "policy/mount_aliases.h"

namespace srun::policy {
namespace {

constexpr std::array<std::string_view, kFileVerbs> kVerbNames = {"read", "write", "execute", "read-only",
                                                                 "deny", "log",   "ask"};
constexpr std::array<std::string_view, 1> kLaterVerbs = {"redirect"};
constexpr size_t kMaxPatterns = 4096;
constexpr size_t kMaxScanned = 20000;   // directory entries looked at below one denied path
constexpr size_t kMaxExpanded = 50000;  // and for one pattern that is expanded at load

// One table, printed by `sandbox-policy show`. A group stands for its lines; "@path-homes" for the directories of PATH
// below the home directory.
const std::map<std::string, std::vector<std::string>, std::less<>>& groups() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> table = {
      {"@system",
       {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc", "/proc", "/sys",
        "/run/systemd/resolve", "/run/resolvconf", "/var/lib/dpkg", "/var/cache/fontconfig"}},
      {"@devices",
       {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
        "/dev/shm"}},
      {"@toolchains",
       {"@path-homes", "~/.rustup", "~/.cargo/bin", "~/.nvm", "~/.pyenv", "~/.rbenv", "~/.sdkman", "~/.local/lib",
        "~/go"}},
      {"@secrets",
       {"~/.ssh",
        "~/.gnupg",
        "~/.aws",
        "~/.azure",
        "~/.config/gcloud",
        "~/.kube",
        "~/.docker/config.json",
        "~/.netrc",
        "~/.git-credentials",
        "~/.config/git/credentials",
        "~/.npmrc",
        "~/.yarnrc.yml",
        "~/.pypirc",
        "~/.cargo/credentials",
        "~/.cargo/credentials.toml",
        "~/.config/gh",
        "~/.config/hub",
        "~/.terraform.d",
        "~/.vault-token",
        "~/.password-store",
        "~/.mozilla",
        "~/.config/google-chrome",
        "~/.config/chromium",
        "~/.local/share/keyrings",
        "~/.bash_history",
        "~/.zsh_history",
        "~/.local/share/fish/fish_history",
        "~/.python_history",
        "~/.node_repl_history",
        "~/.psql_history",
        "~/.mysql_history",
        "${CWD}/**/.env"}},
      {"@project-hooks",
       {"${CWD}/.git/hooks", "${CWD}/.git/config", "${CWD}/.husky", "${CWD}/.github", "${CWD}/.gitlab-ci.yml",
        "${CWD}/.vscode", "${CWD}/.idea"}},
  };
  return table;
}

PolicyError entry_error(const FileEntry& entry, std::string message, std::string suggestion = {}) {
  return PolicyError{entry.file, entry.line, entry.pointer, std::move(message), std::move(suggestion)};
}

bool is_wildcard(char c) { return c == '*' || c == '?' || c == '['; }
bool is_wild(std::string_view text) { return std::any_of(text.begin(), text.end(), is_wildcard); }

// Whether something at or below `path` can be executed. What can't be looked at, or is more than `budget` entries,
// counts as a program: the stricter answer.
bool holds_program(const std::string& path, size_t& budget) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return errno != ENOENT;
  if (S_ISREG(status.st_mode)) return (status.st_mode & 0111) != 0;
  if (!S_ISDIR(status.st_mode)) return false;
  const std::unique_ptr<DIR, decltype([](DIR* directory) { closedir(directory); })> directory(opendir(path.c_str()));
  if (!directory) return true;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (budget == 0 || holds_program(path + "/" + entry->d_name, --budget)) return true;
  }
  return false;
}

// What exists below `directory` and matches `pattern` itself, not through an ancestor. False: more than `budget`
// entries, or a directory that can't be read: the caller can't know what it holds.
bool find_matches(const std::string& directory, const std::string& pattern, size_t& budget,
                  std::vector<std::string>& out) {
  const std::unique_ptr<DIR, decltype([](DIR* opened) { closedir(opened); })> opened(opendir(directory.c_str()));
  if (!opened) return errno == ENOENT || errno == ENOTDIR;
  while (const dirent* const entry = readdir(opened.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (budget-- == 0) return false;
    const std::string path = (directory == "/" ? "/" : directory + "/") + entry->d_name;
    if (match_depth(pattern, path) >= 0) {
      out.push_back(path);  // and with it everything below
      continue;
    }
    struct stat status {};
    const bool is_directory = entry->d_type == DT_DIR || (entry->d_type == DT_UNKNOWN &&
                                                          lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode));
    if (is_directory && !find_matches(path, pattern, budget, out)) return false;
  }
  return true;
}

// "{a,b}" → both; nested braces from the outside in. False: a brace without its partner.
bool expand_braces(const std::string& text, std::vector<std::string>& out) {
  const size_t open = text.find('{');
  if (open == std::string::npos) {
    if (text.find('}') != std::string::npos) return false;
    out.push_back(text);
    return out.size() <= kMaxPatterns;
  }
  int depth = 0;
  size_t from = open + 1;
  std::vector<std::string> choices;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{')
      ++depth;
    else if (text[i] == ',' && depth == 1) {
      choices.push_back(text.substr(from, i - from));
      from = i + 1;
    } else if (text[i] == '}' && --depth == 0) {
      choices.push_back(text.substr(from, i - from));
      for (const std::string& choice : choices)
        if (!expand_braces(text.substr(0, open) + choice + text.substr(i + 1), out)) return false;
      return true;
    }
  }
  return false;
}

// Without ".", "..", "//" and a trailing "/"; ".." goes up in the text, since policies name places, not walks.
std::string normalised(std::string_view path) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

// The same place without symbolic links, as far as it exists and is written out.
std::string canonical(const std::string& pattern, bool& exists) {
  const size_t wild = pattern.find_first_of("*?[");
  size_t end = wild == std::string::npos ? pattern.size() : pattern.rfind('/', wild);
  std::string rest = pattern.substr(end);
  exists = true;
  while (end > 0) {
    const std::string head = pattern.substr(0, end);
    char resolved[PATH_MAX];
    if (realpath(head.c_str(), resolved) != nullptr)
      return std::string(resolved) == "/" ? (rest.empty() ? "/" : rest) : resolved + rest;
    exists = false;
    end = pattern.rfind('/', end - 1);
    rest = pattern.substr(end);
  }
  return pattern;
}

struct Expander {
  const FileContext& context;
  const std::string& policy_directory;

  Result<std::string, PolicyError> path(const FileEntry& entry, std::string_view text) const {
    std::string out(text);
    if (out == "~" || out.starts_with("~/")) out = "${HOME}" + out.substr(1);
    for (size_t at = out.find("${"); at != std::string::npos; at = out.find("${", at)) {
      const size_t end = out.find('}', at);
      if (end == std::string::npos) return failure(entry_error(entry, "\"" + entry.text + "\": \"${\" without \"}\""));
      const std::string name = out.substr(at + 2, end - at - 2);
      const std::pair<std::string_view, const std::string&> known[] = {
          {"CWD", context.directory}, {"HOME", context.home},           {"TMPDIR", context.temporary},
          {"USER", context.user},     {"POLICY_DIR", policy_directory}, {"RUNNER_TEMP", context.runner_temp}};
      const std::string* value = nullptr;
      for (const auto& [variable, text_of] : known)
        if (variable == name) value = &text_of;
      if (value == nullptr)
        return failure(
            entry_error(entry, "unknown variable ${" + name +
                                   "}; known are ${CWD} ${HOME} ${TMPDIR} ${USER} ${POLICY_DIR} ${RUNNER_TEMP}"));
      if (value->empty()) return failure(entry_error(entry, "${" + name + "} is not set or empty"));
      // What a variable holds is a name, never a pattern.
      if (is_wild(*value) || value->find_first_of("{}") != std::string::npos)
        return failure(entry_error(entry, "${" + name + "} holds " + *value + ", which would be read as a pattern"));
      out.replace(at, end - at + 1, *value);
      at += value->size();
    }
    if (!out.starts_with('/'))
      return failure(entry_error(entry, "\"" + entry.text + "\" is a relative path; write ${CWD}/" + entry.text +
                                            " or ${POLICY_DIR}/" + entry.text));
    return out;
  }
};

Result<int32_t, PolicyError> parse_errno(const Node& node) {
  if (node.is_string()) {
    const auto value = kernel::find_constant(node.string(), kernel::kNativeArch);
    if (node.string().starts_with('E') && value && *value > 0 && *value <= 4095) return static_cast<int32_t>(*value);
  }
  return failure(node.error("expected the name of an errno, as \"ENOENT\""));
}

}  // namespace

FileContext FileContext::of_this_process() {
  FileContext context;
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  char buffer[PATH_MAX];
  if (getcwd(buffer, sizeof buffer) != nullptr && buffer[0] == '/') context.directory = buffer;
  context.home = variable("HOME");
  context.user = variable("USER");
  if (context.home.empty() || context.user.empty()) {
    if (const passwd* const entry = getpwuid(getuid())) {
      if (context.home.empty()) context.home = entry->pw_dir;
      if (context.user.empty()) context.user = entry->pw_name;
    }
  }
  context.temporary = variable("TMPDIR");
  if (context.temporary.empty()) context.temporary = "/tmp";
  context.runner_temp = variable("RUNNER_TEMP");
  const std::string path = variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (end > at && path[at] == '/') context.search_path.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return context;
}

const std::vector<std::string>* find_path_group(std::string_view name) {
  const auto found = groups().find(name);
  return found == groups().end() ? nullptr : &found->second;
}

std::string_view verb_name(FileVerb verb) { return kVerbNames[static_cast<size_t>(verb)]; }

FileEntry file_flag(FileVerb verb, std::string_view path, const FileContext& context) {
  FileEntry entry;
  entry.verb = verb;
  entry.text = path;
  if (path.empty() || std::string_view("/~$@").find(path.front()) == std::string_view::npos)
    entry.text = context.directory + "/" + std::string(path);
  entry.file = "(command line)";
  entry.pointer = "--" + std::string(verb_name(verb)) + " " + std::string(path);
  return entry;
}

std::vector<std::string_view> path_group_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, lines] : groups()) names.push_back(name);
  return names;
}

Result<FilesSection, PolicyError> parse_files(const Node& node) {
  if (!node.is_object())
    return failure(node.error("expected an object with read, write, execute, read-only, deny, log, ask"));
  FilesSection files;
  for (size_t i = 0; i < node.size(); ++i) {
    const Node& list = node[i];
    size_t verb = 0;
    while (verb < kFileVerbs && kVerbNames[verb] != list.key()) ++verb;
    if (verb == kFileVerbs) {
      for (const std::string_view later : kLaterVerbs)
        if (later == list.key())
          return failure(list.error("\"" + list.key() + "\" is not enforced by this version yet"));
      return failure(
          list.error("unknown key \"" + list.key() + "\"; known are read, write, execute, read-only, deny, log, ask"));
    }
    if (!list.is_array()) return failure(list.error("expected a list of paths"));
    files.present[verb] = true;
    files.list_file[verb] = list.file();
    files.list_line[verb] = list.line();
    for (size_t k = 0; k < list.size(); ++k) {
      const Node& item = list[k];
      FileEntry entry;
      entry.verb = static_cast<FileVerb>(verb);
      entry.file = item.file();
      entry.line = item.line();
      entry.pointer = item.pointer();
      const Node* path = &item;
      if (item.is_object()) {
        for (size_t m = 0; m < item.size(); ++m) {
          const Node& member = item[m];
          if (member.key() == "path") continue;
          if (member.key() == "at") {
            if (!member.is_string() || member.string() != "start") return failure(member.error("expected \"start\""));
            entry.at_start = true;
          } else if (member.key() == "reason") {
            if (!member.is_string()) return failure(member.error("expected a string"));
            entry.reason = member.string();
          } else if (member.key() == "errno" && entry.verb == FileVerb::kDeny) {
            auto error = parse_errno(member);
            if (!error) return failure(std::move(error.error()));
            entry.error = *error;
          } else {
            return failure(member.error("unknown key \"" + member.key() + "\"; known are path, reason, at" +
                                        (entry.verb == FileVerb::kDeny ? ", errno" : "")));
          }
        }
        path = item.find("path");
        if (path == nullptr) return failure(item.error("\"path\" is missing"));
      }
      if (!path->is_string() || path->string().empty() || path->string().find('\0') != std::string::npos)
        return failure(path->error("expected a path, or an object with one"));
      entry.text = path->string();
      if (entry.text.front() == '@' && find_path_group(entry.text) == nullptr)
        return failure(path->error("unknown group of paths \"" + entry.text +
                                   "\"; known are @system @devices @toolchains @secrets @project-hooks"));
      files.entries.push_back(std::move(entry));
    }
  }
  return files;
}

Result<void, PolicyError> resolve_files(FilesSection& files, const FileContext& context,
                                        const std::string& policy_directory, std::vector<std::string>& notes) {
  const Expander expander{context, policy_directory};
  std::optional<std::string> mountinfo;
  const auto mounts = [&mountinfo]() -> const std::string& {
    if (!mountinfo) {
      std::ifstream file("/proc/self/mountinfo", std::ios::binary);
      mountinfo.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return *mountinfo;
  };
  for (FileEntry& entry : files.entries) {
    std::vector<std::string> texts;
    const bool group = entry.text.front() == '@';
    entry.at_start = entry.at_start || entry.text == "@secrets" || entry.text == "@project-hooks";
    if (!group)
      texts.push_back(entry.text);
    else
      for (const std::string& line : *find_path_group(entry.text)) {
        if (line != "@path-homes")
          texts.push_back(line);
        else
          for (const std::string& directory : context.search_path)
            if (!context.home.empty() && directory.starts_with(context.home + "/")) texts.push_back(directory);
      }
    for (const std::string& text : texts) {
      auto expanded = expander.path(entry, text);
      if (!expanded) return failure(std::move(expanded.error()));
      std::vector<std::string> patterns;
      if (!expand_braces(*expanded, patterns))
        return failure(entry_error(entry, "\"" + entry.text + "\": a brace without its partner, or too many choices"));
      std::vector<FilePattern> meant;
      for (const std::string& pattern : patterns) {
        FilePattern one{normalised(pattern), false};
        one.wild = is_wild(one.text);
        if (one.wild && entry.at_start) {
          const size_t slash = one.text.rfind('/', one.text.find_first_of("*?["));
          size_t budget = kMaxExpanded;
          std::vector<std::string> found;
          if (find_matches(slash == 0 ? "/" : one.text.substr(0, slash), one.text, budget, found)) {
            std::sort(found.begin(), found.end());
            for (std::string& path : found) meant.push_back({std::move(path), false});
            continue;
          }
          notes.push_back(entry.file + ":" + std::to_string(entry.line) + " " + entry.pointer + ": " + one.text +
                          " can't be expanded (more than " + std::to_string(kMaxExpanded) +
                          " files, or an unreadable directory); it holds as a pattern");
        }
        meant.push_back(std::move(one));
      }
      for (const auto& [plain, wild] : meant) {
        bool exists = false;
        const std::string real = canonical(plain, exists);
        // The part without wildcards was resolved; what it led to can't be told from a pattern any more.
        if (wild && std::count_if(real.begin(), real.end(), is_wildcard) !=
                        std::count_if(plain.begin(), plain.end(), is_wildcard))
          return failure(entry_error(entry, "\"" + entry.text + "\" leads to " + real +
                                                " by a symbolic link, which would be read as another pattern"));
        if (!exists && !group)
          notes.push_back(entry.file + ":" + std::to_string(entry.line) + " " + entry.pointer + ": " + plain +
                          " does not exist now; the entry holds if it appears");
        // Writing everywhere below home, or everywhere, is never what a list of paths means.
        if (entry.verb == FileVerb::kWrite && text.starts_with("${CWD}") && plain == normalised(context.directory) &&
            (real == "/" || real == context.home || (context.home + "/").starts_with(real + "/")))
          return failure(entry_error(entry, "${CWD} is " + real +
                                                ": not given for writing where it is /, the home directory or above "
                                                "it; change to a project's directory, or give another policy"));
        if (takes_away(entry.verb) && !wild) {
          // A second link of a file that is named is meant as well. Of a directory only the names below it are.
          struct stat status {};
          if (stat(real.c_str(), &status) == 0 && S_ISREG(status.st_mode))
            entry.objects.push_back({status.st_dev, status.st_ino});
          size_t budget = kMaxScanned;
          if (closes(entry.verb) && exists && holds_program(real, budget)) {
            entry.programs.push_back(real);
            if (S_ISREG(status.st_mode) && status.st_nlink > 1)
              notes.push_back(entry.file + ":" + std::to_string(entry.line) + " " + entry.pointer + ": " + real +
                              " has other links; under those it can still be run as an interpreter");
          }
        }
        // Both names lead there: what is denied by one must not be reached by the other.
        std::vector<FilePattern> names = {FilePattern{plain, wild}, FilePattern{real, wild}};
        if (takes_away(entry.verb) && !wild && exists)
          for (std::string& alias : mount_aliases(mounts(), real)) names.push_back({std::move(alias), false});
        for (const FilePattern& made : names)
          if (std::find(entry.patterns.begin(), entry.patterns.end(), made) == entry.patterns.end())
            entry.patterns.push_back(made);
        if (entry.patterns.size() > kMaxPatterns)
          return failure(entry_error(entry, "\"" + entry.text + "\" stands for too many paths"));
      }
    }
  }
  return {};
}

void merge_files(FilesSection& into, FilesSection base) {
  for (FileEntry& entry : base.entries) into.entries.push_back(std::move(entry));
  for (size_t verb = 0; verb < kFileVerbs; ++verb) {
    if (!base.present[verb] || into.present[verb]) continue;
    into.present[verb] = true;
    into.list_file[verb] = base.list_file[verb];
    into.list_line[verb] = base.list_line[verb];
  }
}

}  // namespace srun::policy
