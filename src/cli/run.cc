#include "cli/run.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "kernel/sys.h"
#include "policy/environment.h"
#include "policy/file_fix.h"
#include "policy/fix.h"
#include "policy/loader.h"
#include "policy/lowering.h"
#include "policy/network_lowering.h"
#include "report/check_report.h"
#include "report/denial_reporter.h"
#include "report/denial_text.h"
#include "report/events_writer.h"
#include "sandbox/capabilities.h"
#include "sandbox/descriptors.h"
#include "sandbox/launcher.h"
#include "sandbox/mounts.h"
#include "sandbox/program.h"
#include "supervisor/guard.h"
#include "supervisor/process_tree.h"
#include "supervisor/session.h"
#include "supervisor/terminal.h"

extern char** environ;

namespace srun::cli {
namespace {

supervisor::ServiceMode service_mode(Service service) {
  switch (service) {
    case Service::kAsync:
      return supervisor::ServiceMode::kAsync;
    case Service::kSync:
      return supervisor::ServiceMode::kSync;
    case Service::kPinned:
      return supervisor::ServiceMode::kPinned;
    case Service::kAuto:
      break;
  }
  return supervisor::ServiceMode::kAuto;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::string variable(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.compare(0, name.size(), name) == 0)
      return entry.substr(name.size() + 1);
  return "";
}

void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment,
                [&](const std::string& entry) { return entry.compare(0, name.size() + 1, name + "=") == 0; });
  environment.push_back(name + "=" + value);
}

Result<policy::QuickFlags, RunError> quick_flags(const Options& options) {
  policy::QuickFlags quick;
  quick.env = options.env;
  const auto refused = [&](const std::string& option, const std::string& value, const std::string& wrong) {
    return failure(RunError{option + " " + escape_for_terminal(value, 80) + ": " + wrong, options.failure_status});
  };
  for (const std::string& rules : options.net)
    if (const std::string wrong = policy::add_net_flag(rules, quick.network); !wrong.empty())
      return refused("--net", rules, wrong);
  for (const std::string& place : options.listen)
    if (const std::string wrong = policy::add_listen_flag(place, quick.network); !wrong.empty())
      return refused("--listen", place, wrong);
  for (const Options::FileFlag& flag : options.files)
    for (const policy::FileVerb verb :
         {policy::FileVerb::kRead, policy::FileVerb::kWrite, policy::FileVerb::kReadOnly, policy::FileVerb::kDeny})
      if (policy::verb_name(verb) == flag.verb) quick.files.push_back({verb, flag.path});
  return quick;
}

policy::LoweringOptions lowering_options(const Options& options, const kernel::Features& features) {
  policy::LoweringOptions lowering;
  lowering.signal_scope = features.signal_scope;
  lowering.landlock_domain = features.signal_scope;  // the only domain there is in this version
  lowering.landlock_abi = features.landlock_abi;
  lowering.virtual_affinity = supervisor::needs_virtual_affinity(service_mode(options.service), features.sync_wake_up);
  lowering.audit = options.audit;
  lowering.denials = options.denials == Denials::kNone  ? policy::Denials::kNone
                     : options.denials == Denials::kAll ? policy::Denials::kAll
                                                        : policy::Denials::kAuto;
  return lowering;
}

// What is told at the start whatever the policy says: a run that is not what it looks like.
void tell_start(const Options& options, const Loaded& loaded, const sandbox::LaunchPlan& plan,
                const kernel::Features& features) {
  if (options.audit) complain("not a sandbox: --audit enforces the guard layer only and lets everything else pass");
  if (options.quiet) return;
  for (const std::string& warning : loaded.enforcement.warnings) complain(warning);
  // H42: said to people only, and only where nobody has chosen anything.
  const bool flags = !options.net.empty() || !options.listen.empty() || !options.files.empty() || !options.env.empty();
  if (!options.chosen_policy && !flags && isatty(STDERR_FILENO) != 0 && !loaded.enforcement.unrestricted.empty()) {
    std::string parts;
    for (const std::string& part : loaded.enforcement.unrestricted) parts += (parts.empty() ? "" : ", ") + part;
    complain("policy default (sandbox-policy show default); not restricted: " + parts);
  }
  if (features.root && !plan.private_mounts)
    complain(
        "running as root without a private mount namespace: /proc/sys and other control files of the kernel stay "
        "writable for the program");
}

// Hears the events and, at the end, says what has to be said.
class Reports {
 public:
  Reports(const Options& options, const Loaded& loaded, Outputs outputs)
      : enforcement_(loaded.enforcement),
        sink_(outputs.denials ? std::move(outputs.denials) : std::move(outputs.standard_error),
              report::OutputSink::Batching::kLineByLine),
        reporter_(loaded.enforcement, sink_,
                  denial_options(options, loaded, sink_.is_terminal() ? sink_.fd() : BorrowedFd())) {
    if (outputs.events) events_.emplace(loaded.enforcement, std::move(outputs.events));
    if (events_) events_->begin(SANDBOX_RUN_VERSION, options.program);
  }

  void on_event(const report::Event& event) {
    reporter_.add(event);
    if (events_) events_->add(event);
  }
  void on_tick() {
    sink_.flush();
    if (events_) events_->tick();
  }

  // `wait_status` of the program; absent if it never ran.
  int finish(const Options& options, std::optional<int> wait_status, int early_status, uint64_t dropped,
             uint64_t internal_errors, pid_t target, const std::string& program) {
    bool killed = false;
    if (wait_status) {
      const std::string who =
          "[" + std::to_string(target) + " " + escape_for_terminal(program.substr(program.rfind('/') + 1)) + "]";
      if (std::optional<std::string> line = report::kill_line(enforcement_, *wait_status, who)) {
        killed = true;
        if (!options.quiet) reporter_.add_final_line(std::move(*line));
      }
    }
    if (internal_errors > 0)
      reporter_.add_final_line("sandbox-run: internal error: kernel and supervisor disagreed about " +
                               count_of(internal_errors, "call") + "; each was refused. Please report this.\n");
    reporter_.set_lost(dropped);
    const int status = wait_status
                           ? exit_status(RunEnd{*wait_status, killed, reporter_.any_denied()}, options.fail_on_denial)
                           : early_status;
    if (events_) {
      events_->finish(reporter_.counts(), dropped, report::RunResult{status, wait_status, killed});
      if (const std::optional<Error> error = events_->take_failure())
        reporter_.add_final_line("sandbox-run: --events: " + error->message() + "; " +
                                 count_of(events_->unwritten(), "line") + " missing\n");
    }
    // What the kernel refuses by itself nobody sees. Said only to people, and only when something went wrong (H43).
    if (status != 0 && wait_status && enforcement_.files.present && !enforcement_.files.reads_named && !options.quiet &&
        options.denials == Denials::kAuto && sink_.is_terminal())
      reporter_.add_final_line("sandbox-run: exit status " + std::to_string(status) +
                               "; refused reads are not named, --denials all names them\n");
    reporter_.finish();
    return status;
  }

 private:
  static report::DenialOptions denial_options(const Options& options, const Loaded& loaded, BorrowedFd terminal) {
    report::DenialOptions denial;
    denial.when =
        options.denials_to == DenialsTo::kEnd ? report::DenialOptions::When::kEnd : report::DenialOptions::When::kLive;
    denial.quiet = options.quiet;
    if (options.events)
      denial.events_place =
          options.events->path.empty() ? "fd:" + std::to_string(options.events->fd) : options.events->path;
    denial.suggest_fix = [&loaded](const report::Event& event) -> std::optional<std::string> {
      if (event.access == 0 && event.object_length != 0) {
        const policy::Verdict* const verdict = report::verdict_of(loaded.enforcement, event);
        const std::optional<kernel::Arch> arch = kernel::arch_from_audit(event.audit_arch);
        const kernel::Syscall* const row = arch ? kernel::find_syscall(*arch, event.nr) : nullptr;
        if (verdict == nullptr || row == nullptr || event.object_cut) return std::nullopt;
        return policy::suggested_network_fix(loaded.stack, *verdict,
                                             std::string_view(event.object, event.object_length),
                                             row->name == "bind" || row->name == "listen");
      }
      if (event.access != 0) {
        const policy::Verdict* const verdict = report::verdict_of(loaded.enforcement, event);
        if (verdict == nullptr || event.object_cut) return std::nullopt;
        return policy::suggested_file_fix(loaded.stack, *verdict, std::string_view(event.object, event.object_length),
                                          static_cast<policy::FileAccess>(event.access));
      }
      bpf::CallData call;
      call.nr = static_cast<int32_t>(event.nr);
      call.arch = event.audit_arch;
      std::copy(std::begin(event.args), std::end(event.args), std::begin(call.args));
      return policy::suggested_fix(loaded.stack, loaded.lowering, loaded.enforcement, call);
    };
    if (terminal) denial.terminal_is_raw = [terminal] { return report::terminal_is_raw(terminal); };
    return denial;
  }

  const policy::Enforcement& enforcement_;
  report::OutputSink sink_;
  report::DenialReporter reporter_;
  std::optional<report::EventsWriter> events_;
};

// The supervisor process, from its first line to its exit status.
int supervisor_main(const Options& options, const kernel::Features& features, const Loaded& loaded,
                    sandbox::LaunchPlan plan, const std::vector<int>& inherited, Outputs outputs,
                    const supervisor::TerminalState& terminal, supervisor::GuardLink link) {
  plan.signal_mask = link.caller_mask;
  Reports reports(options, loaded, std::move(outputs));
  const auto fail = [&](const Error& error, int status) {
    complain(error.message());
    return reports.finish(options, std::nullopt, status, 0, 0, -1, "");
  };

  Result<sandbox::LaunchStatus> launch_status = sandbox::LaunchStatus::create();
  if (!launch_status) return fail(launch_status.error(), options.failure_status);
  supervisor::SessionOptions session;
  session.inherited = inherited;
  session.service.mode = service_mode(options.service);
  session.service.sync_available = features.sync_wake_up;
  session.service.every_event = options.events.has_value();
  session.service.engine.jit = !options.no_jit;
  session.control.wait_for_all = options.wait == Wait::kAll;
  if (const Result<cpu_set_t> mask = kernel::get_affinity(0))
    session.service.root_mask = *mask;
  else
    return fail(mask.error(), options.failure_status);

  Result<sandbox::Launched> launched = sandbox::launch(plan, *launch_status, link.guard_pidfd.borrow());
  if (!launched) return fail(launched.error(), options.failure_status);
  const pid_t target = launched->pid;
  const Result<supervisor::SessionResult> ended = supervisor::run_session(
      loaded.enforcement, session, link, supervisor::Target{target, std::move(launched->listener)},
      [&](const report::Event& event) { reports.on_event(event); }, [&] { reports.on_tick(); });
  if (!ended) return fail(ended.error(), options.failure_status);
  // The guard would do this; without it the terminal is ours to put right.
  if (ended->run.guard_died) terminal.restore();
  debug_log("served " + std::to_string(ended->served) + " notifications");

  if (const std::optional<Error> error = launch_status->failure_of_child(plan)) {
    const bool exec = error->operation == "run";
    complain(error->message());
    return reports.finish(options, std::nullopt, exec ? exec_failure_status(error->code) : options.failure_status,
                          ended->dropped_events, ended->internal_errors, target, plan.program);
  }
  return reports.finish(options, ended->run.wait_status, 0, ended->dropped_events, ended->internal_errors, target,
                        plan.program);
}

}  // namespace

void complain(const std::string& message) {
  const std::string line = "sandbox-run: " + message + "\n";
  // One write, so that lines of several processes do not mix; nothing can be done if it fails.
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

Result<Loaded, RunError> load(const Options& options, const kernel::Features& features) {
  policy::LoadOptions load_options;
  load_options.oci.arch = kernel::kNativeArch;
  load_options.oci.kernel = {features.kernel.major, features.kernel.minor};
  load_options.oci.capabilities = sandbox::capability_names(
      sandbox::target_capabilities(features.root, features.bounding_capabilities, features.effective_capabilities));
  const Result<policy::QuickFlags, RunError> quick = quick_flags(options);
  if (!quick) return failure(quick.error());
  Result<policy::PolicyStack, policy::PolicyError> stack = policy::load_stack(options.policies, *quick, load_options);
  if (!stack) return failure(RunError{stack.error().text(), options.failure_status});
  std::vector<std::string> outputs;
  if (options.events && !options.events->path.empty()) outputs.push_back(options.events->path);
  if (options.denials_to == DenialsTo::kFile) outputs.push_back(options.denials_file);
  // They must be there to be protected; open_outputs() says what is wrong if that fails.
  if (options.mode == Mode::kRun && !options.audit)
    for (const std::string& path : outputs)
      UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!options.audit) policy::protect_files(*stack, outputs);
  policy::LoweringOptions lowering = lowering_options(options, features);
  const bool covers = std::any_of(stack->layers.begin(), stack->layers.end(), [](const policy::StackLayer& layer) {
    if (layer.policy == nullptr) return false;
    const std::optional<policy::NetworkSection>& network = layer.policy->network;
    const auto named = [](const policy::NetworkEntry& entry) { return !entry.name.empty(); };
    return layer.policy->files.has_value() ||
           (network && std::any_of(network->connect.begin(), network->connect.end(), named));
  });
  if (covers && !options.audit && features.kernel >= kernel::KernelVersion{5, 12})
    lowering.masks = features.root ? features.mount_namespace
                                   : !options.pretend_missing.user_namespace && kernel::probe_user_mounts();
  Result<policy::Enforcement, policy::PolicyError> enforcement = policy::lower(*stack, lowering);
  if (!enforcement) return failure(RunError{enforcement.error().text(), options.failure_status});
  if (enforcement->network.present && !options.audit)
    if (const std::optional<Error> error = kernel::probe_descriptor_duplication(options.pretend_missing))
      return failure(RunError{error->message(), options.failure_status});
  return Loaded{std::move(*stack), lowering, std::move(*enforcement)};
}

Result<sandbox::LaunchPlan, RunError> plan_launch(const Options& options, const kernel::Features& features,
                                                  const policy::Enforcement& enforcement,
                                                  const std::vector<int>& inherited) {
  const auto refused = [&](const Error& error) { return failure(RunError{error.message(), options.failure_status}); };
  sandbox::LaunchPlan plan;
  const std::vector<std::string> outside = current_environment();
  plan.environment = policy::apply_environment(outside, enforcement.environment);
  set_variable(plan.environment, "SANDBOX_RUN", enforcement.display_name);
  plan.arguments = options.program;
  plan.directory = options.chdir.value_or("");

  // The program is looked for with the caller's PATH, as a shell would before it forgets its environment; a relative
  // name with a slash is meant from --chdir's directory, since execve runs there.
  const std::string path = variable(outside, "PATH");
  Result<std::string> program =
      sandbox::find_program(options.program.front(), path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path);
  if (!program) return failure(RunError{program.error().message(), exec_failure_status(program.error().code)});
  plan.program = std::move(*program);

  Result<std::vector<int>> kept =
      sandbox::kept_descriptors(inherited, options.program, variable(outside, "MAKEFLAGS"), options.keep_fds);
  if (!kept) return refused(kept.error());
  plan.kept_descriptors = std::move(*kept);

  plan.scope_signals = features.signal_scope;
  plan.landlock = enforcement.landlock;
  plan.masks = enforcement.files.masks;
  plan.user_namespace = !plan.masks.empty() && !features.root;
  plan.restrict_capabilities = features.root;
  plan.capabilities =
      sandbox::target_capabilities(features.root, features.bounding_capabilities, features.effective_capabilities);
  plan.private_mounts = features.root && features.mount_namespace;
  if (plan.private_mounts) {
    std::ifstream file("/proc/self/mountinfo", std::ios::binary);
    const std::string mounts((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (mounts.empty())
      return refused(Error::from_text("/proc/self/mountinfo", "", "cannot be read; as root sandbox-run needs /proc"));
    plan.control_mounts = sandbox::control_mounts_elsewhere(mounts);
  }
  if (features.root && !plan.private_mounts && options.strict)
    return refused(Error::from_text("--strict", "",
                                    "as root the kernel's control files must be masked, and no mount namespace can be "
                                    "had here; run as an ordinary user"));
  plan.wait_killable = features.wait_killable;
  const std::span<const bpf::Instruction> code = enforcement.programs->kernel.code();
  plan.filter.assign(code.begin(), code.end());
  return plan;
}

Result<Outputs, RunError> open_outputs(const Options& options) {
  const auto refused = [&](const Error& error) { return failure(RunError{error.message(), options.failure_status}); };
  Outputs outputs;
  Result<UniqueFd> standard_error = report::adopt_output(STDERR_FILENO);
  if (standard_error) outputs.standard_error = std::move(*standard_error);
  if (options.events) {
    Result<UniqueFd> events = options.events->path.empty() ? report::adopt_output(options.events->fd)
                                                           : report::open_output(options.events->path);
    if (!events) return refused(events.error());
    outputs.events = std::move(*events);
  }
  if (options.denials_to == DenialsTo::kFile) {
    Result<UniqueFd> denials = report::open_output(options.denials_file);
    if (!denials) return refused(denials.error());
    outputs.denials = std::move(*denials);
  }
  return outputs;
}

int supervise(const Options& options, const kernel::Features& features, const Loaded& loaded,
              const sandbox::LaunchPlan& plan, const std::vector<int>& inherited, Outputs outputs) {
  tell_start(options, loaded, plan, features);
  const supervisor::TerminalState terminal = supervisor::TerminalState::capture();
  const Result<int> status =
      supervisor::run_under_guard(terminal, options.failure_status, inherited, [&](supervisor::GuardLink link) {
        try {
          return supervisor_main(options, features, loaded, plan, inherited, std::move(outputs), terminal,
                                 std::move(link));
        } catch (const std::exception& error) {
          // Memory or the standard library: end what was started, then fail.
          supervisor::end_all();
          complain(error.what());
          return options.failure_status;
        }
      });
  if (!status) {
    complain(status.error().message());
    return options.failure_status;
  }
  return *status;
}

std::string check_text(const Options& options, const kernel::Features& features, const Loaded& loaded,
                       const std::optional<sandbox::LaunchPlan>& plan) {
  std::vector<std::string> steps = plan ? plan->describe() : std::vector<std::string>{};
  std::string text = report::check_report(loaded.enforcement, steps);
  const std::vector<std::string> gaps = features.gaps();
  if (!gaps.empty()) text += "this host\n";
  for (const std::string& gap : gaps) text += "  " + gap + "\n";
  if (options.audit) text += "not a sandbox: --audit enforces the guard layer only\n";
  return text;
}

std::string host_check_text(const kernel::Features& features) {
  std::string text = "kernel " + escape_for_terminal(features.release) +
                     (features.root ? ", as root" : ", as an ordinary user") + "\n";
  text += "seccomp filter with notification listener: yes\n";
  text += "killable wait (5.19): " + std::string(features.wait_killable ? "yes" : "no") + "\n";
  text += "synchronous wake-up (6.6): " + std::string(features.sync_wake_up ? "yes" : "no") + "\n";
  text +=
      "Landlock: " + (features.landlock_abi == 0 ? std::string("no") : "ABI " + std::to_string(features.landlock_abi)) +
      (features.signal_scope ? ", signal scope" : "") + "\n";
  if (features.root) text += "private mount namespace: " + std::string(features.mount_namespace ? "yes" : "no") + "\n";
  for (const std::string& gap : features.gaps()) text += "gap: " + gap + "\n";
  return text;
}

}  // namespace srun::cli
