#include "policy/environment.h"

#include <map>

#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

std::vector<std::string> applied(std::vector<std::string> environment, const std::string& section) {
  const Policy policy = policy_of("{\"version\": 1, \"environment\": " + section + "}");
  return apply_environment(std::move(environment), std::span(&*policy.environment, 1));
}
using List = std::vector<std::string>;

}  // namespace

TEST_CASE("environment: * is any run of characters and ? one, case matters") {
  CHECK(matches_variable_pattern("*", ""));
  CHECK(matches_variable_pattern("*", "A"));
  CHECK(matches_variable_pattern("*_TOKEN", "CI_JOB_TOKEN"));
  CHECK(!matches_variable_pattern("*_TOKEN", "TOKEN"));
  CHECK(!matches_variable_pattern("*_TOKEN", "CI_JOB_TOKENS"));
  CHECK(!matches_variable_pattern("*_TOKEN", "ci_job_token"));
  CHECK(matches_variable_pattern("A?C", "ABC"));
  CHECK(!matches_variable_pattern("A?C", "AC"));
  CHECK(matches_variable_pattern("A*B*C", "AxBBxC"));
  CHECK(!matches_variable_pattern("A*B*C", "AxCxB"));
  CHECK(!matches_variable_pattern("", "A"));
}

TEST_CASE("environment: a pattern of many stars takes no more than its length times the name's") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  CHECK(!matches_variable_pattern(pattern + "b", std::string(20000, 'a')));
}

TEST_CASE("environment: every pattern of @secrets takes a variable away, and the common ones stay") {
  // One name per pattern that this pattern alone, or it first, is there for.
  const std::map<std::string, std::string> examples = {
      {"*_TOKEN", "NPM_TOKEN"}, {"*_SECRET", "CLIENT_SECRET"}, {"*_PASSWORD", "TWINE_PASSWORD"}, {"*_KEY", "OPENAI_API_KEY"},
      {"*_TOKENS", "BOT_TOKENS"}, {"*_SECRETS", "APP_SECRETS"}, {"*_KEYS", "SIGNING_KEYS"}, {"*_PASSWD", "LDAP_PASSWD"},
      {"*_PASSPHRASE", "GPG_PASSPHRASE"}, {"*_PASS", "SMTP_PASS"}, {"*_PWD", "MYSQL_PWD"}, {"*_PAT", "ADO_PAT"},
      {"*_JWT", "SERVICE_JWT"}, {"*_CREDENTIAL", "APP_CREDENTIAL"}, {"*_CREDENTIALS", "FTP_CREDENTIALS"},
      {"*_AUTH", "REDIS_AUTH"}, {"*_AUTH_CONFIG", "DOCKER_AUTH_CONFIG"}, {"*_APIKEY", "MAIL_APIKEY"}, {"*_DSN", "SENTRY_DSN"},
      {"TOKEN", "TOKEN"}, {"SECRET", "SECRET"}, {"PASSWORD", "PASSWORD"}, {"APIKEY", "APIKEY"}, {"PGPASSWORD", "PGPASSWORD"},
      {"DATABASE_URL", "DATABASE_URL"}, {"*_DATABASE_URL", "TEST_DATABASE_URL"},
      {"*_CONNECTION_STRING", "STORAGE_CONNECTION_STRING"}, {"AWS_*", "AWS_ACCESS_KEY_ID"}, {"AZURE_*", "AZURE_CLIENT_ID"},
      {"GOOGLE_*", "GOOGLE_APPLICATION_CREDENTIALS"}, {"GITHUB_*", "GITHUB_TOKEN"}, {"ACTIONS_*", "ACTIONS_RUNTIME_URL"},
      {"GCP_*", "GCP_PROJECT_SA"}, {"CLOUDSDK_*", "CLOUDSDK_CONFIG"}, {"VAULT_*", "VAULT_ADDR"}, {"KUBECONFIG", "KUBECONFIG"},
      {"npm_config_*auth*", "npm_config__authToken"}, {"NPM_CONFIG_*AUTH*", "NPM_CONFIG__AUTH"},
      {"CI_JOB_JWT*", "CI_JOB_JWT_V2"}, {"CI_REGISTRY_*", "CI_REGISTRY_USER"}, {"NETRC", "NETRC"},
      {"SSH_AUTH_SOCK", "SSH_AUTH_SOCK"}, {"SSH_AGENT_PID", "SSH_AGENT_PID"}, {"GPG_AGENT_INFO", "GPG_AGENT_INFO"},
      {"SSH_ASKPASS", "SSH_ASKPASS"}, {"GIT_ASKPASS", "GIT_ASKPASS"}, {"SUDO_ASKPASS", "SUDO_ASKPASS"},
  };
  CHECK(examples.size() == secret_variable_patterns().size());
  for (const std::string_view pattern : secret_variable_patterns()) {
    CAPTURE(pattern);
    const auto example = examples.find(std::string(pattern));
    REQUIRE(example != examples.end());
    CHECK(matches_variable_pattern(pattern, example->second));
    CHECK(applied({example->second + "=x"}, R"({"drop": ["@secrets"]})") == List{});
  }
  const List harmless = {"PATH=/bin", "HOME=/h", "LANG=C", "TERM=x", "PWD=/", "OLDPWD=/", "USER=u", "SHELL=/bin/sh",
                         "CI=true",   "TMPDIR=/t", "MAKEFLAGS=-j2", "XDG_RUNTIME_DIR=/run", "KEYBOARD=us", "TOKENIZER=x"};
  CHECK(applied(harmless, R"({"drop": ["@secrets"]})") == harmless);
}

TEST_CASE("environment: keep beats drop") {
  CHECK(applied({"GITHUB_TOKEN=a", "NPM_TOKEN=b", "PATH=/bin"}, R"({"drop": ["@secrets"], "keep": ["GITHUB_*"]})") ==
        List{"GITHUB_TOKEN=a", "PATH=/bin"});
}

TEST_CASE("environment: keep without drop keeps nothing else") {
  CHECK(applied({"PATH=/bin", "LANG=C", "X=1"}, R"({"keep": ["PATH", "LANG"]})") == List{"PATH=/bin", "LANG=C"});
  CHECK(applied({"PATH=/bin", "LANG=C"}, R"({"keep": []})") == List{});
}

TEST_CASE("environment: set replaces, adds, and may hold what drop names") {
  CHECK(applied({"CI=false", "A=1", "CI=no"}, R"({"drop": ["A"], "set": {"CI": "true", "A": "2=3"}})") ==
        List{"CI=true", "A=2=3"});
}

TEST_CASE("environment: an entry that no rule can name does not pass a restricted environment") {
  CHECK(applied({"junk", "A=1"}, R"({"drop": []})") == List{"A=1"});
  CHECK(apply_environment({"junk"}, {}) == List{"junk"});
}

TEST_CASE("environment: each layer takes away from what the one before has left") {
  const Policy first = policy_of(R"({"version": 1, "environment": {"keep": ["A", "B"], "set": {"S": "1"}}})");
  const Policy second = policy_of(R"({"version": 1, "environment": {"keep": ["B", "C"]}})");
  const std::vector<EnvironmentRules> layers = {*first.environment, *second.environment};
  CHECK(apply_environment({"A=1", "B=2", "C=3"}, layers) == List{"B=2"});
}

TEST_CASE("environment: what is no name of a variable is refused with its place") {
  CHECK(problem_of(R"({"version": 1, "environment": {"drop": ["A=B"]}})") ==
        "ci.json:1 #/environment/drop/0: \"A=B\" is not the name of a variable");
  CHECK(problem_of(R"({"version": 1, "environment": {"keep": [""]}})") == "ci.json:1 #/environment/keep/0: an empty name");
  CHECK(problem_of(R"({"version": 1, "environment": {"drop": ["@secret"]}})") ==
        "ci.json:1 #/environment/drop/0: unknown group of variables \"@secret\"; did you mean \"@secrets\"?");
  CHECK(problem_of(R"({"version": 1, "environment": {"set": {"A=": "x"}}})") ==
        "ci.json:1 #/environment/set/A=: \"A=\" is not the name of a variable");
  CHECK(problem_of(R"({"version": 1, "environment": {"set": {"A": "x\u0000y"}}})") ==
        "ci.json:1 #/environment/set/A: a value cannot hold a NUL byte");
  CHECK(problem_of(R"({"version": 1, "environment": {"set": {"A": 1}}})") ==
        "ci.json:1 #/environment/set/A: expected a string, found a number");
  CHECK(problem_of(R"({"version": 1, "environment": {"dropp": []}})") ==
        "ci.json:1 #/environment/dropp: unknown key \"dropp\"; did you mean \"drop\"?");
}

}  // namespace srun::policy::test
