#pragma once
// The `files` section as the model has it: entries with their patterns worked out. See file_matcher.h for what they
// mean.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/files.h"
#include "policy/json_document.h"
#include "policy/policy_error.h"

namespace srun::policy {

enum class FileVerb : uint8_t { kRead, kWrite, kExecute, kReadOnly, kDeny, kLog, kAsk };
inline constexpr size_t kFileVerbs = 7;
// Takes everything away: deny, and ask, which is answered with "no" as long as nobody can be asked.
constexpr bool closes(FileVerb verb) { return verb == FileVerb::kDeny || verb == FileVerb::kAsk; }
constexpr bool takes_away(FileVerb verb) { return closes(verb) || verb == FileVerb::kReadOnly; }

// "Wild" is decided by what is written: a place that a link leads to may have "[" or "*" in its name and is no pattern.
struct FilePattern {
  std::string text;  // absolute
  bool wild = false;
  friend bool operator==(const FilePattern&, const FilePattern&) = default;
};

struct FileEntry {
  FileVerb verb = FileVerb::kRead;
  std::string text;                   // as written: "@secrets", "~/x"
  bool at_start = false;              // "at": "start": patterns stand for what exists when the policy is loaded (H39)
  std::vector<FilePattern> patterns;  // filled by resolve_files()
  std::vector<FileIdentity> objects;  // of a deny or read-only: the files that its plain patterns name now (H8)
  std::vector<std::string>
      programs;       // of a deny: those of its plain patterns that are or hold something executable now
  int32_t error = 0;  // of a deny that names one; 0: EACCES
  std::string reason;
  std::string file;  // where it stands
  uint32_t line = 0;
  std::string pointer;
};

struct FilesSection {
  std::vector<FileEntry> entries;
  std::array<bool, kFileVerbs> present{};         // the lists that are written, empty ones included
  std::array<std::string, kFileVerbs> list_file;  // where each list stands, for what none of its entries matches
  std::array<uint32_t, kFileVerbs> list_line{};
  // Only takes away, as --deny and --read-only do: what no entry matches passes.
  bool open_ended = false;
};

// What variables and "~/" stand for. Empty: not set, and using it is a load error (H40).
struct FileContext {
  std::string directory;  // ${CWD}
  std::string home;
  std::string temporary;  // ${TMPDIR}, /tmp where it is not set
  std::string user;
  std::string runner_temp;
  std::vector<std::string> search_path;  // of PATH
  static FileContext of_this_process();
};

[[nodiscard]] Result<FilesSection, PolicyError> parse_files(const Node& node);

// Expands groups, variables and braces, and resolves symbolic links in the part of each pattern that exists and has no
// wildcard. `policy_directory` is ${POLICY_DIR}. Notes go to `notes`: paths that do not exist.
[[nodiscard]] Result<void, PolicyError> resolve_files(FilesSection& files, const FileContext& context,
                                                      const std::string& policy_directory,
                                                      std::vector<std::string>& notes);

// A path of the command line as an entry: relative ones are meant from the present directory.
FileEntry file_flag(FileVerb verb, std::string_view path, const FileContext& context);
std::string_view verb_name(FileVerb verb);

// Appends what `base` says (H: own entries first; lists concatenate).
void merge_files(FilesSection& into, FilesSection base);

// Groups of paths, "@" included, as written in the table; nullptr: no such group.
const std::vector<std::string>* find_path_group(std::string_view name);
std::vector<std::string_view> path_group_names();

}  // namespace srun::policy
