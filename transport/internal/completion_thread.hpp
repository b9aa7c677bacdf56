// SPDX-License-Identifier: Apache-2.0
// The thread that runs the user's callbacks: of ended batches, and of received notices, in turn. Lanes hand
// ended batches over and never run user code themselves; the queue is bounded by the number of open batches.
#pragma once

#include "actors/batch.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace actor_rdma::detail {

class completion_thread {
public:
  /// `take_notice` takes one received notice to the user; false when there is none.
  explicit completion_thread(std::function<bool()> take_notice);
  /// Runs what is queued, then ends. A callback that does not return keeps it from ending: see stop_within.
  ~completion_thread();

  /// Any thread.
  void push(std::shared_ptr<actors::batch_state> ended);
  /// Any thread: there is something for `take_notice`.
  void notices_came();
  /// False when a callback is still running after `patience`; the thread is then left behind, state and all.
  bool stop_within(base::duration patience);

private:
  struct shared {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable over;
    std::deque<std::shared_ptr<actors::batch_state>> queue;
    std::function<bool()> take_notice;
    bool notices = false; ///< take_notice may find something
    bool stop = false;
    bool ended = false;
  };
  static void run(const std::shared_ptr<shared>& state);

  std::shared_ptr<shared> state_;
  std::thread thread_;
};

} // namespace actor_rdma::detail
