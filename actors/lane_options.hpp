// SPDX-License-Identifier: Apache-2.0
//
// How a lane is set up, what it counts, and who hears of what went wrong on it.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace actor_rdma::actors {

class lane;
class verbs_executor;

/// Hears, on the lane, what the lane has to say about itself. Must not block.
class lane_observer {
public:
  /// Nothing ran on the lane for this long although something could have.
  virtual void on_gap(const lane& where, base::duration gap) noexcept = 0;
  /// Something that ran on the lane threw.
  virtual void on_internal_fault(const lane& where, std::string_view text) noexcept = 0;

protected:
  ~lane_observer() = default;
};

struct lane_options {
  std::size_t index = 0;
  std::string name = "lane0";                          ///< of the thread
  int core = -1;                                       ///< to pin the thread to, -1 for none
  base::duration spin = std::chrono::microseconds{50}; ///< without work, before it sleeps
  std::size_t max_throughput = 16;                     ///< messages that an actor may handle in a row
  std::size_t jobs_per_turn = 8; ///< actors that may run between two polls of the queues
  base::duration gap_threshold = std::chrono::microseconds{7500}; ///< a quarter of the smallest stall time
  lane_observer* observer = nullptr;                              ///< must outlive the lane
  std::shared_ptr<verbs_executor> executor;                       ///< for run_slow
};

struct lane_counters {
  std::uint64_t turns = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t foreign_wakes = 0; ///< eventfd writes by other threads
  std::uint64_t faults = 0;
  std::uint64_t gaps = 0;
  base::duration last_gap{};
  base::duration lost_time{};
};

} // namespace actor_rdma::actors
