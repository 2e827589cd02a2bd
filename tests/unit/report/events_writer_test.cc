#include "report/events_writer.h"

#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "pipe_fixture.h"
#include "report_fixtures.h"

using namespace srun;
using namespace srun::report;
using namespace srun::report::test;
using nlohmann::json;

namespace {

std::string record(const Event& event) {
  std::string line;
  append_event_record(line, enforcement(), event);
  return line;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The exact bytes of a text field: from its "_hex" where there is one.
std::string bytes_of(const json& object, const std::string& key) {
  if (!object.contains(key + "_hex")) return object[key].get<std::string>();
  const std::string hex = object[key + "_hex"].get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace

TEST_CASE("events: a decision is one object with every field") {
  CHECK(record(ptrace_attach()) ==
        "{\"type\":\"decision\",\"time\":\"2026-12-01T03:04:05.000000678Z\",\"pid\":4712,\"tid\":4712,\"comm\":\"gdb\","
        "\"arch\":\"x86_64\",\"nr\":101,\"syscall\":\"ptrace\",\"args\":[16,4711,0,0,0,0],"
        "\"text\":\"ptrace(PTRACE_ATTACH, 4711)\",\"verdict\":\"denied\",\"errno\":\"EPERM\",\"repeats\":1,"
        "\"rule\":{\"layer\":1,\"file\":\"ci.json\",\"line\":7,\"pointer\":\"#/syscalls/0\","
        "\"reason\":\"no debuggers in CI\",\"default\":false}}\n");
}

TEST_CASE("events: each outcome has its word, and an errno or value where there is one") {
  Event event = ptrace_attach();
  event.outcome = Outcome::kLogged;
  CHECK(json::parse(record(event))["verdict"] == "logged");
  CHECK_FALSE(json::parse(record(event)).contains("errno"));
  event.outcome = Outcome::kReturned;
  event.answer = 7;
  CHECK(json::parse(record(event))["verdict"] == "returned");
  CHECK(json::parse(record(event))["value"] == 7);
  event.outcome = Outcome::kKilled;
  CHECK(json::parse(record(event))["verdict"] == "killed");
  event.outcome = Outcome::kAudited;
  event.verdict = 6;
  event.answer = 0;
  CHECK(json::parse(record(event))["verdict"] == "audited");
  CHECK(json::parse(record(event))["errno"] == "EACCES");
}

TEST_CASE("events: args keep every bit: integers up to 2^53, hex strings above") {
  const uint64_t exact = uint64_t{1} << 53;
  const json parsed = json::parse(record(event(1, kPtrace, {exact, exact + 1, ~uint64_t{0}, 0, 1, 0xffffffff})));
  CHECK(parsed["args"] == json::array({exact, "0x20000000000001", "0xffffffffffffffff", 0, 1, 0xffffffff}));
}

TEST_CASE("events: foreign and unknown calls, unknown processes and rules") {
  Event unknown = event(3, 0x40000000 | 39, {});
  unknown.tgid = 0;
  CHECK(json::parse(record(unknown))["arch"] == "x32");
  CHECK(json::parse(record(unknown))["syscall"] == "getpid");
  CHECK(json::parse(record(unknown))["pid"].is_null());
  CHECK(json::parse(record(unknown))["rule"]["default"] == true);
  unknown.nr = 9999;
  CHECK(json::parse(record(unknown))["syscall"].is_null());
  CHECK(json::parse(record(unknown))["arch"] == "x86_64");
  unknown.audit_arch = 0xc0000028;
  CHECK(json::parse(record(unknown))["arch"] == "0xc0000028");
  unknown.verdict = 999;
  CHECK(json::parse(record(unknown))["rule"].is_null());
}

TEST_CASE("events: every byte that a program can put in its name gives a line that parses and gives the byte back") {
  for (int byte = 1; byte < 256; ++byte) {
    const std::string comm = {'a', static_cast<char>(byte), '"', '\\', '\n', '}'};
    const std::string line = record(event(1, kPtrace, {0x10, 1}, comm));
    CHECK(line.find('\n') == line.size() - 1);
    CHECK(json::accept(line));
    if (!json::accept(line)) continue;
    const json parsed = json::parse(line);
    CHECK(bytes_of(parsed, "comm") == comm);
    CHECK(parsed.contains("comm_hex") == (byte >= 0x80));
  }
}

TEST_CASE("events: hostile policy texts parse too") {
  policy::Enforcement rules = enforcement();
  rules.verdicts[1].rule.reason = std::string("\x01\x02\x03\"\n{\"type\":\"summary\"}\xff", 25);
  rules.verdicts[1].rule.file = "\xc3(\xed\xa0\x80.json";
  std::string line;
  append_event_record(line, rules, ptrace_attach());
  CHECK(line.find('\n') == line.size() - 1);
  const json parsed = json::parse(line);
  CHECK(parsed["type"] == "decision");
  CHECK(bytes_of(parsed["rule"], "reason") == rules.verdicts[1].rule.reason);
  CHECK(bytes_of(parsed["rule"], "file") == rules.verdicts[1].rule.file);
}

TEST_CASE("events: header first, summary last, everything between, all of it written at the end") {
  const policy::Enforcement rules = enforcement();
  Pipe pipe;
  EventsWriter writer(rules, std::move(pipe.write_end));
  writer.begin("0.1.0", {"sandbox-run", "-p", "ci.json", "a\xff\nb"});
  for (int i = 0; i < 3; ++i) writer.add(ptrace_attach());
  CHECK(writer.pending());
  writer.tick();
  CHECK_FALSE(writer.pending());
  DecisionCounts counts;
  counts.denied = 3;
  counts.logged = 1;
  writer.finish(counts, 2, {.status = 159, .wait_status = SIGSYS | 0x80, .killed_by_policy = true});
  const std::vector<std::string> lines = split_lines(pipe.drain());
  REQUIRE(lines.size() == 5);
  const json header = json::parse(lines[0]);
  CHECK(header["type"] == "run");
  CHECK(header["version"] == "0.1.0");
  CHECK(header["argv"].size() == 4);
  CHECK(header["argv"][3] == "a\xef\xbf\xbd\nb");
  CHECK(header["argv_hex"] == json::array({"73616e64626f782d72756e", "2d70", "63692e6a736f6e", "61ff0a62"}));
  CHECK(header["policies"][1]["name"] == "ci.json");
  CHECK(header["policies"][1]["description"] == "builds and tests this project offline");
  CHECK(header["audit"] == false);
  CHECK(header["kernel"].get<std::string>().starts_with("Linux "));
  for (size_t i = 1; i <= 3; ++i) CHECK(json::parse(lines[i])["type"] == "decision");
  const json summary = json::parse(lines[4]);
  CHECK(summary["type"] == "summary");
  CHECK(summary["decisions"] == json({{"denied", 3}, {"returned", 0}, {"logged", 1}, {"killed", 0}, {"audited", 0}}));
  CHECK(summary["lost"] == 2);
  CHECK(summary["unwritten"] == 0);
  CHECK(summary["exit"] == json({{"status", 159}, {"signal", 31}, {"killed_by_policy", true}}));
}

TEST_CASE("events: the summary says how the program ended, or that it never ran") {
  const policy::Enforcement rules = enforcement();
  for (const bool ran : {false, true}) {
    Pipe pipe;
    EventsWriter writer(rules, std::move(pipe.write_end));
    RunResult result;
    result.status = ran ? 3 : 127;
    if (ran) result.wait_status = 3 << 8;
    writer.finish({}, 0, result);
    const json exit = json::parse(pipe.drain())["exit"];
    CHECK(exit == (ran ? json({{"status", 3}, {"exited", 3}, {"killed_by_policy", false}})
                       : json({{"status", 127}, {"killed_by_policy", false}})));
  }
}

TEST_CASE("events: blocks are written without a tick once they are large") {
  const policy::Enforcement rules = enforcement();
  Pipe pipe;
  EventsWriter writer(rules, std::move(pipe.write_end));
  for (int i = 0; i < 300; ++i) writer.add(ptrace_attach());
  CHECK(pipe.drain().size() >= EventsWriter::kFlushBytes / 2);
}

TEST_CASE("events: a reader that stops reading costs records, which the summary counts, and no time") {
  const policy::Enforcement rules = enforcement();
  Pipe pipe;
  EventsWriter writer(rules, std::move(pipe.write_end));
  constexpr int kEvents = 20'000;  // about 8 MB: more than pipe and queue hold
  for (int i = 0; i < kEvents; ++i) writer.add(ptrace_attach());
  CHECK(writer.unwritten() > 0);
  std::string text;
  while (writer.pending()) {
    text += pipe.drain();
    writer.tick();
  }
  writer.finish({}, 0, {});
  text += pipe.drain();
  const std::vector<std::string> lines = split_lines(text);
  const json summary = json::parse(lines.back());
  CHECK(summary["unwritten"] == writer.unwritten());
  CHECK(lines.size() - 1 + writer.unwritten() == kEvents);
  for (const std::string& line : {lines.front(), lines[lines.size() / 2], lines[lines.size() - 2]})
    CHECK(json::parse(line)["type"] == "decision");
}

TEST_CASE("events: times are RFC 3339 with nanoseconds") {
  CHECK(rfc3339(0) == "1970-01-01T00:00:00.000000000Z");
  CHECK(rfc3339(951'782'400'123'456'789) == "2000-02-29T00:00:00.123456789Z");
  CHECK(rfc3339(4'102'444'799'999'999'999) == "2099-12-31T23:59:59.999999999Z");
}
