// SPDX-License-Identifier: Apache-2.0
// The waits of a lost device.
#include "actors/reopen_schedule.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

base::time_point at(base::duration since_start) {
  return base::time_point{} + since_start;
}
constexpr std::uint64_t most = UINT64_MAX; // not the greatest wait, but some

} // namespace

TEST_CASE("the waits of a lost device double up to the cap and never end") {
  reopen_schedule s;
  s.lost(at(1s));
  auto full = reopen_schedule::least;
  for (std::uint32_t i = 1; i <= 100; ++i) {
    const auto wait = s.next(most / i);
    CHECK(wait >= full / 2);
    CHECK(wait <= full);
    CHECK(s.attempts() == i);
    full = std::min(2 * full, reopen_schedule::cap);
  }
  CHECK(s.away(at(61s)) == 60s);
}

TEST_CASE("the waits of two devices that are lost together differ") {
  reopen_schedule a;
  reopen_schedule b;
  a.lost(at(0s));
  b.lost(at(0s));
  CHECK(a.next(1) != b.next(7'000'000));
}

TEST_CASE("a device that is lost again at once waits longer, and one that served starts from the beginning") {
  reopen_schedule s;
  s.lost(at(0s));
  for (int i = 0; i < 6; ++i)
    (void)s.next(0);
  CHECK(s.is_old_news());
  s.serves(at(1s));
  s.lost(at(2s));
  CHECK(s.attempts() == 0);
  CHECK(s.away(at(3s)) == 1s);
  CHECK(s.is_old_news());
  CHECK(s.next(0) == reopen_schedule::cap / 2);
  s.serves(at(3s));
  s.serves(at(10s)); // it still does
  s.lost(at(3s) + reopen_schedule::steady_after);
  CHECK_FALSE(s.is_old_news());
  CHECK(s.next(0) == reopen_schedule::least / 2);
}
