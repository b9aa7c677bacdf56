// SPDX-License-Identifier: Apache-2.0
//
// Where verbs calls run that may take long: plain threads, one for each queue number (a device, or a part of
// one), made when the queue is first used. Calls of one queue run one at a time and in order; queues do not
// wait for each other, so one wedged device stops only its own calls. A call is never refused and never
// dropped, because a destroy that did not happen is a fence that nobody will ever see: `congested_at` waiting
// calls are a mark that is counted and logged, not a limit. The number of calls is bounded by the callers,
// each of which waits for its last one.
//
// A call that hangs cannot be ended. shutdown() waits for it for a stated time, then leaves it behind for
// good: thread, closures and all, since what they own may still be in use by a device.
#pragma once

#include "actors/lane_env.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace actor_rdma::actors {

class verbs_executor {
public:
  static constexpr std::size_t default_congested_at = 1024;

  /// A queue as a snapshot shows it.
  struct queue_state {
    std::uint32_t queue = 0;
    std::size_t waiting = 0;     ///< calls that have not begun
    base::duration busy_for{};   ///< how long the current call has been running, zero when there is none
    std::uint64_t calls = 0;     ///< that have returned
    std::uint64_t faults = 0;    ///< of these, how many threw
    std::uint64_t congested = 0; ///< calls that came while `congested_at` or more were waiting
    base::duration last_call{};  ///< duration of the last one
    base::duration longest_call{};
  };

  /// A queue that shutdown() had to leave behind.
  struct stuck_queue {
    std::uint32_t queue = 0;
    base::duration busy_for{};
    std::size_t never_begun = 0; ///< calls behind the one that hangs
  };

  explicit verbs_executor(std::size_t congested_at = default_congested_at) : congested_at_(congested_at) {}
  verbs_executor(const verbs_executor&) = delete;
  verbs_executor& operator=(const verbs_executor&) = delete;
  /// shutdown() without patience.
  ~verbs_executor();

  /// Runs `work` on the queue's thread, then `done` on `home`, also if `work` throws (which is logged and
  /// counted). Any thread. Throws std::system_error, and takes nothing, if the queue's thread cannot be made.
  /// After shutdown() the call is buried: it neither runs nor are its closures destroyed.
  void run(std::uint32_t queue, std::function<void()> work, std::function<void()> done, lane_env& home);

  /// How long the queue's current call has been running; zero when there is none. Any thread.
  base::duration busy_for(std::uint32_t queue) const;
  /// All queues that were ever used, by number. Any thread.
  std::vector<queue_state> states() const;

  /// Takes no more calls, waits up to `patience` for those it has, ends the threads and returns the queues
  /// that still were not done. Nothing is posted to any lane once it has returned.
  std::vector<stuck_queue> shutdown(base::duration patience);

private:
  struct call {
    std::function<void()> work;
    std::function<void()> done;
    lane_env* home = nullptr;
  };
  struct line; // one queue; shared with its thread

  struct server {
    std::shared_ptr<line> state;
    std::thread thread;
  };

  static void serve(const std::shared_ptr<line>& self);
  static void bury(std::shared_ptr<line> what);
  std::shared_ptr<line> find_or_make(std::uint32_t queue);

  const std::size_t congested_at_;
  mutable std::mutex mutex_; // guards what follows; a line's own mutex may be taken inside
  std::map<std::uint32_t, server> servers_;
  std::shared_ptr<line> late_; // calls that came after shutdown
  bool closed_ = false;
};

} // namespace actor_rdma::actors
