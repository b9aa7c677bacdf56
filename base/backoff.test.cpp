// SPDX-License-Identifier: Apache-2.0
// Waits between attempts.
#include "base/backoff.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

TEST_CASE("a back-off doubles up to its cap, and is between half and all of that") {
  constexpr auto most_random = static_cast<std::uint64_t>(duration{10ms}.count());
  CHECK(backoff(20ms, 1s, 0, 0) == 10ms);
  CHECK(backoff(20ms, 1s, 0, most_random) == 20ms);
  CHECK(backoff(20ms, 1s, 0, most_random + 1) == 10ms);
  CHECK(backoff(20ms, 1s, 1, 0) == 20ms);
  CHECK(backoff(20ms, 1s, 5, 0) == 320ms);
  CHECK(backoff(20ms, 1s, 6, 0) == 500ms);
  CHECK(backoff(20ms, 1s, 4000, 0) == 500ms);
  CHECK(backoff(1ms, 3600s, 4000, 0) == 512ms); // 2^10 at most
}
