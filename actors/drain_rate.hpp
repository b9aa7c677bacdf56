// SPDX-License-Identifier: Apache-2.0
// How fast a queue of bytes drains, learned from what ends while more waits behind it: only then was there no
// idleness in between. What ends alone says that the queue is at least so fast. A sum of bytes over a sum of
// times, so that completions which are seen together do not look like a fast queue. Pure: time is an
// argument.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace actor_rdma::actors {

class drain_rate {
public:
  /// Work meets an empty queue at `now`: what came before was idleness, and after a long one the past says
  /// nothing.
  void began(base::time_point now) noexcept {
    if (now - since_ > forgotten_after)
      bytes_ = seconds_ = 0;
    restart(now);
  }
  /// The silence under way may be a hang. What it lasts says nothing about the rate: taken for slowness, it
  /// would explain the next hang.
  void doubted() noexcept { doubted_ = true; }
  /// `bytes`, the first of which came at `came`, have ended by `now` while `left` are still under way. What
  /// is left may hang, so that only the time since these came was surely not idle.
  void ended(std::uint64_t bytes, std::uint64_t left, base::time_point came, base::time_point now) noexcept {
    if (doubted_)
      return restart(now);
    pending_ += static_cast<double>(bytes);
    const std::chrono::duration<double> busy = now - std::max(since_, came);
    if (left != 0 && busy.count() <= 0)
      return;
    // With nothing behind it the last one's time is mostly latency: the queue is at least so fast.
    const bool is_faster = seconds_ > 0 && busy.count() > 0 && pending_ > per_second() * busy.count();
    if (left != 0 || is_faster) {
      bytes_ = keep * bytes_ + pending_;
      seconds_ = keep * seconds_ + busy.count();
    }
    restart(now);
  }
  /// Bytes per second, 0 while nothing is known.
  double per_second() const noexcept { return seconds_ > 0 ? bytes_ / seconds_ : 0; }

private:
  static constexpr double keep = 0.95; ///< what is left of the past after each sample
  static constexpr base::duration forgotten_after = std::chrono::seconds{1};

  void restart(base::time_point now) noexcept {
    since_ = now;
    pending_ = 0;
    doubted_ = false;
  }

  base::time_point since_{};
  bool doubted_ = false;
  double pending_ = 0; ///< seen at the same moment as the sample before
  double bytes_ = 0;
  double seconds_ = 0;
};

} // namespace actor_rdma::actors
