#include "base/text.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {

int list_policies() {
  const Host host = this_host();
  const policy::PolicyDirectories directories = policy::PolicyDirectories::of_this_process();
  int status = kFine;
  for (const policy::NamedPolicy& entry : policy::list_policies(directories)) {
    const auto loaded = load(entry.name, host);
    if (!loaded) {
      complain(loaded.error().text());
      status = kFinding;
      continue;
    }
    const policy::LayerInfo& info = loaded->stack.layers.back().info;
    std::vector<std::string> words;
    for (size_t at = 0; at < info.description.size();) {
      const size_t space = std::min(info.description.find(' ', at), info.description.size());
      words.push_back(escape_for_terminal(info.description.substr(at, space - at)));
      at = space + 1;
    }
    print(escape_for_terminal(entry.name) + (info.oci ? "  (OCI profile)" : "") + "  " +
          escape_for_terminal(entry.path) + "\n" + wrapped(words, "    ", " "));
  }
  print("none\n    The guard layer alone, which is part of every run.\n");
  return status;
}

}  // namespace srun::tool
