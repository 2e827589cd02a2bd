#include "policy/environment.h"

#include <algorithm>
#include <array>

namespace srun::policy {

namespace {

// What keys, tokens and doors to agents are called. Names of the clouds and forges come whole (design section 4): their
// harmless members are few, and `keep` brings them back.
constexpr std::array<std::string_view, 47> kSecretPatterns = {
    // by what they hold
    "*_TOKEN",
    "*_SECRET",
    "*_PASSWORD",
    "*_KEY",
    "*_TOKENS",
    "*_SECRETS",
    "*_KEYS",
    "*_PASSWD",
    "*_PASSPHRASE",
    "*_PASS",
    "*_PWD",
    "*_PAT",
    "*_JWT",
    "*_CREDENTIAL",
    "*_CREDENTIALS",
    "*_AUTH",
    "*_AUTH_CONFIG",
    "*_APIKEY",
    "*_DSN",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "APIKEY",
    "PGPASSWORD",
    "DATABASE_URL",
    "*_DATABASE_URL",
    "*_CONNECTION_STRING",
    // whole families
    "AWS_*",
    "AZURE_*",
    "GOOGLE_*",
    "GITHUB_*",
    "ACTIONS_*",
    "GCP_*",
    "CLOUDSDK_*",
    "VAULT_*",
    "KUBECONFIG",
    "npm_config_*auth*",
    "NPM_CONFIG_*AUTH*",
    "CI_JOB_JWT*",
    "CI_REGISTRY_*",
    "NETRC",
    // agents and their helpers
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "SUDO_ASKPASS",
};

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) { return matches_variable_pattern(pattern, name); });
}

}  // namespace

std::span<const std::string_view> secret_variable_patterns() { return kSecretPatterns; }

bool matches_variable_pattern(std::string_view pattern, std::string_view name) {
  // Greedy with one point to come back to, so that the time is bounded by pattern × name whatever they hold.
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::string> apply_environment(std::vector<std::string> environment,
                                           std::span<const EnvironmentRules> layers) {
  for (const EnvironmentRules& rules : layers) {
    std::erase_if(environment, [&rules](const std::string& entry) {
      const std::string_view name = name_of(entry);
      if (name.size() == entry.size()) return true;
      return matches_any(rules.drop, name) && !matches_any(rules.keep, name);
    });
    for (const auto& [name, value] : rules.set) {
      std::erase_if(environment, [&key = name](const std::string& entry) { return name_of(entry) == key; });
      environment.push_back(name + "=" + value);
    }
  }
  return environment;
}

}  // namespace srun::policy
