// SPDX-License-Identifier: Apache-2.0
// One submitting thread of the actor engine: keeps `depth` batches open, waits for the oldest, checks and
// counts what ended. When the target dies it waits for another one at the same address and goes on.
#pragma once

#include "bench/content.hpp"
#include "bench/memory_block.hpp"
#include "bench/run_control.hpp"
#include "bench/settings.hpp"
#include "bench/tally.hpp"
#include "bench/target_link.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace actor_rdma::bench {

class submitter {
public:
  submitter(const settings& what, std::uint32_t thread, transport& over, target_link& link,
            run_control& control, run_memory memory);
  submitter(const submitter&) = delete;
  submitter& operator=(const submitter&) = delete;
  /// Memory for reading back, where that is needed. Before run().
  base::expected<void> prepare();
  /// The thread's body.
  void run();
  /// Afterwards: checks all places once more.
  void sweep() { content_.sweep(count_); }

  const tally& count() const noexcept { return count_; }
  const live_counters& live() const noexcept { return live_; }
  /// Batches that never ended: their memory must stay.
  bool left_something() const noexcept { return count_.stuck > 0; }
  void abandon_memory() noexcept { returned_.abandon(); }

private:
  struct open_batch {
    batch handle;
    place* where = nullptr;
    base::time_point submitted;
  };

  enum class submitted : std::uint8_t { yes, refused, run_is_over };
  submitted submit_one();
  void take_oldest();
  bool wait(batch& handle);
  std::string why_stuck() const;
  void count_result(const transfer_result& r);
  void report_failures(const batch& handle, base::duration after);
  bool restore_link();
  std::span<const std::byte> read_back(std::uint64_t offset, std::uint64_t length);

  const settings& what_;
  const std::uint32_t thread_;
  const std::uint32_t source_; ///< of notices
  transport& transport_;
  target_link& link_;
  run_control& control_;
  run_memory memory_;
  memory_block returned_; ///< what was read back
  content content_;
  target_link::view view_;
  std::vector<transfer_request> requests_;
  std::deque<open_batch> open_;
  std::uint64_t submits_ = 0;
  bool measuring_ = false;
  base::time_point cancel_at_ = base::time_never; ///< what has no deadline, once the run is over
  tally count_;
  live_counters live_;
};

} // namespace actor_rdma::bench
