// SPDX-License-Identifier: Apache-2.0
// What all threads of a run look at: whether to go on, and since when it counts.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <cstdint>

namespace actor_rdma::bench {

class run_control {
public:
  /// `batches` 0: until finish() is called.
  explicit run_control(std::uint64_t batches) noexcept
      : limited_(batches > 0), left_(static_cast<std::int64_t>(batches)) {}

  /// Whether one more batch may begin.
  bool take_ticket() noexcept {
    if (finished_.load(std::memory_order_relaxed))
      return false;
    return !limited_ || left_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }
  /// The batch did not begin after all.
  void return_ticket() noexcept { left_.fetch_add(1, std::memory_order_relaxed); }
  void finish() noexcept { finished_.store(true, std::memory_order_relaxed); }
  /// Ends the run at once: no batch begins, and what is open `after` from now is cancelled.
  void interrupt(base::duration after) noexcept {
    cancel_at_.store((base::mono_clock::now() + after).time_since_epoch().count(), std::memory_order_relaxed);
    finish();
  }
  bool wants_cancel() const noexcept {
    return base::mono_clock::now().time_since_epoch().count() >= cancel_at_.load(std::memory_order_relaxed);
  }
  const std::atomic<bool>& finished() const noexcept { return finished_; }

  /// The time from here on counts. Threads see it between two batches.
  void begin_measuring() noexcept { measuring_.store(true, std::memory_order_relaxed); }
  bool is_measuring() const noexcept { return measuring_.load(std::memory_order_relaxed); }

  /// A target that died is waited for until then.
  void set_end(base::time_point end) noexcept {
    end_.store(end.time_since_epoch().count(), std::memory_order_relaxed);
  }
  base::time_point end() const noexcept {
    return base::time_point{base::duration{end_.load(std::memory_order_relaxed)}};
  }

private:
  const bool limited_;
  std::atomic<std::int64_t> left_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> measuring_{false};
  std::atomic<std::int64_t> end_{0};
  std::atomic<std::int64_t> cancel_at_{INT64_MAX};
};

} // namespace actor_rdma::bench
