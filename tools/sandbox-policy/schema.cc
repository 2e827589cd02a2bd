#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {

int print_schema() {
  print(schema_text());
  return kFine;
}

}  // namespace srun::tool
