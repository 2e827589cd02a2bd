#include "kernel/syscall_table.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace srun::kernel {
namespace {

enum class GroupId : uint8_t {
#define SRUN_GROUP(id, name, description, includes) id,
#include "kernel/groups.def"
#undef SRUN_GROUP
  kCount,
  kNeverNotified = 63,  // not a group that can be named: the mark of H19
};
constexpr size_t kGroupCount = static_cast<size_t>(GroupId::kCount);
static_assert(kGroupCount <= static_cast<size_t>(GroupId::kNeverNotified));

constexpr Width kDefaultWidths[] = {
#define SRUN_ARG_KIND(name, width) Width::width,
#include "kernel/arg_kinds.def"
#undef SRUN_ARG_KIND
};

// One argument as a row writes it: a kind, or a width around a kind.
struct Argument {
  constexpr Argument(ArgKind kind) : spec{kind, kDefaultWidths[static_cast<size_t>(kind)]} {}
  constexpr Argument(ArgKind kind, Width width) : spec{kind, width} {}
  ArgSpec spec;
};
constexpr Argument u32(ArgKind kind) { return {kind, Width::kU32}; }
constexpr Argument s32(ArgKind kind) { return {kind, Width::kS32}; }
constexpr Argument u64(ArgKind kind) { return {kind, Width::kU64}; }

constexpr ArgList list(std::initializer_list<Argument> arguments) {
  ArgList result{0, {}};
  for (const Argument& argument : arguments) result.args[result.count++] = argument.spec;
  return result;
}

constexpr uint64_t bits(std::initializer_list<GroupId> ids) {
  uint64_t set = 0;
  for (const GroupId id : ids) set |= uint64_t{1} << static_cast<unsigned>(id);
  return set;
}

// Turns a row's parentheses into braces.
#define SRUN_LIST(...) \
  { __VA_ARGS__ }

constexpr std::string_view kNames[] = {
#define SRUN_SYSCALL(name, x86_64, i386, aarch64, args, groups) name,
#define SRUN_ARCH_ARGS(arch, name, args)
#include "kernel/syscalls.def"
#undef SRUN_SYSCALL
#undef SRUN_ARCH_ARGS
};
constexpr size_t kCallCount = std::size(kNames);

// For each group all those that contain it, itself included and @known.
constexpr std::array<uint64_t, kGroupCount> make_containers() {
  using enum GroupId;
  constexpr uint64_t includes[] = {
#define SRUN_GROUP(id, name, description, includes) bits(SRUN_LIST includes),
#include "kernel/groups.def"
#undef SRUN_GROUP
  };
  std::array<uint64_t, kGroupCount> containers{};
  for (size_t group = 0; group < kGroupCount; ++group) containers[group] = uint64_t{1} << group;
  for (size_t depth = 0; depth < kGroupCount; ++depth)
    for (size_t outer = 0; outer < kGroupCount; ++outer)
      for (size_t inner = 0; inner < kGroupCount; ++inner)
        if ((includes[outer] >> inner) & 1) containers[inner] |= containers[outer];
  return containers;
}

constexpr std::array<Syscall, kCallCount> make_calls() {
  std::array<Syscall, kCallCount> calls{};
  {
    using enum ArgKind;
    size_t row = 0;
#define SRUN_SYSCALL(call, x86_64, i386, aarch64, arguments, unused)    \
  {                                                                     \
    const ArgList l = list(SRUN_LIST arguments);                        \
    calls[row++] = {call, {x86_64, i386, aarch64}, l.count, l.args, 0}; \
  }
#define SRUN_ARCH_ARGS(arch, name, args)
#include "kernel/syscalls.def"
#undef SRUN_SYSCALL
  }
  {
    using enum GroupId;
    constexpr std::array<uint64_t, kGroupCount> containers = make_containers();
    size_t row = 0;
#define SRUN_SYSCALL(name, x86_64, i386, aarch64, args, ids) calls[row++].groups = bits(SRUN_LIST ids);
#include "kernel/syscalls.def"
#undef SRUN_SYSCALL
#undef SRUN_ARCH_ARGS
    for (Syscall& call : calls) {
      const uint64_t direct = call.groups;
      call.groups |= bits({kKnown});
      for (size_t group = 0; group < kGroupCount; ++group)
        if ((direct >> group) & 1) call.groups |= containers[group];
    }
  }
  return calls;
}

constexpr std::array<Syscall, kCallCount> kCalls = make_calls();
static_assert(std::is_sorted(kCalls.begin(), kCalls.end(),
                             [](const Syscall& a, const Syscall& b) { return a.name < b.name; }));

// The calls whose arguments are not those of their row there.
struct ArchArguments {
  Arch arch;
  std::string_view name;
  ArgList arguments;
};
constexpr auto make_arch_arguments() {
  using enum Arch;
  using enum ArgKind;
  return std::to_array<ArchArguments>({
#define SRUN_SYSCALL(name, x86_64, i386, aarch64, args, groups)
#define SRUN_ARCH_ARGS(arch, name, args) {arch, name, list(SRUN_LIST args)},
#include "kernel/syscalls.def"
#undef SRUN_SYSCALL
#undef SRUN_ARCH_ARGS
  });
}
constexpr auto kArchArguments = make_arch_arguments();

// Row by number; -1: unassigned.
constexpr size_t kNumberLimit = 512;
constexpr std::array<std::array<int16_t, kNumberLimit>, kArchCount> make_index() {
  std::array<std::array<int16_t, kNumberLimit>, kArchCount> index{};
  for (auto& rows : index) rows.fill(-1);
  for (size_t row = 0; row < kCallCount; ++row)
    for (size_t arch = 0; arch < kArchCount; ++arch)
      if (const int16_t nr = kCalls[row].numbers[arch]; nr >= 0)
        index[arch][static_cast<size_t>(nr)] = static_cast<int16_t>(row);
  return index;
}
constexpr std::array<std::array<int16_t, kNumberLimit>, kArchCount> kIndex = make_index();

constexpr Group kGroups[] = {
#define SRUN_GROUP(id, name, description, includes) {name, description},
#include "kernel/groups.def"
#undef SRUN_GROUP
};

}  // namespace

Width default_width(ArgKind kind) { return kDefaultWidths[static_cast<size_t>(kind)]; }

uint64_t significant_bits(ArgSpec argument) {
  switch (argument.kind) {
    case ArgKind::kMode:
    case ArgKind::kUid16:
    case ArgKind::kGid16:
    case ArgKind::kIpcCall:
      return 0xffff;
    default:
      return argument.width == Width::kU32 || argument.width == Width::kS32 ? 0xffffffff : ~uint64_t{0};
  }
}

ArgList arguments(const Syscall& call, Arch arch) {
  ArgList result{call.arg_count, call.args};
  for (const ArchArguments& other : kArchArguments)
    if (other.arch == arch && other.name == call.name) result = other.arguments;
  if (arch == Arch::kI386)
    for (ArgSpec& argument : result.args) {
      if (argument.width == Width::kU64) argument.width = Width::kU32;
      if (argument.width == Width::kS64) argument.width = Width::kS32;
    }
  return result;
}

std::span<const Syscall> syscalls() { return kCalls; }

const Syscall* find_syscall(std::string_view name) {
  const auto at = std::lower_bound(kCalls.begin(), kCalls.end(), name,
                                   [](const Syscall& call, std::string_view wanted) { return call.name < wanted; });
  return at != kCalls.end() && at->name == name ? &*at : nullptr;
}

const Syscall* find_syscall(Arch arch, uint32_t nr) {
  if (nr >= kNumberLimit) return nullptr;
  const int16_t row = kIndex[static_cast<size_t>(arch)][nr];
  return row < 0 ? nullptr : &kCalls[static_cast<size_t>(row)];
}

// From 403 on all architectures are numbered alike, so one figure serves: file_setattr (Linux 6.17) is 469.
uint32_t first_unknown_number(Arch) { return 470; }

std::span<const Group> groups() { return kGroups; }

std::optional<size_t> find_group(std::string_view name) {
  for (size_t group = 0; group < kGroupCount; ++group)
    if (kGroups[group].name == name) return group;
  return std::nullopt;
}

bool in_group(const Syscall& call, size_t group) { return group < kGroupCount && ((call.groups >> group) & 1) != 0; }

bool never_notified(const Syscall& call) { return (call.groups & bits({GroupId::kNeverNotified})) != 0; }

}  // namespace srun::kernel
