// SPDX-License-Identifier: Apache-2.0
// Counts what the transport had to do to stay healthy. On a machine where nothing is broken all of it is
// zero, whatever the machine's speed: that is what long runs on slow machines look at.
#pragma once

#include "observe/events.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace actor_rdma::bench {

struct health {
  std::uint64_t suspected = 0;    ///< QPs that made no progress for too long,
  std::uint64_t false_alarms = 0; ///< and those of them that went on by themselves
  std::uint64_t fenced = 0;       ///< QP generations
  std::uint64_t rebuilt = 0;      ///< QPs that were made again and carry traffic
  std::uint64_t wr_errors = 0;
  std::uint64_t peers_lost = 0;
  std::uint64_t devices_lost = 0;
  std::uint64_t lane_gap_max_ns = 0; ///< the longest time that a lane lost
};

std::string to_text(const health& what);

/// Whether `what` says that a QP carries traffic from now on, for the first time or again.
bool is_made_qp(const observe::event& what);

class health_watch final : public observe::event_sink {
public:
  /// `next` gets every event too; it may be null.
  explicit health_watch(std::shared_ptr<observe::event_sink> next = nullptr) : next_(std::move(next)) {}
  void on_event(const observe::event& what) override;
  health so_far() const;

private:
  std::shared_ptr<observe::event_sink> next_;
  mutable std::mutex mutex_;
  health counts_;
  std::set<std::string> made_; ///< QPs that have carried traffic
};

} // namespace actor_rdma::bench
