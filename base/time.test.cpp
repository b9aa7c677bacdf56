// SPDX-License-Identifier: Apache-2.0
//
// Tests of the clocks: what time is and who moves it.
#include "base/time.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

TEST_CASE("the monotonic clock never goes back and moves on") {
  const auto first = mono_clock::now();
  auto last = first;
  while (last - first < 1ms) {
    const auto next = mono_clock::now();
    CHECK_FALSE(next < last);
    last = next;
  }
  CHECK(last.time_since_epoch() > 0ns);
}

TEST_CASE("a steady source agrees with the monotonic clock") {
  const steady_source source;
  const auto before = mono_clock::now();
  const auto now = source.now();
  CHECK(now >= before);
  CHECK(now <= mono_clock::now());
}

TEST_CASE("a manual clock moves only when told to") {
  manual_clock clock{time_point{5s}};
  CHECK(clock.now() == time_point{5s});
  clock.advance(3ms);
  CHECK(clock.now() == time_point{5003ms});
  clock.set(time_point{1s});
  CHECK(clock.now() == time_point{1s});
  CHECK(clock.now() < time_never);
}
