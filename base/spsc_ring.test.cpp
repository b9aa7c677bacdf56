// SPDX-License-Identifier: Apache-2.0
//
// Tests of the single-producer ring: its bound, its order, and two threads at full speed.
#include "base/spsc_ring.hpp"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using actor_rdma::base::spsc_ring;

TEST_CASE("a ring takes exactly its capacity and then refuses") {
  spsc_ring<int> ring{4};
  CHECK(ring.capacity() == 4);
  CHECK(ring.empty());
  for (int i = 0; i < 4; ++i)
    CHECK(ring.push(i));
  CHECK_FALSE(ring.push(4));
  CHECK(ring.size() == 4);
  CHECK(ring.pop() == 0);
  CHECK(ring.push(4));
  CHECK_FALSE(ring.push(5));
  for (int i = 1; i < 5; ++i)
    CHECK(ring.pop() == i);
  CHECK_FALSE(ring.pop().has_value());
}

TEST_CASE("a refused value stays with the producer") {
  spsc_ring<std::unique_ptr<int>> ring{1};
  CHECK(ring.push(std::make_unique<int>(1)));
  auto mine = std::make_unique<int>(2);
  CHECK_FALSE(ring.push(std::move(mine)));
  REQUIRE(mine); // NOLINT(bugprone-use-after-move): that it was not moved is the point
  CHECK(*mine == 2);
}

TEST_CASE("a batch pop takes the oldest, up to its limit") {
  spsc_ring<int> ring{8};
  for (int i = 0; i < 6; ++i)
    CHECK(ring.push(i));
  std::vector<int> got;
  const auto take = [&](int v) { got.push_back(v); };
  CHECK(ring.pop_batch(4, take) == 4);
  CHECK(ring.push(6));
  CHECK(ring.pop_batch(100, take) == 3);
  CHECK(ring.pop_batch(100, take) == 0);
  CHECK(got == std::vector<int>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("two threads pass every value in order") {
  constexpr std::uint64_t count = 1'000'000;
  spsc_ring<std::uint64_t> ring{256};
  std::thread producer{[&] {
    for (std::uint64_t i = 0; i < count;) {
      if (ring.push(i))
        ++i;
      else
        std::this_thread::yield();
    }
  }};
  std::uint64_t expected = 0;
  std::uint64_t wrong = 0;
  while (expected < count) {
    const auto n = ring.pop_batch(64, [&](std::uint64_t v) { wrong += v == expected++ ? 0 : 1; });
    if (n == 0)
      std::this_thread::yield();
  }
  producer.join();
  CHECK(wrong == 0);
  CHECK(ring.empty());
}
