#include "bench/result.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "base/text.h"

namespace srun::bench {
namespace {

std::string first_line_after(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    return colon == std::string::npos ? line : line.substr(std::min(line.size(), colon + 2));
  }
  return {};
}

std::string kernel_name() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

std::string cpu_name() {
  const std::string model = first_line_after("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

// 0.1 µs steps below 10 µs, whole ones above a millisecond: what the measurement carries.
std::string duration(double ns) {
  if (ns < 1000) return fmt::format("{:.1f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} µs", ns / 1e3);
  return fmt::format("{:.2f} ms", ns / 1e6);
}

void print_json(const Results& results) {
  std::string out = fmt::format(
      "{{\"kernel\": {}, \"cpu\": {}, \"cpus\": {}, \"load\": {}, \"case\": {},\n \"rows\": [", quoted(kernel_name()),
      quoted(cpu_name()), ::sysconf(_SC_NPROCESSORS_ONLN), quoted(results.load), quoted(results.case_name));
  const char* separator = "\n";
  for (const Row& row : results.rows) {
    out += fmt::format("{}  {{\"name\": {}, ", separator, quoted(row.name));
    if (row.missing.empty()) {
      out += fmt::format("\"median_ns\": {}, \"p99_ns\": {}, \"rounds\": {}}}", number(row.median_ns()),
                         row.round_p99s_ns.empty() ? "null" : number(row.p99_ns()), row.round_medians_ns.size());
    } else {
      out +=
          fmt::format("\"median_ns\": null, \"p99_ns\": null, \"rounds\": 0, \"missing\": {}}}", quoted(row.missing));
    }
    separator = ",\n";
  }
  out += "],\n \"bars\": [";
  separator = "\n";
  for (const Bar& bar : results.bars) {
    out += fmt::format("{}  {{\"name\": {}, \"value\": {}, \"limit\": {}, \"ok\": {}}}", separator, quoted(bar.name),
                       number(bar.value), number(bar.limit), bar.ok());
    separator = ",\n";
  }
  out += "],\n \"counts\": [";
  separator = "\n";
  for (const Count& count : results.counts) {
    out += fmt::format("{}  {{\"name\": {}, \"value\": {}, \"of\": {}}}", separator, quoted(count.name), count.value,
                       quoted(count.of));
    separator = ",\n";
  }
  out += "],\n \"notes\": [";
  separator = "";
  for (const std::string& note : results.notes) {
    out += separator + quoted(note);
    separator = ", ";
  }
  out += "]}\n";
  std::fputs(out.c_str(), stdout);
}

void print_table(const Results& results) {
  fmt::print("{}: {}, {}, {} CPUs, load {}\n\n", results.case_name, kernel_name(), cpu_name(),
             ::sysconf(_SC_NPROCESSORS_ONLN), results.load);
  size_t width = 0;
  for (const Row& row : results.rows) width = std::max(width, row.name.size());
  for (const Row& row : results.rows) {
    if (row.missing.empty()) {
      fmt::print("{:<{}}  median {:>10}  p99 {:>10}  {} rounds\n", row.name, width, duration(row.median_ns()),
                 row.round_p99s_ns.empty() ? "-" : duration(row.p99_ns()), row.round_medians_ns.size());
    } else {
      fmt::print("{:<{}}  not measured: {}\n", row.name, width, row.missing);
    }
  }
  if (!results.counts.empty()) std::fputc('\n', stdout);
  for (const Count& count : results.counts) fmt::print("{}: {} of {}\n", count.name, count.value, count.of);
  if (!results.bars.empty()) std::fputc('\n', stdout);
  for (const Bar& bar : results.bars) {
    fmt::print("{:<4} {}: {:.3g} ({} {:.3g})\n", bar.ok() ? "ok" : "MISS", bar.name, bar.value,
               bar.at_most ? "at most" : "at least", bar.limit);
  }
  for (const std::string& note : results.notes) fmt::print("\nnote: {}\n", note);
}

}  // namespace

std::string current_load() { return first_line_after("/proc/loadavg", ""); }

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto rank = static_cast<size_t>(std::lround(percent / 100 * last));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

void print(const Results& results, bool json) {
  if (json) {
    print_json(results);
  } else {
    print_table(results);
  }
}

}  // namespace srun::bench
