// SPDX-License-Identifier: Apache-2.0
// A thread that wants to run every millisecond and remembers how late it was. When it was late, the machine
// kept threads from running, and a time that was measured then is the machine's and not the transport's.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace actor_rdma::base {

class sentinel {
public:
  static constexpr duration period = std::chrono::milliseconds{1};
  /// Later than this it voids what was measured meanwhile.
  static constexpr duration tolerance = std::chrono::milliseconds{5};

  sentinel();
  ~sentinel();
  sentinel(const sentinel&) = delete;
  sentinel& operator=(const sentinel&) = delete;

  /// Forgets what was.
  void begin();
  /// A time in which it had to run and did not, longer than the tolerance.
  struct delay {
    time_point due;
    time_point came;
  };
  std::vector<delay> delays() const;
  /// The worst delay that touches the time from `from` to `until`.
  duration worst(time_point from, time_point until) const;

private:
  void loop();

  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<delay> delays_;
  std::thread thread_;
};

} // namespace actor_rdma::base
