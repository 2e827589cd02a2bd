#include "policy/when.h"

#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

std::string condition_problem(const std::string& names, const std::string& when) {
  return problem_of("{\"version\": 1, \"syscalls\": [{\"names\": " + names + ", \"when\": " + when + ", \"action\": \"deny\"}]}");
}
// The same without the place, for a single condition.
std::string value_problem(const std::string& name, const std::string& condition) {
  const std::string text = condition_problem("[\"" + name + "\"]", "[" + condition + "]");
  const size_t at = text.find(": ");
  return text.substr(0, 9) == "ci.json:1" ? text.substr(at + 2) : text;
}
std::vector<bpf::ArgTest> tests_of(const std::string& name, const std::string& when) {
  return policy_of("{\"version\": 1, \"syscalls\": [{\"names\": [\"" + name + "\"], \"when\": " + when + ", \"action\": \"deny\"}]}")
      .rules.at(0)
      .when;
}
bool holds(const std::string& name, const std::string& condition, std::vector<uint64_t> args) {
  const std::vector<bpf::ArgTest> tests = tests_of(name, "[" + condition + "]");
  uint64_t all[6] = {};
  for (size_t i = 0; i < args.size(); ++i) all[i] = args[i];
  return bpf::matches(tests.at(0), all);
}

constexpr uint64_t kHigh = 0xdeadbeef00000000;

}  // namespace

TEST_CASE("when: every operator at the width of the argument, high bits of an int ignored") {
  CHECK(holds("socket", R"({"arg": 0, "op": "==", "value": "AF_INET"})", {kHigh | 2}));
  CHECK(!holds("socket", R"({"arg": 0, "op": "!=", "value": "AF_INET"})", {kHigh | 2}));
  CHECK(holds("socket", R"({"arg": 0, "op": "in", "value": ["AF_INET", "AF_INET6"]})", {kHigh | 10}));
  CHECK(!holds("socket", R"({"arg": 0, "op": "not-in", "value": ["AF_INET", "AF_INET6"]})", {kHigh | 10}));
  CHECK(holds("openat", R"({"arg": 2, "op": "masked", "mask": "O_ACCMODE", "value": "O_RDWR"})", {0, 0, kHigh | 0x80002}));
  CHECK(holds("openat", R"({"arg": 2, "op": "subset", "value": "O_RDWR|O_CLOEXEC"})", {0, 0, kHigh | 0x80002}));
  CHECK(!holds("openat", R"({"arg": 2, "op": "subset", "value": "O_RDWR|O_CLOEXEC"})", {0, 0, 0x40}));
}

TEST_CASE("when: a 64-bit argument is compared whole") {
  CHECK(!holds("mmap", R"({"arg": 1, "op": "==", "value": 4096})", {0, kHigh | 4096}));
  CHECK(holds("mmap", R"({"arg": 1, "op": ">", "value": "0xffffffff"})", {0, uint64_t{1} << 32}));
  CHECK(holds("mmap", R"({"arg": 1, "op": "==", "value": 18446744073709551615})", {0, ~uint64_t{0}}));
}

TEST_CASE("when: negative values (case 4)") {
  for (const std::string value : {"-100", "\"-100\"", "\"AT_FDCWD\"", "\"0xffffff9c\"", "4294967196", "\"0xffffffffffffff9c\""}) {
    CAPTURE(value);
    const std::string condition = "{\"arg\": 0, \"op\": \"==\", \"value\": " + value + "}";
    CHECK(holds("openat", condition, {0xffffff9c}));
    CHECK(holds("openat", condition, {0xffffffffffffff9c}));
    CHECK(!holds("openat", condition, {100}));
  }
  const std::string positive = R"({"arg": 2, "op": ">", "value": 0})";
  CHECK(!holds("setpriority", positive, {0, 0, 0xffffffff}));
  CHECK(!holds("setpriority", positive, {0, 0, ~uint64_t{0}}));
  CHECK(!holds("setpriority", positive, {0, 0, 0}));
  CHECK(holds("setpriority", positive, {0, 0, 1}));
  CHECK(holds("setpriority", R"({"arg": 2, "op": "<", "value": 0})", {0, 0, 0xffffffff}));
}

TEST_CASE("when: a file mode is compared at the 16 bits that the kernel reads") {
  CHECK(holds("chmod", R"({"arg": 1, "op": "==", "value": 511})", {0, 0x10000 | 0777}));
  CHECK(holds("chmod", R"({"arg": 1, "op": "masked", "mask": "S_ISUID", "value": "S_ISUID"})", {0, kHigh | 04755}));
  CHECK(holds("chmod", R"({"arg": 1, "op": "subset", "value": 511})", {0, 0x10000 | 0777}));
  CHECK(!holds("chmod", R"({"arg": 1, "op": "subset", "value": 511})", {0, 04755}));
  CHECK(value_problem("chmod", R"({"arg": 1, "op": "!=", "value": 511})") ==
        "argument 1 is 16 bits; such a one can be compared with ==, masked and subset");
  CHECK(value_problem("chmod", R"({"arg": 1, "op": "==", "value": 65536})") ==
        "65536 is no value of argument 1, which is 16 bits");
}

TEST_CASE("when: values that the argument can never have are errors") {
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": 4294967296})") ==
        "4294967296 is no value of argument 0, which is 32 bits");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": -2147483649})") ==
        "-2147483649 is no value of argument 0, which is 32 bits");
  CHECK(value_problem("setpriority", R"({"arg": 2, "op": "<", "value": "0xffffffff"})") ==
        "\"0xffffffff\" is no value of argument 2, which is 32 bits signed");
  CHECK(value_problem("mmap", R"({"arg": 1, "op": "<", "value": -1})") ==
        "-1 is no value of argument 1, which is 64 bits unsigned");
  CHECK(value_problem("openat", R"({"arg": 2, "op": "masked", "mask": 3, "value": 4})") ==
        "4 has bits outside the mask: the condition can never hold");
  CHECK(value_problem("openat", R"({"arg": 2, "op": "masked", "mask": 0, "value": 0})") == "a mask of 0 looks at nothing");
  CHECK(value_problem("mmap", R"({"arg": 1, "op": "<", "value": 0})") == "these conditions can never hold together");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "in", "value": []})") == "an empty list of values");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": 1.5})") ==
        "expected a number or the name of a constant, found a number that is not a 64-bit integer");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": "AF_INETT"})") ==
        "unknown constant \"AF_INETT\"; did you mean \"AF_INET\"?");
  CHECK(value_problem("openat", R"({"arg": 2, "op": "==", "value": "O_RDWR|"})") == "an empty value in \"O_RDWR|\"");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": "0x"})") == "\"0x\" is not a number of at most 64 bits");
  CHECK(value_problem("socket", R"({"arg": 0, "op": "==", "value": "18446744073709551616"})") ==
        "\"18446744073709551616\" is not a number of at most 64 bits");
}

TEST_CASE("when: an argument that the call does not have is an error") {
  CHECK(value_problem("close", R"({"arg": 1, "op": "==", "value": 0})") == "close has 1 argument, so no argument 1");
  CHECK(value_problem("getpid", R"({"arg": 0, "op": "==", "value": 0})") == "getpid has no arguments, so no argument 0");
  CHECK(value_problem("read", R"({"arg": 6, "op": "==", "value": 0})") == "expected the number of an argument, 0 to 5");
  CHECK(value_problem("read", R"({"arg": -1, "op": "==", "value": 0})") == "expected the number of an argument, 0 to 5");
}

TEST_CASE("when: calls of one rule whose argument differs in width are told apart") {
  CHECK(condition_problem(R"(["read", "munmap"])", R"([{"arg": 0, "op": "==", "value": 0}])") ==
        "ci.json:1 #/syscalls/0/when/0/arg: argument 0 is 32 bits in read but 64 bits in munmap: give the calls rules of their own");
  CHECK(condition_problem(R"(["read", "ftruncate", "fchdir"])", R"([{"arg": 0, "op": "==", "value": 0}])") == "");
}

TEST_CASE("when: keys are strict") {
  CHECK(value_problem("read", R"({"arg": 0, "value": 0})") == "\"op\" is missing");
  CHECK(value_problem("read", R"({"arg": 0, "op": "=", "value": 0})") ==
        "unknown operator \"=\"; known: == != < <= > >= in not-in masked subset; did you mean \"==\"?");
  CHECK(value_problem("read", R"({"op": "==", "value": 0})") == "\"arg\" is missing");
  CHECK(value_problem("read", R"({"arg": 0, "op": "=="})") == "\"value\" is missing");
  CHECK(value_problem("read", R"({"arg": 0, "op": "==", "value": 0, "mask": 1})") ==
        "\"mask\" belongs to the operator \"masked\" only");
  CHECK(value_problem("read", R"({"arg": 0, "op": "masked", "value": 0})") == "\"masked\" needs a \"mask\"");
  CHECK(value_problem("read", R"({"arg": 0, "op": "==", "valeu": 0})") == "unknown key \"valeu\"; did you mean \"value\"?");
  CHECK(condition_problem("[\"read\"]", "[]") ==
        "ci.json:1 #/syscalls/0/when: an empty list of conditions; leave \"when\" out for a rule that always holds");
}

TEST_CASE("when: conditions that exclude each other are an error, others are not") {
  const auto together = [](const std::string& name, const std::string& when) { return condition_problem("[\"" + name + "\"]", when) == ""; };
  CHECK(!together("socket", R"([{"arg": 0, "op": "==", "value": 1}, {"arg": 0, "op": "==", "value": 2}])"));
  CHECK(together("socket", R"([{"arg": 0, "op": "==", "value": 1}, {"arg": 1, "op": "==", "value": 2}])"));
  CHECK(!together("socket", R"([{"arg": 0, "op": ">", "value": 5}, {"arg": 0, "op": "<", "value": 6}])"));
  CHECK(together("socket", R"([{"arg": 0, "op": ">", "value": 5}, {"arg": 0, "op": "<", "value": 7}])"));
  CHECK(!together("socket", R"([{"arg": 0, "op": ">", "value": 5}, {"arg": 0, "op": "<", "value": 7}, {"arg": 0, "op": "!=", "value": 6}])"));
  CHECK(together("socket", R"([{"arg": 0, "op": ">=", "value": 3}, {"arg": 0, "op": "not-in", "value": [3, 4, 5]}])"));
  CHECK(!together("socket", R"([{"arg": 0, "op": "in", "value": [1, 2]}, {"arg": 0, "op": "not-in", "value": [1, 2, 3]}])"));
  CHECK(!together("openat", R"([{"arg": 2, "op": "masked", "mask": 3, "value": 1}, {"arg": 2, "op": "masked", "mask": 1, "value": 0}])"));
  CHECK(!together("openat", R"([{"arg": 2, "op": "masked", "mask": 4, "value": 4}, {"arg": 2, "op": "subset", "value": 3}])"));
  CHECK(together("openat", R"([{"arg": 2, "op": "masked", "mask": 3, "value": 1}, {"arg": 2, "op": "masked", "mask": 4, "value": 4}])"));
  CHECK(!together("setpriority", R"([{"arg": 2, "op": "<", "value": -2147483648}])"));
}

}  // namespace srun::policy::test
