#pragma once
// Figures of one case: rows of times, bars, counts; printed as a table or as the JSON of design section 9.
#include <cstdint>
#include <string>
#include <vector>

namespace srun::bench {

// Nearest-rank percentile (0..100) of unsorted values; 0 if there are none.
double percentile(std::vector<double> values, double percent);
inline double median(std::vector<double> values) { return percentile(std::move(values), 50); }

// One thing measured, in rounds. Each round gives a median and a 99th percentile; the row shows the median of either.
struct Row {
  std::string name;
  std::vector<double> round_medians_ns;
  std::vector<double> round_p99s_ns;  // empty: the row is a mean over many tasks, which has none
  std::string missing;                // why there are no figures, or empty

  double median_ns() const { return median(round_medians_ns); }
  double p99_ns() const { return median(round_p99s_ns); }
};

// A figure with a limit. They inform: no exit status depends on them.
struct Bar {
  std::string name;
  double value = 0;
  double limit = 0;
  bool at_most = true;  // else: at least
  bool ok() const { return at_most ? value <= limit : value >= limit; }
};

// A number that is not a time, such as interrupted calls.
struct Count {
  std::string name;
  uint64_t value = 0;
  std::string of;  // what it is out of, as text
};

// The machine's load before anything was measured ("0.10 0.05 0.01 …", proc(5)).
std::string current_load();

struct Results {
  std::string case_name;
  std::string load;
  std::vector<Row> rows;
  std::vector<Bar> bars;
  std::vector<Count> counts;
  std::vector<std::string> notes;  // what the reader must know to judge the figures
};

// To standard output, headed by kernel and CPU.
void print(const Results& results, bool json);

}  // namespace srun::bench
