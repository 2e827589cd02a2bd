#include "policy/kernel_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "policy/file_fix.h"
#include "policy/loader.h"
#include "policy/mount_aliases.h"

using namespace srun::policy;

namespace {

// A tree with a project, hooks, a key and a second link, and policies beside it.
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/srun-kernel-files-XXXXXX";
    char resolved[4096];
    if (mkdtemp(name) == nullptr || realpath(name, resolved) == nullptr) std::abort();
    top = resolved;
    for (const char* directory : {"/home", "/home/project", "/home/project/hooks", "/home/keys", "/out"})
      mkdir((top + directory).c_str(), 0755);
    for (const char* file : {"/home/project/config", "/home/keys/a", "/home/key", "/home/linked"})
      std::ofstream(top + file) << "x\n";
    std::filesystem::create_hard_link(top + "/home/linked", top + "/home/second");
  }
  ~Tree() { std::filesystem::remove_all(top); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // `sections` with $T for the tree; one layer each.
  PolicyStack stack(std::initializer_list<std::string> sections) const {
    std::vector<std::string> names;
    for (std::string text : sections) {
      for (size_t at = text.find("$T"); at != std::string::npos; at = text.find("$T")) text.replace(at, 2, top);
      names.push_back(top + "/policy" + std::to_string(names.size()) + ".json");
      std::ofstream(names.back()) << "{\"version\": 1, \"files\": " << text << "}\n";
      chmod(names.back().c_str(), 0644);
    }
    auto loaded = load_stack(names, {}, {});
    REQUIRE_MESSAGE(loaded, (loaded ? std::string() : loaded.error().text()));
    return std::move(*loaded);
  }
  KernelFiles plan(std::initializer_list<std::string> sections, bool masks = true, int abi = 7) const {
    LoweringOptions options;
    options.masks = masks;
    options.landlock_abi = abi;
    const PolicyStack loaded = stack(sections);
    return plan_kernel_files(file_layers(loaded), options);
  }

  std::string top;
};

bool covers(const KernelFiles& files, Mask::Kind kind, const std::string& path) {
  for (const Mask& mask : files.masks)
    if (mask.kind == kind && mask.path == path) return true;
  return false;
}

}  // namespace

TEST_CASE("kernel files: what a mask and a grant can say exactly is the kernel's") {
  const Tree tree;
  const KernelFiles files = tree.plan(
      {R"({"read": ["/"], "write": ["$T/home/project"], "read-only": ["$T/home/project/hooks"], "deny": ["$T/home/keys"]})"});
  REQUIRE_MESSAGE(files.used, files.why_not);
  CHECK(files.reads_exact);
  CHECK(files.writes_exact);
  CHECK(files.guards_names);
  CHECK(covers(files, Mask::Kind::kReadOnly, tree.top + "/home/project/hooks"));
  CHECK(covers(files, Mask::Kind::kDeny, tree.top + "/home/keys"));
  CHECK(files.grants_all(tree.top + "/home/project/new", FileAccess::kWrite | FileAccess::kCreate));
  CHECK(files.grants_all("/etc/hostname", FileAccess::kRead));
  // The granted directory itself is a name in one that is not granted; attributes are nothing that Landlock knows.
  CHECK(!files.grants_all(tree.top + "/home/project", FileAccess::kRemove));
  CHECK(!files.grants_all(tree.top + "/home/new", FileAccess::kCreate));
  CHECK(!files.grants_all(tree.top + "/home/project/config", FileAccess::kAttributes));
}

TEST_CASE("kernel files: what they can't say is the supervisor's, with the reason") {
  const Tree tree;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"deny": ["$T/home/*.key"]})", "is a pattern that holds for later files"},
      {R"({"log": ["$T/home"]})", "records"},
      {R"({"deny": [{"path": "$T/home/key", "errno": "ENOENT"}]})", "names an errno of its own"},
      {R"({"deny": ["$T/home/linked"]})", "has other links"},
      {R"({"read": ["/", "$T/home/keys/a"], "deny": ["$T/home/keys"]})", "is granted"},
      {R"({"write": ["$T/home"], "deny": ["$T/home/later"]})", "does not exist yet"},
      {R"({"deny": ["/"]})", "root directory"},
  };
  for (const auto& [section, reason] : cases) {
    CAPTURE(section);
    const KernelFiles files = tree.plan({section});
    CHECK(!files.used);
    CHECK(files.why_not.find(reason) != std::string::npos);
    CHECK(!files.grants_all("/etc/hostname", FileAccess::kRead));
  }
  CHECK(!tree.plan({R"({"write": ["$T/out"]})"}, true, 2).used);
  // Without masks only what nobody may write anyway can be granted around.
  CHECK(!tree.plan({R"({"write": ["$T/home"], "deny": ["$T/home/key"]})"}, false).used);
  const KernelFiles around = tree.plan({R"({"write": ["$T/out"], "deny": ["$T/home/key"]})"}, false);
  REQUIRE(around.used);
  CHECK(around.reads_handled);
  CHECK(!around.reads_exact);
  CHECK(!around.grants_all(tree.top + "/home/new", FileAccess::kRead));
  CHECK(around.grants_all(tree.top + "/home/keys/a", FileAccess::kRead));
}

TEST_CASE("kernel files: of several layers only what all of them grant is granted") {
  const Tree tree;
  const KernelFiles files = tree.plan({R"({"read": ["$T"], "write": ["$T/home", "$T/out"]})",
                                       R"({"read": ["$T/home"], "write": ["$T/home/project"]})"});
  REQUIRE_MESSAGE(files.used, files.why_not);
  CHECK(files.grants_all(tree.top + "/home/project/x", FileAccess::kCreate));
  CHECK(!files.grants_all(tree.top + "/home/x", FileAccess::kCreate));
  CHECK(!files.grants_all(tree.top + "/out/x", FileAccess::kCreate));
  CHECK(files.grants_all(tree.top + "/home/key", FileAccess::kRead));
  CHECK(!files.grants_all(tree.top + "/out/x", FileAccess::kRead));
}

TEST_CASE("kernel files: a grant of what does not exist, or of a pattern, is asked about") {
  const Tree tree;
  CHECK(!tree.plan({R"({"write": ["$T/later"]})"}).writes_exact);
  CHECK(!tree.plan({R"({"write": ["$T/out/x*"]})"}).writes_exact);
  CHECK(tree.plan({R"({"write": ["$T/out", "$T/out/later"]})"}).writes_exact);
  const KernelFiles reads = tree.plan({R"({"read": ["$T/home", "$T/later"]})"});
  CHECK(reads.used);
  CHECK(!reads.reads_exact);
}

TEST_CASE("mount aliases: other mounts that show a path, what is above it or below it") {
  const std::string mountinfo =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "21 20 8:2 / /home rw - ext4 /dev/sda2 rw\n"
      "22 20 8:2 /user /mnt/a\\040b rw - ext4 /dev/sda2 rw\n"
      "23 20 8:2 /user/.ssh/keys /keys rw - ext4 /dev/sda2 rw\n"
      "24 20 8:2 /other /other rw - ext4 /dev/sda2 rw\n"
      "25 20 0:4 net:[4026531992] /run/net rw - nsfs nsfs rw\n"
      "26 20 8:1 /home /below rw - ext4 /dev/sda1 rw\n";
  CHECK(mount_aliases(mountinfo, "/home/user/.ssh") == std::vector<std::string>{"/mnt/a b/.ssh", "/keys"});
  CHECK(mount_aliases(mountinfo, "/home") == std::vector<std::string>{"/mnt/a b", "/keys", "/other"});
  CHECK(mount_aliases(mountinfo, "/etc/shadow").empty());
  CHECK(mount_aliases("", "/etc/shadow").empty());
  CHECK(mount_aliases("x y\n1 2 3\n", "/etc/shadow").empty());
}

TEST_CASE("file fix: one flag or one change, tried before it is named") {
  const Tree tree;
  const PolicyStack stack =
      tree.stack({R"({"read": ["/"], "write": ["$T/out"], "deny": ["$T/home/keys", "$T/home/key"]})"});
  const std::string file = tree.top + "/policy0.json";
  const auto fix = [&](const std::string& pointer, const std::string& path, FileAccess access) {
    Verdict verdict;
    verdict.rule.layer = 1;
    verdict.rule.file = file;
    verdict.rule.pointer = pointer;
    return suggested_file_fix(stack, verdict, path, access);
  };
  CHECK(fix("#/files/write", tree.top + "/home/new", FileAccess::kWrite | FileAccess::kCreate) ==
        "to allow: --write " + tree.top + "/home/new");
  CHECK(fix("#/files/deny/1", tree.top + "/home/key", FileAccess::kRead) == "deliberate: remove that entry to allow");
  // Refused for the object and not for its name: no change about names helps.
  CHECK(fix("#/files/deny/1", tree.top + "/out/x", FileAccess::kRead) == std::nullopt);
  // A name that a shell would take apart is not offered as text to copy.
  CHECK(fix("#/files/write", tree.top + "/home/a b", FileAccess::kWrite) == std::nullopt);
  CHECK(fix("#/files/write", tree.top + "/home/$(reboot)", FileAccess::kWrite) == std::nullopt);
}
