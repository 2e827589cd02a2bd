// sandbox-bench: how fast the parts are, each beside its floor and its peers in the same run.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "bench/cases.h"

namespace srun::bench {
namespace {

struct Case {
  std::string_view name;
  std::string_view description;
  int (*run)(const Options&);
};

constexpr std::array kCases{
    Case{"notify", "round trip of a notified call: bare loops and sandbox-run in each service mode", run_notify},
    Case{"startup", "starting `true`: natively, under sandbox-run, under other sandboxes", run_startup},
    Case{"decide", "one verdict: each engine, the tables and libpcap on the same filters", run_decide},
    Case{"kernel", "what filters cost each system call, ours beside libseccomp's", run_kernel},
    Case{"broker", "opening and looking at files: the kernel enforces, --denials all, served on behalf", run_broker},
};

int usage(int status) {
  std::string text = "usage: sandbox-bench CASE [--json] [--rounds N]\n\n";
  for (const Case& one : kCases) text += fmt::format("  {:<8} {}\n", one.name, one.description);
  text += "\nEvery figure is the median of at least 5 interleaved rounds. Exit status 0 whatever the figures.\n";
  std::fputs(text.c_str(), status == 0 ? stdout : stderr);
  return status;
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) return usage(1);
  if (words[0] == "--help" || words[0] == "-h") return usage(0);
  if (words[0] == "--looper") return run_looper({words.begin() + 1, words.end()});
  if (words[0] == "--file-looper") return run_file_looper({words.begin() + 1, words.end()});
  Options options;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--json") {
      options.json = true;
    } else if (words[i] == "--rounds" && i + 1 < words.size()) {
      const std::string& text = words[++i];
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), options.rounds);
      if (error != std::errc{} || end != text.data() + text.size() || options.rounds < 1) {
        fmt::print(stderr, "sandbox-bench: --rounds takes a number from 1 up, not '{}'\n", text);
        return 1;
      }
    } else {
      options.rest.push_back(words[i]);
    }
  }
  for (const Case& one : kCases) {
    if (one.name == words[0]) return one.run(options);
  }
  fmt::print(stderr, "sandbox-bench: no case '{}'\n", words[0]);
  return usage(1);
}

}  // namespace
}  // namespace srun::bench

int main(int argc, char** argv) { return srun::bench::run({argv + 1, argv + argc}); }
