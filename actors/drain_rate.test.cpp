// SPDX-License-Identifier: Apache-2.0
// What a queue's completions say about its rate, and what they do not.
#include "actors/drain_rate.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

constexpr base::time_point start{base::duration{1s}};

} // namespace

TEST_CASE("a queue's rate is known after the first end behind which more waits") {
  drain_rate r;
  r.began(start);
  CHECK(r.per_second() == 0);
  r.ended(1000, 5000, start, start + 1ms);
  CHECK(r.per_second() == doctest::Approx(1e6));
}

TEST_CASE("the last of a burst and the idleness after it say nothing about a queue's rate") {
  drain_rate r;
  r.began(start);
  r.ended(1000, 0, start, start + 10ms);
  CHECK(r.per_second() == 0);
  r.began(start + 500ms);
  r.ended(1000, 1000, start, start + 501ms);
  CHECK(r.per_second() == doctest::Approx(1e6));
}

TEST_CASE("completions that are seen together do not look like a fast queue") {
  drain_rate r;
  r.began(start);
  for (int i = 1; i <= 50; ++i) {
    r.ended(1000, 1000, start, start + i * 2ms);
    r.ended(1000, 1000, start, start + i * 2ms);
    r.ended(1000, 1000, start, start + i * 2ms + 1ns);
  }
  CHECK(r.per_second() == doctest::Approx(1.5e6).epsilon(0.05));
}

TEST_CASE(
    "a queue that became slow is known to be slow after some ends, and its past after a long rest no more") {
  drain_rate r;
  r.began(start);
  auto now = start;
  for (int i = 0; i < 1000; ++i)
    r.ended(1000, 1000, start, now += 10us);
  CHECK(r.per_second() == doctest::Approx(1e8));
  for (int i = 0; i < 3; ++i)
    r.ended(1000, 1000, start, now += 10ms);
  CHECK(r.per_second() < 1e6);
  r.began(now + 999ms);
  CHECK(r.per_second() > 0);
  r.began(now + 3s);
  CHECK(r.per_second() == 0);
}

TEST_CASE("a silence that may be a hang says nothing about a queue's rate, however it ends") {
  drain_rate r;
  r.began(start);
  r.ended(1000, 1000, start, start + 1ms);
  r.doubted();
  r.ended(1000, 1000, start, start + 900ms);
  CHECK(r.per_second() == doctest::Approx(1e6));
  r.ended(1000, 1000, start, start + 901ms);
  CHECK(r.per_second() == doctest::Approx(1e6));
  r.doubted();
  r.began(start + 950ms);
  r.ended(3000, 1000, start, start + 951ms);
  CHECK(r.per_second() > 1.1e6);
}

TEST_CASE("work that came after a pause was not under way during it, whatever else seemed to be") {
  drain_rate r;
  r.began(start);
  r.ended(1000, 9000, start, start + 1ms);
  r.ended(1000, 9000, start + 500ms, start + 501ms); // the 9000 hang
  CHECK(r.per_second() == doctest::Approx(1e6));
}

TEST_CASE("what ends alone makes a queue look faster, never slower") {
  drain_rate r;
  r.began(start);
  r.ended(1000, 1000, start, start + 25ms); // it came late in a pause
  CHECK(r.per_second() == doctest::Approx(4e4));
  auto now = start + 100ms;
  for (int i = 0; i < 100; ++i) {
    r.began(now);
    r.ended(1000, 0, now, now + 100us);
    now += 1ms;
  }
  const auto learned = r.per_second();
  CHECK(learned > 5e6);
  r.began(now);
  r.ended(1000, 0, now, now + 50ms); // a small one, far away
  CHECK(r.per_second() == learned);
}
