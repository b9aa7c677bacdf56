// SPDX-License-Identifier: Apache-2.0
// When silences are an event, and how long it holds fences back.
#include "actors/breaker.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

constexpr base::time_point now{base::duration{100s}};

std::vector<breaker::silence> peers(std::size_t silent, std::size_t busy, base::time_point since = now) {
  std::vector<breaker::silence> out;
  for (std::size_t i = 0; i < busy; ++i)
    for (int qp = 0; qp < 2; ++qp)
      out.push_back({i + 1, i < silent ? std::optional{since} : std::nullopt});
  return out;
}

} // namespace

TEST_CASE("a breaker opens when more than half of at least four busy peers fall silent together") {
  for (std::size_t busy = 1; busy < 10; ++busy)
    for (std::size_t silent = 0; silent <= busy; ++silent) {
      CAPTURE(busy);
      CAPTURE(silent);
      breaker b(2s);
      const auto found = b.suspected(peers(silent, busy), now);
      CHECK(found.has_value() == (busy >= 4 && silent > busy / 2));
      CHECK(b.is_open(now) == found.has_value());
      if (found) {
        CHECK(found->peers == busy);
        CHECK(found->silent == silent);
      }
    }
}

TEST_CASE("silences of long ago, and peers of which one queue pair goes on, do not open a breaker") {
  breaker b(2s);
  CHECK_FALSE(b.suspected(peers(6, 6, now - 101ms), now));
  auto half = peers(6, 6);
  for (std::size_t i = 0; i < half.size(); i += 2)
    half[i].suspected.reset();
  CHECK_FALSE(b.suspected(half, now));
  CHECK(b.suspected(peers(6, 6, now - 100ms), now));
}

TEST_CASE("an open breaker puts fences off to its end, one after the other, and then no more") {
  breaker b(2s);
  CHECK(b.fence_at(now, 5ms) == now);
  REQUIRE(b.suspected(peers(4, 4), now));
  CHECK(b.fence_at(now + 150ms, 5ms) == now + 2s + 5ms);
  CHECK(b.fence_at(now + 150ms, 0ms) == now + 2s + breaker::spacing);
  CHECK(b.is_open(now + 2s - 1ns));
  CHECK_FALSE(b.is_open(now + 2s));
  CHECK(b.fence_at(now + 2s, 5ms) == now + 2s);
}

TEST_CASE("a breaker does not open again before it has rested, so that what stays silent is fenced") {
  breaker b(2s);
  REQUIRE(b.suspected(peers(4, 4), now));
  CHECK_FALSE(b.suspected(peers(4, 4, now + 3s), now + 3s));
  CHECK_FALSE(b.is_open(now + 3s));
  CHECK(b.suspected(peers(4, 4, now + 10s), now + 10s));
}

TEST_CASE("a breaker closes when the port is back, and one without a hold never opens") {
  breaker b(2s);
  REQUIRE(b.suspected(peers(4, 4), now));
  b.close();
  CHECK(b.fence_at(now + 1ms, 5ms) == now + 1ms);
  breaker never(0s);
  CHECK_FALSE(never.suspected(peers(9, 9), now));
  CHECK_FALSE(never.is_open(now));
}
