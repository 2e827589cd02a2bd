// Policy files and OCI profiles: whatever the bytes, reading ends with a policy or an error that says something, and an
// OCI profile that loads can be compiled. Nothing but the bytes is read: what a policy extends is not loaded.
#include <memory>

#include "fuzz_input.h"
#include "policy/json_document.h"
#include "policy/lowering.h"
#include "policy/oci.h"
#include "policy/parser.h"

using namespace srun;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = policy::Document::parse(text, "input");
  if (!document) {
    fuzz::require(!document.error().message.empty(), "an error says something");
    return 0;
  }
  policy::PolicyStack stack;
  policy::StackLayer layer;
  if (policy::is_oci_document(document->root())) {
    auto profile = policy::parse_oci(document->root(), {});
    if (!profile) {
      fuzz::require(!profile.error().message.empty(), "an error says something");
      return 0;
    }
    layer.oci = std::make_shared<const policy::OciProfile>(std::move(*profile));
  } else {
    auto parsed = policy::parse_policy(document->root());
    if (!parsed) {
      fuzz::require(!parsed.error().message.empty(), "an error says something");
      return 0;
    }
    if (!parsed->extends.empty()) return 0;
    layer.policy = std::make_shared<const policy::Policy>(std::move(parsed->policy));
  }
  stack.layers.push_back(std::move(layer));
  const auto enforcement = policy::lower(stack, {});
  if (!enforcement) fuzz::require(!enforcement.error().message.empty(), "an error says something");
  return 0;
}
