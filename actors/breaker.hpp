// SPDX-License-Identifier: Apache-2.0
// Tells an event of a device or of the fabric from many broken QPs. When more than half of the peers that a
// device is busy with fall silent at nearly the same time, the cause is one and is not their QPs: fencing and
// rebuilding them all at once would be a storm that the event itself may outlive. Such fences wait, at most
// for `hold`, and leave one after the other then. They are never given up: a silence that lasts is fenced.
// Pure: time is an argument.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace actor_rdma::actors {

class breaker {
public:
  static constexpr std::size_t least_peers = 4;
  static constexpr base::duration together = std::chrono::milliseconds{100};
  /// Between two fences that have waited.
  static constexpr base::duration spacing = std::chrono::milliseconds{2};
  /// So long after it opened the next event may be another one.
  static constexpr base::duration rest = std::chrono::seconds{10};

  /// One busy QP of a device.
  struct silence {
    std::uint64_t peer = 0;
    std::optional<base::time_point> suspected; ///< since when it is suspect; nothing: it is not
  };
  struct finding {
    std::size_t peers = 0;  ///< that the device is busy with
    std::size_t silent = 0; ///< all busy QPs of these became suspect lately
  };

  /// `hold` 0: it never opens.
  explicit breaker(base::duration hold) noexcept : hold_(hold) {}

  /// A QP became suspect. What was found, if that opens it now. `busy` is sorted by peer.
  std::optional<finding> suspected(std::span<const silence> busy, base::time_point now) noexcept;
  /// When a fence for silence that is due now may happen; `now` if it need not wait. Each call while it is
  /// open gets a later time, behind `jitter`.
  base::time_point fence_at(base::time_point now, base::duration jitter) noexcept;
  bool is_open(base::time_point now) const noexcept { return now < until_; }
  /// The port was down and is up again: the event is over, and what hangs still hangs for good.
  void close() noexcept { until_ = {}; }

private:
  base::duration hold_;
  base::time_point until_{};
  std::optional<base::time_point> opened_;
  std::int64_t waiting_ = 0; ///< fences that were put off
};

} // namespace actor_rdma::actors
