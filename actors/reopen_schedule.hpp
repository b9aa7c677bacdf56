// SPDX-License-Identifier: Apache-2.0
// When a lost device is opened again: soon at first, then ever more rarely up to a cap, for as long as it
// takes. Only a device that has served for a while starts from the beginning; one that comes back and is lost
// at once goes on waiting longer. Pure: no clock, no randomness of its own.
#pragma once

#include "base/backoff.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace actor_rdma::actors {

class reopen_schedule {
public:
  static constexpr base::duration least = std::chrono::milliseconds{20};
  static constexpr base::duration cap = std::chrono::milliseconds{1000};
  /// A device that was there for so long is a good one.
  static constexpr base::duration steady_after = std::chrono::seconds{10};

  void lost(base::time_point now) noexcept {
    if (serving_since_ && now - *serving_since_ >= steady_after)
      step_ = 0;
    serving_since_.reset();
    lost_at_ = now;
    attempts_ = 0;
  }
  /// How long to wait before the next attempt, which is counted: between half and all of the step's time.
  base::duration next(std::uint64_t random) noexcept {
    ++attempts_;
    const auto wait = base::backoff(least, cap, step_, random);
    step_ += step_ < 10 ? 1u : 0u;
    return wait;
  }
  void serves(base::time_point now) noexcept {
    if (!serving_since_)
      serving_since_ = now;
  }

  std::uint32_t attempts() const noexcept { return attempts_; } ///< since it was lost last
  base::duration away(base::time_point now) const noexcept { return now - lost_at_; }
  /// It was tried so often without a steady time between that one more is no news.
  bool is_old_news() const noexcept { return step_ > 5; }

private:
  std::uint32_t step_ = 0;
  std::uint32_t attempts_ = 0;
  base::time_point lost_at_{};
  std::optional<base::time_point> serving_since_;
};

} // namespace actor_rdma::actors
