// SPDX-License-Identifier: Apache-2.0
// Ping-pong between two threads.
#include "bench/core_round_trip.hpp"

#include "base/histogram.hpp"

#include <atomic>
#include <cstdint>
#include <thread>

#include <pthread.h>
#include <sched.h>

namespace actor_rdma::bench {

namespace {

constexpr std::uint32_t rounds = 20000;
constexpr std::uint32_t last_round = 0xffffffff;
constexpr base::duration limit = std::chrono::milliseconds{100};
constexpr std::uint32_t spins_before_yield = 10000;

struct alignas(64) slot {
  std::atomic<std::uint32_t> value{0};
};

std::uint32_t wait_for_change(const slot& in, std::uint32_t from) noexcept {
  for (std::uint32_t spins = 1;; ++spins) {
    if (const auto now = in.value.load(std::memory_order_acquire); now != from)
      return now;
    if (spins % spins_before_yield == 0)
      std::this_thread::yield();
  }
}

/// Two cores that this thread may run on, if there are two.
struct two_cores {
  two_cores() {
    ::pthread_getaffinity_np(::pthread_self(), sizeof allowed, &allowed);
    for (int i = 0; i < CPU_SETSIZE && second < 0; ++i)
      if (CPU_ISSET(i, &allowed))
        (first < 0 ? first : second) = i;
  }
  void pin(int core) const {
    if (second < 0)
      return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one);
  }
  void release() const { ::pthread_setaffinity_np(::pthread_self(), sizeof allowed, &allowed); }

  cpu_set_t allowed{};
  int first = -1;
  int second = -1;
};

} // namespace

base::duration measure_core_round_trip() {
  slot there;
  slot back;
  const two_cores cores;
  cores.pin(cores.first); // left to itself the kernel may keep both on one core
  std::thread other([&] {
    cores.pin(cores.second);
    for (std::uint32_t seen = 0; seen != last_round;) {
      seen = wait_for_change(there, seen);
      back.value.store(seen, std::memory_order_release);
    }
  });
  base::histogram times;
  const auto until = base::mono_clock::now() + limit;
  auto begin = base::mono_clock::now();
  for (std::uint32_t i = 1; i <= rounds && begin < until; ++i) {
    there.value.store(i, std::memory_order_release);
    wait_for_change(back, i - 1);
    const auto end = base::mono_clock::now();
    times.record(static_cast<std::uint64_t>((end - begin).count()));
    begin = end;
  }
  there.value.store(last_round, std::memory_order_release);
  other.join();
  cores.release();
  return base::duration{static_cast<std::int64_t>(times.quantile(0.5))};
}

} // namespace actor_rdma::bench
