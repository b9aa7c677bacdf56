// SPDX-License-Identifier: Apache-2.0
// The thread that runs the user's completion callbacks. Lanes hand ended batches over and never run user code
// themselves; the queue is bounded by the number of open batches.
#pragma once

#include "actors/batch.hpp"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace actor_rdma::detail {

class completion_thread {
public:
  completion_thread();
  /// Runs what is queued, then ends. A callback that does not return keeps it from ending: see stop_within.
  ~completion_thread();

  /// Any thread.
  void push(std::shared_ptr<actors::batch_state> ended);
  /// False when a callback is still running after `patience`; the thread is then left behind, state and all.
  bool stop_within(base::duration patience);

private:
  struct shared {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable over;
    std::deque<std::shared_ptr<actors::batch_state>> queue;
    bool stop = false;
    bool ended = false;
  };
  static void run(const std::shared_ptr<shared>& state);

  std::shared_ptr<shared> state_;
  std::thread thread_;
};

} // namespace actor_rdma::detail
