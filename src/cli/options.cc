#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/text.h"

namespace srun::cli {
namespace {

// Options of the design that this version does not know how to obey. They are named so that the answer is "not yet"
// and never "unknown", and none is ever ignored (invariant I7).
// clang-format off
constexpr std::array<std::string_view, 53> kLater = {
    "--annotate", "--ask", "--attach", "--best-effort", "--known", "--learn", "--limit",
    "--private", "--report", "--strict-paths", "--summary", "--summary-only", "--timeout",
    "--trace", "-C", "-P", "-S", "-T", "-U", "-Z", "-c", "-e", "-f", "-ff", "-k", "-n", "-o", "-r", "-s",
    "-t", "-tt", "-ttt", "-v", "-w", "-x", "-xx", "-y", "-yy", "-z", "--trace-path", "--stack-trace",
    "--follow-forks", "--string-limit", "--decode-fds", "--relative-timestamps", "--syscall-times",
    "--absolute-timestamps", "--successful-only", "--failed-only", "--no-abbrev", "--summary-sort-by",
    "--summary-columns", "--output"};
// clang-format on

// The message of a refused value: what it was, what would have been right, and the nearest right word.
std::string bad_value(std::string_view option, std::string_view value, std::string_view expected,
                      std::span<const std::string_view> words = {}) {
  std::string text = std::string(option) + " " + escape_for_terminal(value, 80) + ": expected " + std::string(expected);
  const std::string_view nearest = nearest_name(value, words);
  if (!nearest.empty()) text += "; did you mean " + std::string(nearest) + "?";
  return text;
}

// Whole text, decimal, no sign: "12x", "+1" and "" are nothing.
std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  if (text.empty() || text[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Thrown only inside this file: CLI11 reports by exceptions, which end at the edge of parse_options.
struct Refused {
  std::string message;
};

template <typename Enum, size_t N>
Enum word(std::string_view option, const std::string& value,
          const std::array<std::pair<std::string_view, Enum>, N>& table) {
  std::string expected;
  std::array<std::string_view, N> words;
  for (size_t i = 0; i < N; ++i) {
    if (value == table[i].first) return table[i].second;
    words[i] = table[i].first;
    expected += std::string(i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(words[i]);
  }
  throw Refused{bad_value(option, value, expected, words)};
}

constexpr std::array<std::pair<std::string_view, Denials>, 3> kDenialsWords{
    {{"auto", Denials::kAuto}, {"all", Denials::kAll}, {"none", Denials::kNone}}};
constexpr std::array<std::pair<std::string_view, Wait>, 2> kWaitWords{{{"main", Wait::kMain}, {"all", Wait::kAll}}};
constexpr std::array<std::pair<std::string_view, Service>, 4> kServiceWords{
    {{"auto", Service::kAuto}, {"async", Service::kAsync}, {"sync", Service::kSync}, {"pinned", Service::kPinned}}};
constexpr std::array<std::pair<std::string_view, bool kernel::PretendMissing::*>, 6> kPretendWords{
    {{"landlock", &kernel::PretendMissing::landlock},
     {"sync-wake", &kernel::PretendMissing::sync_wake},
     {"wait-killable", &kernel::PretendMissing::wait_killable},
     {"mount-namespace", &kernel::PretendMissing::mount_namespace},
     {"user-namespace", &kernel::PretendMissing::user_namespace},
     {"pidfd-getfd", &kernel::PretendMissing::pidfd_getfd}}};

void add_env(Options& options, const std::string& value) {
  if (value[0] == '=') throw Refused{bad_value("--env", value, "NAME, GLOB or NAME=VALUE")};
  options.env.push_back(value);
}

void add_keep_fd(Options& options, const std::string& value) {
  const std::optional<int> fd = whole_number(value);
  if (!fd) throw Refused{bad_value("--keep-fd", value, "the number of an open descriptor")};
  options.keep_fds.push_back(*fd);
}

void set_denials_to(Options& options, const std::string& value) {
  options.denials_to = value == "live" ? DenialsTo::kLive : value == "end" ? DenialsTo::kEnd : DenialsTo::kFile;
  options.denials_file = options.denials_to == DenialsTo::kFile ? value : std::string();
}

void set_events(Options& options, const std::string& value) {
  if (!value.starts_with("fd:")) {
    options.events = OutputPlace{value, -1};
    return;
  }
  const std::optional<int> fd = whole_number(std::string_view(value).substr(3));
  if (!fd) throw Refused{bad_value("--events", value, "FILE or fd:N (a file of that name is ./fd:…)")};
  options.events = OutputPlace{"", *fd};
}

int failure_status_value(const std::string& value) {
  const std::optional<int> status = whole_number(value);
  // 0 would make a run that never started look like success to every caller.
  if (!status || *status < 1 || *status > 255) throw Refused{bad_value("--failure-status", value, "1 to 255")};
  return *status;
}

void set_pretend_missing(Options& options, const std::string& value) {
  std::string_view rest = value;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    options.pretend_missing.*word("--pretend-missing", name, kPretendWords) = true;
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

// Registers every option of this version; the callbacks run in the order of the command line's options.
void declare(CLI::App& app, Options& options) {
  app.set_help_flag();  // the help is our own text: CLI11's does not fit a screen
  const auto value = [&app](const std::string& name, std::function<void(const std::string&)> apply) {
    app.add_option_function<std::vector<std::string>>(
           name,
           [apply = std::move(apply)](const std::vector<std::string>& given) {
             for (const std::string& one : given) apply(one);  // for options that hold one value the last one wins
           })
        ->allow_extra_args(false);
  };
  value("-p,--policy", [&](const std::string& v) { options.policies.push_back(v); });
  value("--net", [&](const std::string& v) { options.net.push_back(v); });
  value("--listen", [&](const std::string& v) { options.listen.push_back(v); });
  for (const std::string verb : {"read", "write", "read-only", "deny"})
    value("--" + verb, [&options, verb](const std::string& v) { options.files.push_back({verb, v}); });
  value("--env", [&](const std::string& v) { add_env(options, v); });
  value("--chdir", [&](const std::string& v) { options.chdir = v; });
  value("--keep-fd", [&](const std::string& v) { add_keep_fd(options, v); });
  value("--denials", [&](const std::string& v) { options.denials = word("--denials", v, kDenialsWords); });
  value("--denials-to", [&](const std::string& v) { set_denials_to(options, v); });
  value("--events", [&](const std::string& v) { set_events(options, v); });
  value("--failure-status", [&](const std::string& v) { options.failure_status = failure_status_value(v); });
  value("--wait", [&](const std::string& v) { options.wait = word("--wait", v, kWaitWords); });
  value("--service", [&](const std::string& v) { options.service = word("--service", v, kServiceWords); });
  value("--pretend-missing", [&](const std::string& v) { set_pretend_missing(options, v); });
  app.add_flag_callback("--check", [&] { options.mode = Mode::kCheck; });
  app.add_flag("--audit", options.audit);
  app.add_flag("--fail-on-denial", options.fail_on_denial);
  app.add_flag("--strict", options.strict);
  app.add_flag("--quiet", options.quiet);
  app.add_flag("--debug", options.debug);
  app.add_flag("--no-jit", options.no_jit);
  app.add_flag("--version");
  app.add_flag("--help,-h");
}

// "--name", "--name=value", "-p", "-pvalue" apart. Only -p takes an attached value among the short ones.
struct Word {
  std::string name;
  std::optional<std::string> attached;
};
Word split_word(std::string_view text) {
  if (text.starts_with("--")) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return {std::string(text), std::nullopt};
    return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  }
  if (text.starts_with("-p") && text.size() > 2) return {"-p", std::string(text.substr(text[2] == '=' ? 3 : 2))};
  return {std::string(text), std::nullopt};
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const Word& given) {
  if (std::ranges::find(kLater, given.name) != kLater.end())
    throw Refused{given.name + " is not part of this version yet"};
  // strace's short modifiers take their value attached: -etrace=open, -s200.
  if (!given.name.starts_with("--") && given.name.size() > 2) {
    const std::string_view letter = std::string_view(given.name).substr(0, 2);
    if (std::ranges::find(kLater, letter) != kLater.end())
      throw Refused{std::string(letter) + " is not part of this version yet"};
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  std::vector<std::string_view> views(names.begin(), names.end());
  for (const std::string_view later : kLater)
    if (later.starts_with("--")) views.push_back(later);
  std::string text = "unknown option " + escape_for_terminal(given.name, 80);
  const std::string_view nearest = nearest_name(given.name, views);
  text += nearest.empty() ? std::string("; see --help") : "; did you mean " + std::string(nearest) + "?";
  throw Refused{text};
}

// Finds where the options end and writes each in the one form that CLI11 cannot misread, "--name=value": a value may
// begin with "-", and a misspelt option must not be taken for the program.
std::vector<std::string> split_off_options(const CLI::App& app, std::span<const char* const> words,
                                           std::vector<std::string>& program) {
  std::vector<std::string> normal;
  size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string_view text = words[i];
    if (text == "--") {
      ++i;
      break;
    }
    if (text.size() < 2 || text[0] != '-') break;  // "-" alone is a word, not an option
    Word given = split_word(text);
    const CLI::Option* option = app.get_option_no_throw(given.name);
    if (option == nullptr) refuse_unknown(app, given);
    const std::string name = "--" + option->get_lnames().front();
    if (option->get_items_expected_max() == 0) {
      if (given.attached) throw Refused{name + " takes no value"};
      normal.push_back(name);
      continue;
    }
    if (!given.attached) {
      if (i + 1 == words.size()) throw Refused{name + " needs a value"};
      given.attached = words[++i];
    }
    if (given.attached->empty()) throw Refused{name + " needs a value that is not empty"};
    normal.push_back(name + "=" + *given.attached);
  }
  program.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return normal;
}

void check_together(Options& options) {
  for (const int fd : options.keep_fds)
    // A program that holds the record of its own acts can rewrite it (H14).
    if (options.events && options.events->path.empty() && options.events->fd == fd && fd > 2)
      throw Refused{"--keep-fd " + std::to_string(fd) + " would hand the descriptor of --events to the program"};
  if (options.mode == Mode::kCheck && options.program.empty() && options.policies.empty()) {
    options.mode = Mode::kCheckHost;
    return;
  }
  if (options.mode == Mode::kRun && options.program.empty()) throw Refused{"no program to run; see --help"};
  if (options.policies.empty()) {
    options.policies.emplace_back("default");
    options.chosen_policy = false;
  }
}

// What --failure-status says anywhere among the options, for mistakes that stop the parsing before it is reached.
int requested_failure_status(const CLI::App& app, std::span<const char* const> words) {
  int found = ExitCode::kFailure;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view text = words[i];
    if (text == "--" || text.size() < 2 || text[0] != '-') break;
    Word given = split_word(text);
    const CLI::Option* option = app.get_option_no_throw(given.name);
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (takes_value && !given.attached && i + 1 < words.size()) given.attached = words[++i];
    if (given.name != "--failure-status" || !given.attached) continue;
    const std::optional<int> status = whole_number(*given.attached);
    if (status && *status >= 1 && *status <= 255) found = *status;
  }
  return found;
}

}  // namespace

Result<Options, UsageError> parse_options(int argc, const char* const* argv) {
  const std::span<const char* const> words(argv + (argc > 0 ? 1 : 0), argc > 0 ? static_cast<size_t>(argc) - 1 : 0);
  Options options;
  CLI::App app;
  try {
    declare(app, options);
    std::vector<std::string> normal = split_off_options(app, words, options.program);
    std::ranges::reverse(normal);  // CLI11 takes them from the back
    app.parse(std::move(normal));
    if (app.count("--help") > 0) {
      options.mode = Mode::kHelp;
    } else if (app.count("--version") > 0) {
      options.mode = Mode::kVersion;
    } else {
      check_together(options);
    }
    return options;
  } catch (const Refused& refused) {
    return failure(UsageError{refused.message, requested_failure_status(app, words)});
  } catch (const CLI::Error& error) {
    return failure(UsageError{escape_for_terminal(error.what(), 300), requested_failure_status(app, words)});
  }
}

}  // namespace srun::cli
