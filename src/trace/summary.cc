#include "trace/summary.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

namespace srun::trace {

void Summary::count(const Call& call, uint64_t nanoseconds) {
  const size_t index =
      call.row == nullptr ? rows_.size() - 1 : static_cast<size_t>(call.row - kernel::syscalls().data());
  Row& row = rows_[std::min(index, rows_.size() - 1)];
  ++row.calls;
  row.errors += call.failed ? 1 : 0;
  row.nanoseconds += nanoseconds;
}

std::string Summary::text(const std::string& sort) const {
  struct Named {
    std::string_view name;
    Row row;
  };
  std::vector<Named> found;
  Row total;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].calls == 0) continue;
    found.push_back({i < kernel::syscalls().size() ? kernel::syscalls()[i].name : "unknown", rows_[i]});
    total.calls += rows_[i].calls;
    total.errors += rows_[i].errors;
    total.nanoseconds += rows_[i].nanoseconds;
  }
  const auto average = [](const Row& row) { return row.nanoseconds / row.calls; };
  std::stable_sort(found.begin(), found.end(), [&](const Named& a, const Named& b) {
    if (sort.starts_with("call") || sort == "count") return a.row.calls > b.row.calls;
    if (sort.starts_with("error")) return a.row.errors > b.row.errors;
    if (sort == "name" || sort.starts_with("syscall")) return a.name < b.name;
    if (sort == "time-avg" || sort == "avg-time") return average(a.row) > average(b.row);
    if (sort.starts_with("no")) return false;
    return a.row.nanoseconds > b.row.nanoseconds;
  });
  std::string out =
      "% time     seconds  usecs/call     calls    errors syscall\n"
      "------ ----------- ----------- --------- --------- ----------------\n";
  char line[256];
  const auto put = [&](double percent, const Row& row, std::string_view name) {
    char errors[24] = "         ";
    if (row.errors != 0) snprintf(errors, sizeof errors, "%9lu", static_cast<unsigned long>(row.errors));
    snprintf(line, sizeof line, "%6.2f %11.6f %11lu %9lu %s %.*s\n", percent,
             static_cast<double>(row.nanoseconds) / 1e9,
             static_cast<unsigned long>(row.calls == 0 ? 0 : row.nanoseconds / row.calls / 1000),
             static_cast<unsigned long>(row.calls), errors, static_cast<int>(name.size()), name.data());
    out += line;
  };
  for (const Named& entry : found)
    put(total.nanoseconds == 0
            ? 0
            : 100.0 * static_cast<double>(entry.row.nanoseconds) / static_cast<double>(total.nanoseconds),
        entry.row, entry.name);
  out += "------ ----------- ----------- --------- --------- ----------------\n";
  put(100, total, "total");
  return out;
}

std::string Summary::json() const {
  std::string out;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.calls == 0) continue;
    if (!out.empty()) out += ',';
    out += "\"" + std::string(i < kernel::syscalls().size() ? kernel::syscalls()[i].name : "unknown") +
           "\":{\"calls\":" + std::to_string(row.calls) + ",\"errors\":" + std::to_string(row.errors) +
           ",\"ns\":" + std::to_string(row.nanoseconds) + "}";
  }
  return "{\"event\":\"summary\",\"calls\":{" + out + "}}\n";
}

}  // namespace srun::trace
