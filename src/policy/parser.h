#pragma once
// One document in our own language → model. Strict: nothing that is written is ignored but "$schema". Pure.
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/json_document.h"
#include "policy/model.h"

namespace srun::policy {

struct ParsedPolicy {
  Policy policy;  // without what it extends
  struct Extends {
    std::string name;  // as written: a file or a NAME
    Place place;
  };
  std::vector<Extends> extends;
};

[[nodiscard]] Result<ParsedPolicy, PolicyError> parse_policy(const Node& root);

// `--env NAME|GLOB|NAME=VALUE` added to rules. The parser of the command line has checked that the name is not empty.
void add_environment_flag(std::string_view flag, EnvironmentRules& rules);

}  // namespace srun::policy
