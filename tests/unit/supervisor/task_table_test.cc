#include "supervisor/task_table.h"

#include <doctest/doctest.h>

#include <set>

using namespace srun::supervisor;

TEST_CASE("task table: a task keeps its record, and a full set gives up the one that was quiet longest") {
  TaskTable table;
  std::set<int32_t> evicted;
  const auto evict = [&](TaskRecord& record) { evicted.insert(record.tid); };
  for (int32_t tid = 1; tid <= 20'000; ++tid) table.get(tid, evict).last_ns = static_cast<uint64_t>(tid);
  CHECK(evicted.size() == 20'000 - TaskTable::kSets * TaskTable::kWays);
  CHECK(table.find(20'000) != nullptr);
  CHECK(table.find(20'000)->last_ns == 20'000);
  CHECK(table.find(1) == nullptr);
  CHECK(evicted.count(1) == 1);
  size_t known = 0;
  table.for_each([&](TaskRecord& record) {
    ++known;
    CHECK(evicted.count(record.tid) == 0);
  });
  CHECK(known == TaskTable::kSets * TaskTable::kWays);
}

TEST_CASE("task table: a recycled record starts empty") {
  TaskTable table;
  TaskRecord& first = table.get(7, [](TaskRecord&) {});
  first.leased = true;
  first.held.repeats = 3;
  CHECK(&table.get(7, [](TaskRecord&) {}) == &first);
  CHECK(table.find(7)->held.repeats == 3);
  CHECK(table.get(8, [](TaskRecord&) {}).held.repeats == 0);
}
