#pragma once
// The policies of one run, loaded: layers in command-line order, the guard not among them.
#include <memory>
#include <string>
#include <vector>

#include "policy/model.h"

namespace srun::policy {

struct OciProfile;  // policy/oci.h

// One --policy. Exactly one of the two is set.
struct StackLayer {
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<const OciProfile> oci;
  LayerInfo info;
};

struct PolicyStack {
  std::vector<StackLayer> layers;  // empty: `--policy none`
  std::string display_name;        // for SANDBOX_RUN=
  std::vector<std::string> warnings;  // of loading; lowering adds its own
  std::vector<std::string> notes;
};

}  // namespace srun::policy
