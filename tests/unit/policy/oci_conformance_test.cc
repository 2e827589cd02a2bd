// The public profiles of the reference data: each loads and compiles, and the reference verdicts (ecosystem, 1.6),
// which were observed under runc and crun, come out.
#include <doctest/doctest.h>

#include "bpf/compiler.h"
#include "bpf/reference.h"
#include "oci_fixture.h"

namespace srun::policy::test {
namespace {

constexpr uint64_t kInet = 2;
constexpr uint64_t kNetlink = 16;
constexpr uint64_t kAlg = 38;
constexpr uint64_t kVsock = 40;
constexpr uint64_t kStream = 1;
constexpr uint64_t kRaw = 3;
constexpr uint64_t kCloneNewUser = 0x10000000;

// The kernel's program and the copy say what the rules say, for every number and a few arguments.
void check_compiled(const LoweredProfile& profile) {
  const auto programs = bpf::compile(profile.layers, profile.table.returns());
  REQUIRE_MESSAGE(programs, programs.error().message());
  for (uint32_t number = 0; number < 520; ++number) {
    for (const uint64_t argument : {uint64_t{0}, uint64_t{2}, uint64_t{16}, uint64_t{38}, uint64_t{39}, uint64_t{40},
                                    uint64_t{41}, uint64_t{0x10000000}, uint64_t{0xffffffff}, ~uint64_t{0}}) {
      bpf::CallData call;
      call.nr = static_cast<int32_t>(number);
      call.arch = kernel::kAuditX86_64;
      for (uint64_t& arg : call.args) arg = argument;
      const bpf::VerdictReturn& expected =
          profile.table.returns()[bpf::decide(profile.layers, profile.table.returns(), call)];
      const uint32_t kernel_says = bpf::run_reference(programs->kernel, call);
      const uint32_t copy_says = bpf::run_reference(programs->copy, call);
      if (kernel_says == expected.kernel_return && copy_says == expected.copy_return) continue;
      INFO("number " << number << " argument " << argument);
      REQUIRE(kernel_says == expected.kernel_return);
      REQUIRE(copy_says == expected.copy_return);
    }
  }
}

}  // namespace

TEST_CASE("OCI: Docker's default profile gives the reference verdicts") {
  const auto text = oci_data("moby-default.json");
  if (!text) return;
  const LoweredProfile moby(*text);
  CHECK(moby.profile.rules_in_file == 33);
  CHECK(moby.profile.rules.size() == 15);
  CHECK(moby.noted("left out in this run: 18 rules of 33"));
  CHECK(moby.on("socket", {kInet, kStream}) == "allow");
  CHECK(moby.on("socket", {kAlg}) == "errno EPERM");
  CHECK(moby.on("socket", {kVsock}) == "errno EPERM");
  CHECK(moby.on("socket", {kNetlink, kRaw, 9}) == "allow");
  CHECK(moby.on("bpf") == "errno EPERM");
  CHECK(moby.on("clone3") == "errno ENOSYS");
  CHECK(moby.on("clone", {kCloneNewUser}) == "errno EPERM");
  CHECK(moby.on("clone", {0x11}) == "allow");
  CHECK(moby.on("personality", {0x40000}) == "errno EPERM");
  CHECK(moby.on("personality", {0xffffffff}) == "allow");
  CHECK(moby.on("keyctl") == "errno EPERM");
  CHECK(moby.on("open_by_handle_at") == "errno EPERM");
  CHECK(moby.on_number(1000) == "errno ENOSYS");  // as in runc
  CHECK(moby.on("ptrace") == "allow");            // minKernel 4.8
  CHECK(moby.profile.warnings.empty());
  check_compiled(moby);
}

TEST_CASE("OCI: Podman's default profile gives the reference verdicts") {
  const auto text = oci_data("containers-common-default.json");
  if (!text) return;
  const LoweredProfile podman(*text);
  CHECK(podman.profile.rules_in_file == 40);
  CHECK(podman.profile.rules.size() == 21);
  CHECK(podman.on("socket", {kInet, kStream}) == "allow");
  CHECK(podman.on("socket", {kAlg}) == "allow");
  CHECK(podman.on("socket", {kVsock}) == "allow");
  CHECK(podman.on("socket", {kNetlink, kRaw, 9}) == "allow");
  CHECK(podman.on("bpf") == "errno EPERM");
  CHECK(podman.on("clone3") == "allow");
  CHECK(podman.on("clone", {kCloneNewUser}) == "allow");
  CHECK(podman.on("personality", {0x40000}) == "errno ENOSYS");
  CHECK(podman.on("personality", {0xffffffff}) == "allow");
  CHECK(podman.on("keyctl") == "allow");
  CHECK(podman.on("open_by_handle_at") == "errno EPERM");
  CHECK(podman.on_number(1000) == "errno ENOSYS");
  CHECK(podman.profile.warnings.empty());
  check_compiled(podman);
}

TEST_CASE("OCI: without CAP_AUDIT_WRITE Podman's profile answers EINVAL to audit sockets only") {
  const auto text = oci_data("containers-common-default.json");
  if (!text) return;
  OciEnvironment ordinary = docker_environment();
  ordinary.capabilities.clear();
  const LoweredProfile podman(*text, ordinary);
  CHECK(podman.on("socket", {kNetlink, kRaw, 9}) == "errno EINVAL");
  CHECK(podman.on("socket", {kNetlink, kRaw, 0}) == "allow");
  CHECK(podman.on("socket", {kInet, kStream, 9}) == "allow");
  check_compiled(podman);
}

TEST_CASE("OCI: the profile that asks an agent about dangerous calls loads, and they answer ENOSYS") {
  const auto text = oci_data("kinvolk-notify-dangerous.json");
  if (!text) return;
  const LoweredProfile profile(*text);
  CHECK(profile.on("mount") == "errno ENOSYS");
  CHECK(profile.on("ptrace") == "errno ENOSYS");
  CHECK(profile.on("openat") == "allow");
  CHECK(profile.on_number(1000) == "allow");
  CHECK(profile.count_noted("SCMP_ACT_NOTIFY without an agent: these calls answer ENOSYS") == 1);
  check_compiled(profile);
}

TEST_CASE("OCI: a recorded profile without exit_group loads with a warning") {
  const auto text = oci_data("spo-bpf-recorder.json");
  if (!text) return;
  const LoweredProfile profile(*text);
  CHECK(profile.on("bpf") == "allow");
  CHECK(profile.on("exit_group") == "errno EPERM");
  CHECK(profile.noted("#/defaultAction: warning: exit_group is not allowed"));
  check_compiled(profile);
}

TEST_CASE("OCI: runc's test profile has two conditions on one argument ORed") {
  const auto text = oci_data("runc-syscall-test1.json");
  if (!text) return;
  const LoweredProfile profile(*text);
  CHECK(profile.on("dup3", {1}) == "allow");
  CHECK(profile.on("dup3", {2}) == "errno EPERM");
  CHECK(profile.on("dup3", {3}) == "allow");
  CHECK(profile.on("ftruncate", {123456789, 1337}) == "allow");
  CHECK(profile.on("ftruncate", {123456789, 1}) == "errno EPERM");
  CHECK(profile.on("process_vm_readv", {100}) == "allow");
  CHECK(profile.on("process_vm_readv", {9001}) == "allow");
  CHECK(profile.on("process_vm_readv", {1}) == "errno EPERM");
  CHECK(profile.on("process_vm_writev", {1337}) == "errno ENOANO");
  CHECK(profile.on("process_vm_writev", {2020}) == "errno ENOANO");
  CHECK(profile.on("socket", {kInet, kStream, 0xf00}) == "errno EPERM");
  CHECK(profile.on("socket", {kInet, kStream, 6}) == "allow");
  CHECK(profile.count_noted("two conditions on one argument") == 2);
  check_compiled(profile);
}

TEST_CASE("OCI: a SeccompProfile resource in YAML is refused with the way out") {
  const auto text = oci_data("spo-baseprofile-runc.yaml");
  if (!text) return;
  CHECK_FALSE(Document::parse(*text, "p.yaml").has_value());
  REQUIRE(yaml_error(*text, "p.yaml"));
}

TEST_CASE("OCI: the shipped copies of the defaults decide as the public files do") {
  for (const auto& [shipped, original] : {std::pair<std::string, std::string>{"docker-default", "moby-default.json"},
                                          {"podman-default", "containers-common-default.json"}}) {
    const std::string path = source_directory() + "/policies/" + shipped + ".json";
    std::ifstream file(path);
    REQUIRE_MESSAGE(file, path);
    std::ostringstream own;
    own << file.rdbuf();
    for (const bool capabilities : {true, false}) {
      OciEnvironment environment = docker_environment();
      if (!capabilities) environment.capabilities.clear();
      const LoweredProfile ours(own.str(), environment);
      CHECK_FALSE(ours.profile.description.empty());
      check_compiled(ours);
      const auto text = oci_data(original);
      if (!text) continue;
      const LoweredProfile theirs(*text, environment);
      size_t differing = 0;
      for (uint32_t number = 0; number < 1024; ++number) {
        for (const uint64_t argument : {uint64_t{0}, uint64_t{8}, uint64_t{9}, uint64_t{16}, uint64_t{37}, uint64_t{38},
                                        uint64_t{39}, uint64_t{40}, uint64_t{41}, uint64_t{0x20000}, uint64_t{0x20008},
                                        uint64_t{0x7e020000}, uint64_t{0xffffffff}, ~uint64_t{0}}) {
          for (const uint64_t third : {uint64_t{9}, argument}) {
            const std::string a = ours.on_number(number, {argument, argument, third});
            const std::string b = theirs.on_number(number, {argument, argument, third});
            if (a == b) continue;
            ++differing;
            MESSAGE(shipped << " number " << number << " argument " << argument << ": " << a << ", not " << b);
          }
        }
      }
      CHECK(differing == 0);
    }
  }
}

}  // namespace srun::policy::test
