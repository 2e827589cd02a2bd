#include "policy/file_rules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <doctest/doctest.h>
#include <fstream>
#include <random>

#include "policy/file_lowering.h"
#include "policy/file_matcher.h"
#include "policy_fixture.h"

namespace srun::policy::test {
namespace {

FileContext context() {
  FileContext made;
  made.directory = "/srun-test/project";
  made.home = "/srun-test/home";
  made.temporary = "/srun-test/tmp";
  made.user = "somebody";
  made.search_path = {"/usr/bin", "/srun-test/home/.tools/bin"};
  return made;
}

std::optional<FilesSection> section_of(const std::string& json, std::string* problem = nullptr, const FileContext& where = context()) {
  static std::vector<std::unique_ptr<Document>> documents;
  auto document = Document::parse(json, "ci.json");
  REQUIRE(document);
  documents.push_back(std::make_unique<Document>(std::move(*document)));
  auto parsed = parse_files(documents.back()->root());
  std::vector<std::string> notes;
  if (parsed) {
    auto resolved = resolve_files(*parsed, where, "/srun-test/policies", notes);
    if (resolved) return std::move(*parsed);
    if (problem != nullptr) *problem = resolved.error().text();
    return std::nullopt;
  }
  if (problem != nullptr) *problem = parsed.error().text();
  return std::nullopt;
}

std::string files_problem(const std::string& json) {
  std::string problem;
  section_of(json, &problem);
  return problem;
}

struct Asker {
  explicit Asker(const std::vector<std::string>& jsons, bool audit = false) {
    for (const std::string& json : jsons) {
      auto section = section_of(json);
      REQUIRE(section);
      sections.push_back(std::make_unique<FilesSection>(std::move(*section)));
    }
    std::vector<FileLayer> layers;
    bpf::VerdictId next = 1;
    for (const auto& section : sections) {
      FileLayer layer;
      layer.section = section.get();
      for (size_t i = 0; i < section->entries.size(); ++i) layer.entries.push_back(next++);
      for (auto& id : layer.unmatched) id = next++;
      layers.push_back(std::move(layer));
    }
    matcher = make_file_matcher(layers, {audit});
  }
  // "allow", "log", "EACCES 3" (errno and verdict).
  std::string operator()(std::string_view path, FileAccess wanted) const {
    const FileDecision decision = matcher->decide(path, wanted);
    if (decision.effect == FileEffect::kAllow) return "allow";
    if (decision.effect == FileEffect::kLog) return "log";
    return errno_name(decision.error) + " " + std::to_string(decision.verdict);
  }
  std::vector<std::unique_ptr<FilesSection>> sections;
  std::shared_ptr<const FileMatcher> matcher;
};

}  // namespace

TEST_CASE("files: a pattern matches whole components, and the deepest directory that it matches counts") {
  CHECK(match_depth("/", "/a") == 0);
  CHECK(match_depth("/a", "/a") == 1);
  CHECK(match_depth("/a", "/a/b") == 1);
  CHECK(match_depth("/a", "/ab") == -1);
  CHECK(match_depth("/a/b", "/a") == -1);
  CHECK(match_depth("/a/*", "/a/b/c") == 2);
  CHECK(match_depth("/a/*", "/a") == -1);
  CHECK(match_depth("/a/*.c", "/a/x.c") == 2);
  CHECK(match_depth("/a/*.c", "/a/b/x.c") == -1);
  CHECK(match_depth("/a/**", "/a/b/c") == 3);
  CHECK(match_depth("/a/**/.env", "/a/.env") == 2);
  CHECK(match_depth("/a/**/.env", "/a/b/c/.env") == 4);
  CHECK(match_depth("/a/**/.env", "/a/b/.env/x") == 3);
  CHECK(match_depth("/a/**/.env", "/a/b/x.env") == -1);
  CHECK(match_depth("/a/[xy]?", "/a/x1") == 2);
  CHECK(match_depth("/a/[xy]?", "/a/z1") == -1);
}

TEST_CASE("files: the most specific entry decides; of equals deny, then read-only, then log, then a grant (H39)") {
  const Asker ask({R"({"read": ["/a"], "write": ["/a/w", "/a/same"], "deny": ["/a/w/secret", "/a/same"],
                       "read-only": ["/a/w/ro"], "log": ["/a/w/l"]})"});
  CHECK(ask("/a/x", FileAccess::kRead) == "allow");
  CHECK(ask("/a/x", FileAccess::kWrite).starts_with("EACCES"));
  CHECK(ask("/a/w/x", FileAccess::kCreate) == "allow");
  CHECK(ask("/a/w/x", FileAccess::kRead) == "allow");
  CHECK(ask("/a/w/secret/deep", FileAccess::kRead) == "EACCES 4");
  CHECK(ask("/a/same", FileAccess::kRead) == "EACCES 5");
  CHECK(ask("/a/w/ro/x", FileAccess::kRead) == "allow");
  CHECK(ask("/a/w/ro/x", FileAccess::kRemove) == "EACCES 6");
  CHECK(ask("/a/w/l/x", FileAccess::kAttributes) == "log");
  CHECK(ask("/b", FileAccess::kRead).starts_with("EACCES"));
  CHECK(ask("/b", FileAccess::kMetadata) == "allow");
  // A grant below a denied directory pierces it.
  CHECK(Asker({R"({"deny": ["/d"], "read": ["/d/open"]})"})("/d/open/x", FileAccess::kRead) == "allow");
}

TEST_CASE("files: what the absence of a list means, and an empty one") {
  const Asker nothing({"{}"});
  CHECK(nothing("/etc/passwd", FileAccess::kRead) == "allow");
  CHECK(nothing("/etc/passwd", FileAccess::kWrite).starts_with("EACCES"));
  CHECK(nothing("/dev/null", FileAccess::kWrite) == "allow");
  CHECK(nothing("/dev/pts/3", FileAccess::kWrite) == "allow");
  CHECK(nothing("/dev/sda", FileAccess::kWrite).starts_with("EACCES"));
  const Asker empty({R"({"read": [], "write": []})"});
  CHECK(empty("/dev/null", FileAccess::kRead).starts_with("EACCES"));
  CHECK(empty("/dev/null", FileAccess::kWrite).starts_with("EACCES"));
  // Without an execute list whatever is readable may be executed.
  const Asker readable({R"({"read": ["/bin"]})"});
  CHECK(readable("/bin/sh", FileAccess::kExecute) == "allow");
  CHECK(readable("/opt/sh", FileAccess::kExecute).starts_with("EACCES"));
}

TEST_CASE("files: of several layers the strictest decides") {
  const Asker ask({R"({"write": ["/a"]})", R"({"write": ["/a/b"]})"});
  CHECK(ask("/a/b/c", FileAccess::kWrite) == "allow");
  CHECK(ask("/a/c", FileAccess::kWrite).starts_with("EACCES"));
}

TEST_CASE("files: a move that would lift a rule is refused (H2)") {
  const Asker ask({R"({"write": ["/w", "/v"], "deny": ["/w/d/secret", "/w/**/.env"]})"});
  const auto move = [&](std::string_view from, std::string_view to, bool directory) { return ask.matcher->decide_move(from, to, false, directory).has_value(); };
  CHECK(move("/w/d", "/w/e", true));
  CHECK(move("/w", "/v/w", true));
  CHECK(move("/w/x", "/v/x", true));          // /w/x/.env would be /v/x/.env
  CHECK_FALSE(move("/w/x", "/w/y", true));    // .env stays denied wherever it is below /w
  CHECK_FALSE(move("/w/x", "/w/y", false));
  CHECK_FALSE(move("/w/x", "/v/y", false));
  // A new name that grants a verb which the old one lacked.
  const Asker mixed({R"({"read": ["/r"], "write": ["/w"]})"});
  CHECK(mixed.matcher->decide_move("/r/x", "/w/x", false, false).has_value());
}

TEST_CASE("files: --audit denies nothing and lets the kernel go on") {
  const Asker ask({R"({"write": []})"}, true);
  const FileDecision decision = ask.matcher->decide("/x", FileAccess::kWrite);
  CHECK(decision.effect == FileEffect::kLog);
  CHECK(decision.kernel_grants);
}

TEST_CASE("files: variables, the home directory, groups and braces") {
  const auto section = section_of(R"({"read": ["~/x", "${CWD}/y", "${POLICY_DIR}/../z", "/srun-test/{a,b}", "@secrets", "@toolchains"]})");
  REQUIRE(section);
  CHECK(section->entries[0].patterns == std::vector<FilePattern>{{"/srun-test/home/x", false}});
  CHECK(section->entries[1].patterns == std::vector<FilePattern>{{"/srun-test/project/y", false}});
  CHECK(section->entries[2].patterns == std::vector<FilePattern>{{"/srun-test/z", false}});
  CHECK(section->entries[3].patterns == std::vector<FilePattern>{{"/srun-test/a", false}, {"/srun-test/b", false}});
  const auto has_pattern = [&](size_t entry, const std::string& pattern) {
    const auto& patterns = section->entries[entry].patterns;
    return std::any_of(patterns.begin(), patterns.end(), [&](const FilePattern& one) { return one.text == pattern; });
  };
  CHECK(has_pattern(4, "/srun-test/home/.ssh"));
  // Expanded over what exists when it is loaded: nothing there.
  CHECK(!has_pattern(4, "/srun-test/project/**/.env"));
  CHECK(has_pattern(5, "/srun-test/home/.tools/bin"));
}

TEST_CASE("files: a root that is a symbolic link holds under both names") {
  TemporaryDirectory directory;
  const std::string base = directory.path();
  REQUIRE(mkdir((base + "/real").c_str(), 0700) == 0);
  REQUIRE(symlink("real", (base + "/link").c_str()) == 0);
  const auto section = section_of("{\"deny\": [\"" + base + "/link/x\"]}");
  REQUIRE(section);
  const auto& patterns = section->entries[0].patterns;
  CHECK(std::any_of(patterns.begin(), patterns.end(), [&](const FilePattern& one) { return one.text == base + "/link/x"; }));
  CHECK(std::any_of(patterns.begin(), patterns.end(), [](const FilePattern& one) { return one.text.ends_with("/real/x"); }));
}

TEST_CASE("files: what is wrong is said with its place") {
  CHECK(files_problem(R"({"raed": []})").find("#/raed: unknown key \"raed\"") != std::string::npos);
  CHECK(files_problem(R"({"read": ["x"]})").find("relative path; write ${CWD}/x or ${POLICY_DIR}/x") != std::string::npos);
  CHECK(files_problem(R"({"read": ["${NOPE}/x"]})").find("unknown variable ${NOPE}") != std::string::npos);
  CHECK(files_problem(R"({"read": ["${RUNNER_TEMP}/x"]})").find("${RUNNER_TEMP} is not set or empty") != std::string::npos);
  CHECK(files_problem(R"({"read": ["@nothing"]})").find("unknown group of paths \"@nothing\"") != std::string::npos);
  CHECK(files_problem(R"({"read": ["/{a"]})").find("a brace without its partner") != std::string::npos);
  CHECK(files_problem(R"({"read": [{"path": "/a", "errno": "EIO"}]})").find("unknown key \"errno\"") != std::string::npos);
  CHECK(files_problem(R"({"deny": [{"path": "/a", "errno": "EWHAT"}]})").find("the name of an errno") != std::string::npos);
  CHECK(files_problem(R"({"redirect": {"/a": "/b"}})").find("\"redirect\" is not enforced by this version yet") != std::string::npos);
  FileContext home = context();
  home.directory = home.home;
  std::string problem;
  CHECK_FALSE(section_of(R"({"write": ["${CWD}"]})", &problem, home));
  CHECK(problem.find("not given for writing where it is /, the home directory or above it") != std::string::npos);
}

TEST_CASE("files: random sections decide as their meaning says, entry by entry") {
  // The meaning, written as plainly as possible: of the entries that speak about the verb, the one with the longest prefix.
  const std::vector<std::string> names = {"a", "b", "c"};
  std::mt19937 random(7);
  const auto any_path = [&](int most) {
    std::string path;
    for (int depth = 1 + static_cast<int>(random() % static_cast<unsigned>(most)); depth > 0; --depth) path += "/" + names[random() % names.size()];
    return "/srun-test" + path;
  };
  const char* const verbs[] = {"read", "write", "deny", "read-only", "log"};
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, std::vector<std::string>> lists;
    for (int i = 0; i < 6; ++i) lists[verbs[random() % 5]].push_back(any_path(3));
    std::string json = "{";
    for (const auto& [verb, paths] : lists) {
      json += (json.size() > 1 ? ", \"" : "\"") + verb + "\": [";
      for (size_t i = 0; i < paths.size(); ++i) json += (i > 0 ? ", \"" : "\"") + paths[i] + "\"";
      json += "]";
    }
    const Asker ask({json + "}"});
    for (int question = 0; question < 50; ++question) {
      const std::string path = any_path(5);
      const bool writes = random() % 2 == 0;
      size_t longest = 0;
      std::string winner;
      const auto rank = [](const std::string& verb) { return verb == "deny" ? 4 : verb == "read-only" ? 3 : verb == "log" ? 2 : 1; };
      for (const auto& [verb, paths] : lists) {
        if ((verb == "read" && writes) || (verb == "read-only" && !writes)) continue;
        for (const std::string& prefix : paths) {
          if (path != prefix && !path.starts_with(prefix + "/")) continue;
          if (prefix.size() < longest || (prefix.size() == longest && !winner.empty() && rank(verb) <= rank(winner))) continue;
          longest = prefix.size();
          winner = verb;
        }
      }
      std::string expected = winner == "deny" || winner == "read-only" ? "EACCES" : winner == "log" ? "log" : "allow";
      if (winner.empty() && (writes || lists.count("read") != 0)) expected = "EACCES";
      CAPTURE(json);
      CAPTURE(path);
      CAPTURE(writes);
      CHECK(ask(path, writes ? FileAccess::kWrite : FileAccess::kRead).substr(0, expected.size()) == expected);
    }
  }
}

TEST_CASE("files: a section is refused together with what would make its paths mean something else") {
  CHECK(lowering_problem(R"({"version": 1, "unsafe": ["mount"], "files": {}})").find("cannot be lifted together with a files section") != std::string::npos);
  LoweringOptions without;
  without.landlock_abi = 0;
  CHECK(lowering_problem(R"({"version": 1, "files": {"execute": ["/usr"]}})", without).find("an execute list needs Landlock") != std::string::npos);
  CHECK(lowering_problem(R"({"version": 1, "files": {"execute": ["/usr/*"]}})").empty());  // not resolved here: no patterns yet
}

}  // namespace srun::policy::test
