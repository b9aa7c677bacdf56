// SPDX-License-Identifier: Apache-2.0
// Pairs of device and memory: when they are suspect, avoided, tried again, and forgotten.
#include "actors/reach.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

using state = reach::state;
constexpr base::time_point start{100s};
constexpr reach::pair gpu{reach::side::ours, 3, 7, 0x100};
constexpr auto half_pauses = 0ull; ///< random: the shortest of the jittered pauses

reach table() {
  return {1s, 8s};
}

} // namespace

TEST_CASE("a refusal makes a pair suspect, and this pair only") {
  auto t = table();
  CHECK_FALSE(t.knows_any());
  CHECK_FALSE(t.failed(gpu, start, false, half_pauses));
  CHECK(t.knows_any());
  CHECK(t.look(gpu, start) == state::suspect);
  for (const auto& other :
       {reach::pair{reach::side::peers, 3, 7, 0x100}, reach::pair{reach::side::ours, 2, 7, 0x100},
        reach::pair{reach::side::ours, 3, 8, 0x100}, reach::pair{reach::side::ours, 3, 7, 0x101}})
    CHECK(t.look(other, start) == state::open);
}

TEST_CASE("a suspicion is proven once, or taken back, and what is proven is not taken back") {
  auto t = table();
  t.failed(gpu, start, false, half_pauses);
  SUBCASE("taken back") {
    t.acquit(gpu);
    CHECK(t.look(gpu, start) == state::open);
    CHECK_FALSE(t.knows_any());
    CHECK_FALSE(t.prove(gpu));
    t.failed(gpu, start, false, half_pauses); // as if it were the first
    CHECK(t.retry_at(gpu) == start + 500ms);
  }
  SUBCASE("proven") {
    CHECK(t.prove(gpu));
    CHECK_FALSE(t.prove(gpu));
    t.acquit(gpu);
    CHECK(t.look(gpu, start) == state::avoided);
  }
}

TEST_CASE("a proven pair is tried by one request at a time, ever more rarely, until one succeeds") {
  auto t = table();
  auto now = start;
  t.failed(gpu, now, false, half_pauses);
  t.prove(gpu);
  for (const auto pause : {500ms, 1000ms, 2000ms, 4000ms, 4000ms}) {
    CHECK(t.retry_at(gpu) == now + pause);
    CHECK(t.next_try(now) == now + pause);
    CHECK(t.look(gpu, now + pause - 1ns) == state::avoided);
    now += pause;
    CHECK(t.look(gpu, now) == state::due);
    t.try_now(gpu);
    CHECK(t.look(gpu, now) == state::tried);
    CHECK(t.next_try(now) == base::time_point::max());
    CHECK_FALSE(t.failed(gpu, now, false, half_pauses)); // it was out before
    CHECK(t.look(gpu, now) == state::tried);
    t.try_ended(gpu);
    CHECK(t.failed(gpu, now, true, half_pauses));
    CHECK(t.look(gpu, now) == state::avoided);
  }
  CHECK(t.works(gpu, now));
  CHECK(t.look(gpu, now) == state::open);
  CHECK_FALSE(t.works(gpu, now));
  CHECK_FALSE(t.knows_any());
}

TEST_CASE("a request that tries a pair and ends without a verdict leaves it to the next one") {
  auto t = table();
  t.failed(gpu, start, false, half_pauses);
  t.prove(gpu);
  t.try_now(gpu);
  t.try_ended(gpu);
  CHECK(t.look(gpu, start + 500ms) == state::due);
}

TEST_CASE("a pair that does not work for ten seconds goes on with the pause where it was") {
  for (const bool is_steady : {false, true}) {
    CAPTURE(is_steady);
    auto t = table();
    t.failed(gpu, start, false, half_pauses);
    t.prove(gpu);
    t.failed(gpu, start + 500ms, true, half_pauses);
    t.works(gpu, start + 2s);
    const auto again = start + 2s + reach::steady_after - (is_steady ? 0ns : 1ns);
    t.failed(gpu, again, false, half_pauses);
    CHECK(t.look(gpu, again) == state::suspect);
    CHECK(t.retry_at(gpu) == again + (is_steady ? 500ms : 2000ms));
  }
}

TEST_CASE("memory that was registered anew is nothing that is known") {
  auto t = table();
  t.failed(gpu, start, false, half_pauses);
  t.prove(gpu);
  auto anew = gpu;
  anew.key = 0x200;
  CHECK(t.look(anew, start) == state::open);
  t.failed(anew, start, false, half_pauses);
  CHECK(t.look(anew, start) == state::suspect);
  CHECK(t.look(gpu, start) == state::open);
  CHECK(t.works(anew, start) == false);
  CHECK_FALSE(t.knows_any());
}

TEST_CASE("another process of the peer's begins without a past, and ours goes on") {
  auto t = table();
  const reach::pair theirs{reach::side::peers, 1, 9, 0x300};
  t.failed(gpu, start, false, half_pauses);
  t.failed(theirs, start, false, half_pauses);
  t.forget(reach::side::peers);
  CHECK(t.look(theirs, start) == state::open);
  CHECK(t.look(gpu, start) == state::suspect);
  CHECK(t.works(gpu, start) == false);
  CHECK_FALSE(t.knows_any());
}

TEST_CASE("a full table forgets the pair that failed longest ago, and first one that works again") {
  auto t = table();
  const auto pair = [](std::uint64_t n) { return reach::pair{reach::side::ours, 0, n, 5}; };
  for (std::uint64_t n = 0; n < reach::most_pairs; ++n)
    t.failed(pair(n), start + std::chrono::milliseconds{n}, false, ~0ull >> 1);
  t.works(pair(1), start + 1s);
  t.failed(pair(1000), start + 1s, false, half_pauses);
  CHECK(t.look(pair(0), start) == state::suspect);
  CHECK(t.look(pair(1000), start + 1s) == state::suspect);
  t.failed(pair(1001), start + 1s, false, half_pauses);
  CHECK(t.look(pair(0), start) == state::open);
  CHECK(t.look(pair(2), start) == state::suspect);
  t.try_ended(pair(0)); // its request may still be out
  CHECK_FALSE(t.works(pair(0), start + 1s));
}
