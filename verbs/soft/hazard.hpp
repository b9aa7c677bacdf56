// SPDX-License-Identifier: Apache-2.0
//
// How destroying is made a proof. Work is executed by the requester, possibly in another process, and no lock
// can be shared with it: a process that is stopped while holding one would freeze its peer. So whoever
// executes first publishes what it touches and then checks that it still may; whoever destroys first marks
// the thing dead and then waits, for a bounded time, until nobody's published word names it. All four
// accesses are sequentially consistent, so one of the two sides sees the other.
#pragma once

#include "verbs/soft/layout.hpp"

#include <chrono>
#include <cstdint>

namespace actor_rdma::verbs::soft {

/// A thread's executing of work: from the constructor to the destructor the thread may touch registered
/// memory, local memory at any time, and a peer's only while it is the target.
class execution {
public:
  explicit execution(layout::process_entry& process) noexcept;
  ~execution();
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;

  /// Published before the caller checks QP and MR. Costs a locked instruction only when the target changes.
  void target(std::uint32_t qp_index, std::uint32_t mr_index) noexcept {
    publish((std::uint64_t{qp_index} + 1) << 32 | (std::uint64_t{mr_index} + 1));
  }
  /// The same for a queue pair alone, whatever memory it will turn out to use.
  void target_queue_pair(std::uint32_t qp_index) noexcept { publish((std::uint64_t{qp_index} + 1) << 32); }

private:
  void publish(std::uint64_t word) noexcept {
    if (word != current_) {
      current_ = word;
      slot_->target.store(word, std::memory_order_seq_cst);
    }
  }

  layout::hazard_slot* slot_;
  std::uint64_t current_ = 0;
};

/// How long the calls below wait before they give up: then a stopped process is in the middle of a copy. A
/// verb that waits has answered within 200 ms, also on a busy machine.
inline constexpr std::chrono::milliseconds hazard_patience{150};

/// Waits until no thread of any process can still be at work on what the queue pair was before the caller
/// marked it.
[[nodiscard]] bool wait_for_queue_pair(layout::tables& tables, const layout::process_entry& own,
                                       std::uint32_t qp_index);
/// Whether some thread of some process may be at work on it at this moment.
[[nodiscard]] bool is_at_work_on_queue_pair(layout::tables& tables, const layout::process_entry& own,
                                            std::uint32_t qp_index);
/// The same for a memory region; threads of the own process may use it as local memory too.
[[nodiscard]] bool wait_for_memory_region(layout::tables& tables, const layout::process_entry& own,
                                          std::uint32_t mr_index);
/// Waits until every thread of the own process that executes now has finished a turn.
[[nodiscard]] bool wait_for_own_executions(const layout::process_entry& own);

} // namespace actor_rdma::verbs::soft
