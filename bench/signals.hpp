// SPDX-License-Identifier: Apache-2.0
// Signals as calls on one thread: SIGUSR1 asks what the actors are doing, SIGINT and SIGTERM end the run in
// good order, the second one at once. Must be made before any other thread: those inherit the blocked mask.
#pragma once

#include "base/time.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace actor_rdma::bench {

class signals {
public:
  signals();
  ~signals();
  signals(const signals&) = delete;
  signals& operator=(const signals&) = delete;

  /// Called by the signal thread. Returns when a call under way has ended.
  void on_usr1(std::function<void()> what);
  void on_stop(std::function<void()> what);
  bool stop_asked() const;
  /// Blocks until the run is to stop, or for so long at most.
  void wait_for_stop(base::duration limit);

private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  bool stop_asked_ = false;
  std::function<void()> usr1_;
  std::function<void()> stop_;
  std::thread thread_;
};

} // namespace actor_rdma::bench
