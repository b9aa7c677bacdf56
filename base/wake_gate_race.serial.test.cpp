// SPDX-License-Identifier: Apache-2.0
//
// single-producer rings on purpose: their push is a plain store, so that on x86 both of the gate's fences
// matter, which a compare-and-swap would hide.
#include "base/mpsc_inbox.hpp"
#include "base/random.hpp"
#include "base/spsc_ring.hpp"
#include "base/wake_gate.hpp"
#include "tests/support/environment.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t default_pushes = 200'000;
#else
constexpr std::uint64_t default_pushes = 10'000'000;
#endif

// Longer than a producer on a crowded machine can be held up between its push and its wake.
constexpr auto lost_after = 10s;
// On such a machine fewer pushes must do.
constexpr auto time_limit = 60s;

std::uint64_t pushes_wanted() {
  return actor_rdma::tests::whole_number("ACTOR_RDMA_GATE_PUSHES", default_pushes);
}

struct result {
  std::uint64_t consumed = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t lost = 0;
};

/// A source offers push(producer), drain() -> count and empty().
template <class Source>
result race(Source& source, wake_gate& gate, std::uint64_t total) {
  constexpr std::uint64_t producers = 2;
  const std::uint64_t each = total / producers;
  std::atomic<bool> gave_up{false};
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < producers; ++p) {
    threads.emplace_back([&, p] {
      rng random{p + 1};
      for (std::uint64_t done = 0; done < each && !gave_up.load(std::memory_order_relaxed);) {
        // A short burst, then wait until the consumer has everything: the last push of a burst is the one
        // whose loss no later push would repair.
        const auto burst = std::min<std::uint64_t>(each - done, 1 + random.below(4));
        for (std::uint64_t i = 0; i < burst; ++i) {
          source.push(p);
          gate.wake();
        }
        done += burst;
        for (int spin = 0; source.consumed_of(p) < done && !gave_up.load(std::memory_order_relaxed); ++spin) {
          if (spin > 50)
            std::this_thread::yield();
        }
        for (auto pause = random.below(64); pause > 0; --pause)
          std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    });
  }
  result r;
  const auto give_up_at = mono_clock::now() + time_limit;
  while (r.consumed < each * producers && r.lost == 0) {
    const auto n = source.drain();
    r.consumed += n;
    if (n > 0)
      continue;
    gate.prepare_sleep();
    if (!source.empty()) {
      gate.cancel_sleep();
      continue;
    }
    ++r.sleeps;
    const auto before = mono_clock::now();
    static_cast<void>(gate.wait(lost_after));
    const auto now = mono_clock::now();
    if (now - before >= lost_after && !source.empty())
      ++r.lost;
    if (now >= give_up_at)
      break;
  }
  gave_up = true;
  for (auto& t : threads)
    t.join();
  r.consumed += source.drain(); // what was left when it was given up
  return r;
}

struct ring_source {
  std::array<spsc_ring<int>, 2> rings{spsc_ring<int>{64}, spsc_ring<int>{64}};
  std::array<std::atomic<std::uint64_t>, 2> consumed{};

  void push(std::uint64_t p) {
    while (!rings[p].push(1))
      std::this_thread::yield();
  }
  std::uint64_t drain() {
    std::uint64_t n = 0;
    for (std::size_t p = 0; p < rings.size(); ++p) {
      const auto got = rings[p].pop_batch(64, [](int) {});
      consumed[p].fetch_add(got, std::memory_order_release);
      n += got;
    }
    return n;
  }
  bool empty() const { return rings[0].empty() && rings[1].empty(); }
  std::uint64_t consumed_of(std::uint64_t p) const { return consumed[p].load(std::memory_order_acquire); }
};

struct inbox_source {
  struct item {
    std::uint64_t producer;
    item* inbox_next = nullptr;
  };
  mpsc_inbox<item> inbox;
  std::array<std::atomic<std::uint64_t>, 2> consumed{};

  void push(std::uint64_t p) { inbox.push(std::make_unique<item>(item{p, nullptr}).release()); }
  std::uint64_t drain() {
    std::uint64_t n = 0;
    auto list = inbox.take_all();
    for (std::unique_ptr<item> i{list.pop()}; i; i.reset(list.pop()), ++n)
      consumed[i->producer].fetch_add(1, std::memory_order_release);
    return n;
  }
  bool empty() const { return inbox.empty(); }
  std::uint64_t consumed_of(std::uint64_t p) const { return consumed[p].load(std::memory_order_acquire); }
};

} // namespace

TEST_CASE("no wake-up is lost between rings and a sleeping consumer") {
  auto gate = wake_gate::make().value();
  ring_source source;
  const auto r = race(source, *gate, pushes_wanted());
  MESSAGE(r.consumed << " pushes, " << r.sleeps << " sleeps, " << gate->wakes_written()
                     << " wake-ups written");
  CHECK(r.lost == 0);
  CHECK(r.sleeps > 1000);
}

TEST_CASE("no wake-up is lost between an inbox and a sleeping consumer") {
  auto gate = wake_gate::make().value();
  inbox_source source;
  const auto r = race(source, *gate, pushes_wanted() / 10);
  CHECK(r.lost == 0);
  CHECK(r.sleeps > 0);
}
