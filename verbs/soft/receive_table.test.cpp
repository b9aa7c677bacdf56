// SPDX-License-Identifier: Apache-2.0
//
// The lock-free steps of receiving, by several claimers at once.
#include "verbs/soft/receive_table.hpp"

#include "verbs/soft/segment.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::verbs::soft;

namespace {

constexpr std::uint32_t room = 13; // the ring has more places than there are receives

struct one_queue {
  one_queue() : memory{std::move(*segment::make_private(1))}, t{memory.get()}, shape{shape_of(room, 1)} {
    queue = claim_receive_queue(memory, 0, shape, 1).value_or(0);
    REQUIRE(queue != 0);
    for (std::uint32_t i = 0; i < room; ++i)
      free.push_back(queue + shape.first_slot + i * shape.units_per_slot);
  }
  ~one_queue() { release_receive_queue(t, queue, shape); }
  void post(std::uint64_t wr_id) {
    slot_at(t, free.back()).wr_id = wr_id;
    post_receive(t, queue, free.back());
    free.pop_back();
  }

  segment memory;
  layout::tables& t;
  receive_shape shape;
  std::uint32_t queue = 0;
  std::vector<std::uint32_t> free;
};

/// What a requester does, until `stop`.
void claim_all(one_queue& q, std::uint32_t own_index, const std::atomic<bool>& stop) {
  while (!stop.load()) {
    const auto slot = claim_receive(q.t, q.queue, own_index);
    if (slot == 0) {
      std::this_thread::yield();
      continue;
    }
    auto& s = slot_at(q.t, slot);
    s.src_qpn = own_index;
    if (finish_receive(s, s.word.load()))
      add_arrival(q.t, q.t.cqs[0], slot);
  }
}

} // namespace

TEST_CASE("receives are claimed in the order of their posting, and an empty queue has none") {
  one_queue q;
  CHECK(claim_receive(q.t, q.queue, 7) == 0);
  for (std::uint64_t i = 0; i < room; ++i)
    q.post(i);
  CHECK(posted_receives(q.t, q.queue) == room);
  for (std::uint64_t i = 0; i < room; ++i) {
    const auto slot = claim_receive(q.t, q.queue, 7);
    REQUIRE(slot != 0);
    CHECK(slot_at(q.t, slot).wr_id == i);
    CHECK(claimer_of(slot_at(q.t, slot).word.load()) == 7);
  }
  CHECK(claim_receive(q.t, q.queue, 7) == 0);
  CHECK(posted_receives(q.t, q.queue) == 0);
}

TEST_CASE("every receive is claimed once and arrives once, whoever claims beside whom") {
  constexpr std::uint64_t total = 30'000;
  constexpr std::uint32_t claimers = 4;
  one_queue q;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i <= claimers; ++i)
    threads.emplace_back([&, i] { claim_all(q, i, stop); });
  std::vector<int> arrived(total, 0);
  std::uint64_t posted = 0;
  std::uint64_t seen = 0;
  bool is_sound = true;
  while (seen < total && is_sound) {
    while (posted < total && !q.free.empty())
      q.post(posted++);
    auto at = take_arrivals(q.t, q.t.cqs[0]);
    if (at == 0)
      std::this_thread::yield();
    while (at != 0) {
      auto& s = slot_at(q.t, at);
      const auto next = s.next.load();
      is_sound &= state_of(s.word.load()) == receive_state::done && claimer_of(s.word.load()) == s.src_qpn &&
                  s.wr_id < posted;
      ++arrived[s.wr_id];
      ++seen;
      s.word.store(0);
      q.free.push_back(at);
      at = next;
    }
  }
  stop = true;
  for (auto& thread : threads)
    thread.join();
  CHECK(is_sound);
  CHECK(seen == total);
  CHECK(std::all_of(arrived.begin(), arrived.end(), [](int n) { return n == 1; }));
  CHECK(claim_receive(q.t, q.queue, 9) == 0);
  CHECK(q.free.size() == room);
}

TEST_CASE("a limit is reached once, however many claim below it") {
  one_queue q;
  for (std::uint64_t i = 0; i < 10; ++i)
    q.post(i);
  ring_at(q.t, q.queue).limit = 8;
  CHECK(!reached_limit(q.t, q.queue));
  for (int i = 0; i < 2; ++i)
    REQUIRE(claim_receive(q.t, q.queue, 1) != 0);
  CHECK(!reached_limit(q.t, q.queue)); // 8 are left
  REQUIRE(claim_receive(q.t, q.queue, 1) != 0);
  std::atomic<int> reached{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { reached += reached_limit(q.t, q.queue) ? 1 : 0; });
  for (auto& thread : threads)
    thread.join();
  CHECK(reached == 1);
  CHECK(ring_at(q.t, q.queue).limit_reached == 1);
}
