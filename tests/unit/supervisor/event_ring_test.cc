#include "supervisor/event_ring.h"

#include <doctest/doctest.h>

#include <thread>

using namespace srun;
using namespace srun::supervisor;

TEST_CASE("event ring: what does not fit is dropped and counted with its repeats, the rest comes out in order") {
  EventRing ring;
  report::Event event;
  for (size_t i = 0; i < EventRing::kCapacity; ++i) {
    event.nr = static_cast<uint32_t>(i);
    REQUIRE(ring.push(event));
  }
  event.repeats = 5;
  CHECK_FALSE(ring.push(event));
  CHECK(ring.dropped() == 5);
  for (size_t i = 0; i < EventRing::kCapacity; ++i) {
    REQUIRE(ring.pop(event));
    REQUIRE(event.nr == i);
  }
  CHECK_FALSE(ring.pop(event));
}

TEST_CASE("event ring: a sleeping consumer is to be woken exactly once, and never sleeps on a filled ring") {
  EventRing ring;
  CHECK_FALSE(ring.take_wake_request());
  CHECK(ring.prepare_to_wait());
  CHECK(ring.push(report::Event{}));
  CHECK(ring.take_wake_request());
  CHECK_FALSE(ring.take_wake_request());
  CHECK_FALSE(ring.prepare_to_wait());
  CHECK_FALSE(ring.take_wake_request());
}

TEST_CASE("event ring: a producer and a consumer thread lose nothing but what is counted") {
  EventRing ring;
  constexpr uint32_t kEvents = 200'000;
  std::thread producer([&] {
    report::Event event;
    for (uint32_t i = 0; i < kEvents; ++i) {
      event.nr = i;
      ring.push(event);
    }
  });
  uint64_t seen = 0;
  uint32_t last = 0;
  bool ordered = true;
  report::Event event;
  const auto drain = [&] {
    while (ring.pop(event)) {
      ordered = ordered && (seen == 0 || event.nr > last);
      last = event.nr;
      ++seen;
    }
  };
  while (seen + ring.dropped() < kEvents) drain();
  producer.join();
  drain();
  CHECK(ordered);
  CHECK(seen + ring.dropped() == kEvents);
}
