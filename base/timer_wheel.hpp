// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of one thread: arm and cancel in constant time, however many there are. Time is always an
// argument, so the same wheel runs on a lane and in a simulation. A timer never fires early and, when expire
// is called late, late timers fire in the order of their deadlines, equal ones in the order in which they
// were armed.
//
// Four levels of 256 slots over ticks of (by default) 100 us. A timer lies on the level of the highest
// base-256 digit in which its tick differs from the current tick, in the slot of that digit; when the wheel
// reaches the first tick of a slot above level 0, its timers move down. So a level only holds slots ahead of
// the current one, nothing wraps, and an empty stretch is skipped in one step, however long. Ticks are only
// where a timer is kept: whether it is due is decided by its exact deadline.
#pragma once

#include "base/checks.hpp"
#include "base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace actor_rdma::base {

/// Names one arming. It goes stale when the timer fires or is cancelled, and a stale id is harmless. Zero is
/// none.
struct timer_id {
  std::uint64_t value = 0;

  [[nodiscard]] explicit operator bool() const noexcept { return value != 0; }
  friend bool operator==(timer_id, timer_id) = default;
};

class timer_wheel {
public:
  static constexpr duration default_tick = std::chrono::microseconds{100};

  /// Memory for `reserve` timers is taken now. More than that costs an allocation when it happens.
  explicit timer_wheel(time_point start, duration tick = default_tick, std::size_t reserve = 64);

  timer_id arm(time_point when, std::uint64_t token);
  /// True if the timer was armed; it will not fire then, not even in an expire that is under way.
  bool cancel(timer_id id) noexcept;
  [[nodiscard]] bool armed(timer_id id) const noexcept { return find(id) != none; }

  /// Calls fire(token) for every timer whose deadline is not after `now`; returns how many. `fire` may arm
  /// and cancel; what it arms fires in a later call at the earliest, so this one ends.
  template <class Fire>
  std::size_t expire(time_point now, Fire&& fire) {
    if (now < not_before_)
      return 0;
    ACTOR_RDMA_ASSERT(!expiring_, "expire called from a timer's callback");
    collect_due(now);
    const flag_guard guard{expiring_};
    std::size_t fired = 0;
    for (std::uint64_t token = 0; next_due(token); ++fired)
      fire(token);
    return fired;
  }

  /// When expire should next be called: never later than the earliest deadline, possibly earlier. Empty when
  /// no timer is armed.
  [[nodiscard]] std::optional<time_point> next_deadline() const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

private:
  static constexpr unsigned digit_bits = 8;
  static constexpr unsigned slots = 1U << digit_bits;
  static constexpr unsigned levels = 4;
  static constexpr std::uint32_t far_list = levels * slots; // differs above the highest level
  static constexpr std::uint32_t due_list = far_list + 1;   // collected, its callback not yet called
  static constexpr std::uint32_t none = UINT32_MAX;

  struct node {
    time_point when;
    std::uint64_t token = 0;
    std::uint64_t sequence = 0; // order of arming
    std::uint32_t generation = 1;
    std::uint32_t list = none; // none: free
    std::uint32_t next = none;
    std::uint32_t previous = none;
  };
  struct due_entry {
    time_point when;
    std::uint64_t sequence;
    timer_id id;
  };
  struct flag_guard {
    bool& flag;
    explicit flag_guard(bool& f) noexcept : flag{f} { flag = true; }
    ~flag_guard() { flag = false; }
    flag_guard(const flag_guard&) = delete;
    flag_guard& operator=(const flag_guard&) = delete;
  };

  [[nodiscard]] std::uint64_t tick_of(time_point when) const noexcept;
  [[nodiscard]] time_point time_of(std::uint64_t tick) const noexcept;
  [[nodiscard]] std::uint32_t find(timer_id id) const noexcept;
  [[nodiscard]] std::uint32_t list_for(std::uint64_t tick) const noexcept;
  /// First tick of the earliest occupied slot.
  [[nodiscard]] std::optional<std::uint64_t> earliest_tick(std::uint32_t& list) const noexcept;
  void link(std::uint32_t index, std::uint32_t list) noexcept;
  void unlink(std::uint32_t index) noexcept;
  void release(std::uint32_t index) noexcept;
  void move_down(std::uint32_t list) noexcept;
  void take_due(std::uint32_t list, time_point now);
  void collect_due(time_point now);
  bool next_due(std::uint64_t& token) noexcept;

  const time_point start_;
  const duration tick_length_;
  std::uint64_t tick_ = 0;
  time_point not_before_ = time_never; // nothing is due before this
  std::uint64_t next_sequence_ = 0;
  std::size_t size_ = 0;
  std::uint32_t free_ = none;
  bool expiring_ = false;
  std::vector<node> nodes_;
  std::array<std::uint32_t, far_list + 1> heads_;
  std::array<std::array<std::uint64_t, slots / 64>, levels> occupied_{};
  std::vector<due_entry> due_; // latest first, so that the next one to fire is at the back
};

} // namespace actor_rdma::base
