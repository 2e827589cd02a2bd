// sandbox-policy: looks at policies without running anything under them.
#include <CLI/CLI.hpp>

#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace {

using namespace srun;

constexpr const char* kExitCodes =
    "POLICY is a FILE, a NAME (see list), \"none\" for the guard layer alone, or several joined with commas.\n"
    "Exit status: 0; 1 a finding (check: a warning; disasm: the kernel would refuse the program; explain, dump: the\n"
    "call is refused or may be); 125 a policy that cannot be used or a mistake on the command line.";

int run(int argc, char** argv) {
  CLI::App app("Looks at the policies of sandbox-run.", "sandbox-policy");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", "sandbox-policy " SANDBOX_RUN_VERSION);

  const std::vector<std::pair<std::string, kernel::Arch>> arches = {
      {"x86_64", kernel::Arch::kX86_64}, {"i386", kernel::Arch::kI386}, {"aarch64", kernel::Arch::kAArch64}};
  kernel::Arch arch = kernel::kNativeArch;
  std::string arch_word;
  const auto add_arch = [&](CLI::App* command, const std::vector<std::string>& words) {
    command->add_option("--arch", arch_word, "the processor in place of this one")->check(CLI::IsMember(words));
  };
  const std::vector<std::string> native_words = {"x86_64", "aarch64"};
  std::string what;

  app.add_subcommand("list", "every NAME that --policy takes, with what it does");

  CLI::App* show = app.add_subcommand("show", "print a policy, or the calls of a @GROUP");
  bool effective = false;
  show->add_option("what", what, "POLICY or @GROUP")->required();
  show->add_flag("--effective", effective, "what every call gets in the end, the guard layer included");
  add_arch(show, native_words);

  CLI::App* check = app.add_subcommand("check", "load and compile policies, say what is wrong or deserves a look");
  std::vector<std::string> files;
  bool notes = false;
  check->add_option("files", files, "POLICY")->required();
  check->add_flag("--notes", notes, "also what is left out or changed, which is no finding");

  CLI::App* explain = app.add_subcommand("explain", "what happens to one call, by which rule, enforced by whom");
  std::string call;
  std::vector<std::string> arguments;
  explain->add_option("policy", what, "POLICY")->required();
  explain->add_option("call", call, "name or number")->required();
  explain->add_option("arguments", arguments, "numbers, constants (\"O_RDONLY|O_CREAT\"), or texts for pointers");
  add_arch(explain, {"x86_64", "i386", "aarch64", "x32"});
  explain->positionals_at_end();
  explain->prefix_command(false);

  CLI::App* disasm = app.add_subcommand("disasm", "the compiled program");
  bool copy = false;
  CLI::Option* of_policy = disasm->add_option("policy", what, "POLICY");
  std::string program_file;
  bool packet = false;
  disasm
      ->add_option("--program", program_file,
                   "FILE in place of a policy: raw struct sock_filter, JSON [[code,jt,jf,k],...], or a C array; - is "
                   "standard input")
      ->excludes(of_policy);
  disasm->add_flag("--packet", packet, "the program in FILE is one for packets")->needs("--program");
  disasm->add_flag("--copy", copy, "the supervisor's own copy in place of the kernel's program")->excludes("--program");
  add_arch(disasm, native_words);
  std::string format_word;
  const auto add_format = [&](CLI::App* command) {
    command->add_option("--format", format_word, "text (default), or a program file: raw, json, c")
        ->check(CLI::IsMember({"text", "raw", "json", "c"}));
  };
  add_format(disasm);

  CLI::App* dump =
      app.add_subcommand("dump", "the filters of a running process, or what they do to one call; for root");
  std::string process;
  unsigned layer = 0;
  dump->add_option("pid", process, "number of a process or thread")->required();
  dump->add_option("call", call, "name or number: which layer and instruction decides it?");
  dump->add_option("arguments", arguments, "as for explain");
  dump->add_option("--layer", layer, "just this one, 1 is the oldest")->check(CLI::Range(1u, 10000u));
  add_format(dump);
  add_arch(dump, {"x86_64", "i386", "aarch64", "x32"});
  dump->positionals_at_end();

  CLI::App* import_command = app.add_subcommand("import", "an OCI or Docker profile in this program's language");
  std::string output;
  import_command->add_option("file", what, "the profile, or a whole config.json")->required();
  import_command->add_option("-o,--output", output, "write there in place of standard output; never overwrites");

  app.add_subcommand("schema", "the JSON Schema of policy files, for editors");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    tool::complain(error.what());
    return tool::kBadPolicy;
  }
  for (const auto& [word, value] : arches)
    if (word == arch_word) arch = value;
  if (arch_word == "x32") arch = kernel::Arch::kX86_64;

  if (disasm->parsed() && what.empty() && program_file.empty()) {
    tool::complain("disasm takes a POLICY or --program FILE");
    return tool::kBadPolicy;
  }
  tool::OutputFormat format;
  if (format_word == "raw") format = bpf::ProgramFormat::kRaw;
  if (format_word == "json") format = bpf::ProgramFormat::kJson;
  if (format_word == "c") format = bpf::ProgramFormat::kC;

  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "list") return tool::list_policies();
  if (command == "show") return tool::show(what, effective, arch);
  if (command == "check") return tool::check(files, notes);
  if (command == "explain") return tool::explain(what, call, arguments, arch, arch_word == "x32");
  if (command == "disasm" && !program_file.empty()) return tool::disassemble_file(program_file, packet, format);
  if (command == "disasm") return tool::disassemble(what, copy, arch, format);
  if (command == "dump") return tool::dump(process, call, arguments, arch, arch_word == "x32", format, layer);
  if (command == "import") return tool::import_oci(what, output);
  return tool::print_schema();
}

}  // namespace

int main(int argc, char** argv) {
  // CLI11 and the standard library are the only sources of exceptions here.
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    tool::complain(error.what());
    return tool::kBadPolicy;
  }
}
