// SPDX-License-Identifier: Apache-2.0
//
// A timer wheel for deadline sinks: base::timer_wheel carries one number per timer, a deadline needs a sink
// and a token. A fired or cancelled deadline's id is stale from then on, also while its own sink is being
// called.
#pragma once

#include "actors/lane_env.hpp"
#include "base/timer_wheel.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace actor_rdma::actors {

class deadline_wheel {
public:
  explicit deadline_wheel(base::time_point start) : wheel_(start) {}

  deadline_id arm(base::time_point when, deadline_sink& sink, std::uint64_t token) {
    std::uint32_t index = free_;
    if (index != none) {
      free_ = slots_[index].next_free;
    } else {
      index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    }
    auto& s = slots_[index];
    s.sink = &sink;
    s.token = token;
    s.timer = wheel_.arm(when, index);
    return static_cast<deadline_id>((std::uint64_t{s.generation} << 32) | index);
  }

  bool cancel(deadline_id id) noexcept {
    const auto value = static_cast<std::uint64_t>(id);
    const auto index = static_cast<std::uint32_t>(value);
    if (index >= slots_.size() || slots_[index].sink == nullptr ||
        slots_[index].generation != static_cast<std::uint32_t>(value >> 32))
      return false;
    wheel_.cancel(slots_[index].timer);
    release(index);
    return true;
  }

  /// Looks at all that are armed: for sinks that end, which is rare.
  void cancel_all(const deadline_sink& sink) noexcept {
    for (std::uint32_t index = 0; index < slots_.size(); ++index)
      if (slots_[index].sink == &sink) {
        wheel_.cancel(slots_[index].timer);
        release(index);
      }
  }

  /// Calls fire(sink, token) for whatever is due, in the order of the deadlines; returns how many. `fire` may
  /// arm and cancel; what it arms fires in a later call.
  template <class Fire>
  std::size_t expire(base::time_point now, Fire&& fire) {
    return wheel_.expire(now, [&](std::uint64_t index) {
      const auto due = slots_[index];
      release(static_cast<std::uint32_t>(index));
      fire(*due.sink, due.token);
    });
  }

  /// When expire should next be called; never later than the earliest deadline.
  std::optional<base::time_point> next() const noexcept { return wheel_.next_deadline(); }

private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct slot {
    deadline_sink* sink = nullptr; ///< nullptr: free
    std::uint64_t token = 0;
    base::timer_id timer;
    std::uint32_t generation = 1; // so that no id is 0
    std::uint32_t next_free = none;
  };

  void release(std::uint32_t index) noexcept {
    auto& s = slots_[index];
    s.sink = nullptr;
    if (++s.generation == 0)
      s.generation = 1;
    s.next_free = free_;
    free_ = index;
  }

  base::timer_wheel wheel_;
  std::vector<slot> slots_;
  std::uint32_t free_ = none;
};

} // namespace actor_rdma::actors
