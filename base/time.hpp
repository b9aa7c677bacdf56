// SPDX-License-Identifier: Apache-2.0
//
// The project's time. Everything that waits takes a time_point of mono_clock (CLOCK_MONOTONIC, nanoseconds),
// and everything that asks for the time does so through a clock_source, so that a simulation can supply it.
// Wall-clock time is for log lines only and never enters a decision.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace actor_rdma::base {

using duration = std::chrono::nanoseconds;

struct mono_clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = base::duration;
  using time_point = std::chrono::time_point<mono_clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    timespec ts{};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return time_point{duration{std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec}};
  }
};

using time_point = mono_clock::time_point;

/// "Never": later than every deadline that can be computed from a real time point.
inline constexpr time_point time_never = time_point::max();

class clock_source {
public:
  clock_source() = default;
  clock_source(const clock_source&) = delete;
  clock_source& operator=(const clock_source&) = delete;
  virtual ~clock_source() = default;

  [[nodiscard]] virtual time_point now() const noexcept = 0;
};

class steady_source final : public clock_source {
public:
  [[nodiscard]] time_point now() const noexcept override { return mono_clock::now(); }
};

/// A clock that moves only when told to. Any thread may read it.
class manual_clock final : public clock_source {
public:
  explicit manual_clock(time_point start = time_point{duration{1}}) noexcept
      : ticks_{start.time_since_epoch().count()} {}

  [[nodiscard]] time_point now() const noexcept override {
    return time_point{duration{ticks_.load(std::memory_order_acquire)}};
  }
  void set(time_point to) noexcept { ticks_.store(to.time_since_epoch().count(), std::memory_order_release); }
  void advance(duration by) noexcept { ticks_.fetch_add(by.count(), std::memory_order_acq_rel); }

private:
  std::atomic<std::int64_t> ticks_;
};

} // namespace actor_rdma::base
