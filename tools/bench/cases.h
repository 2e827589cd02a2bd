#pragma once
// The cases of sandbox-bench. main.cc picks one by name; each returns an exit status (0 whatever the figures, 1 if it
// could not measure).
#include <string>
#include <string_view>
#include <vector>

namespace srun::bench {

struct Options {
  bool json = false;
  int rounds = 0;                 // 0: the case's own number, at least 5
  std::vector<std::string> rest;  // what the case itself understands
};

int run_notify(const Options& options);
int run_startup(const Options& options);
int run_decide(const Options& options);
int run_kernel(const Options& options);
int run_broker(const Options& options);

// Hidden: the program that `notify` runs under sandbox-run. Prints its figures on standard output.
int run_looper(const std::vector<std::string>& arguments);
// Hidden: the same for `broker`.
int run_file_looper(const std::vector<std::string>& arguments);

}  // namespace srun::bench
