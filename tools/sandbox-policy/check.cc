#include "base/text.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {

int check(const std::vector<std::string>& files, bool notes) {
  const Host host = this_host();
  int status = kFine;
  for (const std::string& file : files) {
    const auto loaded = load(file, host);
    if (!loaded) {
      complain(loaded.error().text());
      status = kBadPolicy;
      continue;
    }
    std::string text;
    size_t warnings = loaded->enforcement.warnings.size();
    for (const std::string& warning : loaded->enforcement.warnings)
      text += "  warning: " + escape_for_terminal(warning) + "\n";
    for (const std::string& note : loaded->enforcement.notes) {
      const bool warning = note.find(": warning: ") != std::string::npos;
      warnings += warning ? 1 : 0;
      if (warning || notes) text += "  " + escape_for_terminal(note) + "\n";
    }
    const policy::Enforcement& enforcement = loaded->enforcement;
    print(escape_for_terminal(file) + ": ok, " + count_of(enforcement.programs->kernel.code().size(), "instruction") +
          " in the kernel" + (warnings == 0 ? "" : ", " + count_of(warnings, "warning")) + "\n" + text);
    if (warnings != 0 && status == kFine) status = kFinding;
  }
  return status;
}

}  // namespace srun::tool
