// SPDX-License-Identifier: Apache-2.0
// The yardstick: one thread that posts and polls with nothing between it and the NIC. It has the transport's
// shape (places, batches open at once, QPs per device, chains of at most 64 WRs with a completion at their
// end and after each MiB, bytes ahead per QP), and none of its duties: no deadline, no recovery, no other
// thread.
#pragma once

#include "bench/content.hpp"
#include "bench/raw_link.hpp"
#include "bench/run_control.hpp"
#include "bench/settings.hpp"
#include "bench/tally.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace actor_rdma::bench {

class raw_engine {
public:
  raw_engine(const settings& what, raw_link& link, run_control& control, run_memory memory);
  /// Returns when the run is over, or with the first error.
  base::expected<void> run();
  void sweep() { content_.sweep(count_); }

  const tally& count() const noexcept { return count_; }
  const live_counters& live() const noexcept { return live_; }

private:
  /// A batch from its first WR to its last completion.
  struct open_batch {
    place* where = nullptr;
    base::time_point begin;
    std::uint64_t cut = 0;  ///< bytes for which WRs were made
    std::uint64_t left = 0; ///< bytes without completion
  };
  /// What one completion tells of.
  struct signalled_part {
    open_batch* of = nullptr;
    std::uint32_t wrs = 0;
    std::uint64_t bytes = 0;
  };
  struct queue {
    ibv_qp* qp = nullptr;
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
    std::uint32_t out = 0;
    std::uint64_t out_bytes = 0;
    std::deque<signalled_part> signalled; ///< posted, oldest first
  };

  base::duration patience() const;
  bool begin_batch();
  bool post_some();
  int post_chain(queue& to, open_batch& from, std::size_t most);
  base::expected<bool> poll_some();
  void end_batch(open_batch& ended);

  const settings& what_;
  run_control& control_;
  run_memory memory_;
  std::uint64_t remote_base_;
  content content_;
  std::vector<ibv_cq*> cqs_;
  std::vector<queue> queues_;
  std::size_t next_queue_ = 0;
  std::deque<open_batch> open_; ///< stable addresses; ended ones leave from the front
  std::size_t posting_ = 0;     ///< first of open_ that is not cut completely
  std::vector<ibv_send_wr> wrs_;
  std::vector<ibv_sge> sges_;
  int post_error_ = 0;
  bool measuring_ = false;
  tally count_;
  live_counters live_;
};

} // namespace actor_rdma::bench
