// SPDX-License-Identifier: Apache-2.0
// A thread that wants to run every millisecond and remembers how late it was. When it was late, the machine
// kept threads from running, and a time that was measured then is the machine's and not the transport's.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace actor_rdma::bench {

class sentinel {
public:
  static constexpr base::duration period = std::chrono::milliseconds{1};
  /// Later than this it voids what was measured meanwhile.
  static constexpr base::duration tolerance = std::chrono::milliseconds{5};

  sentinel();
  ~sentinel();
  sentinel(const sentinel&) = delete;
  sentinel& operator=(const sentinel&) = delete;

  /// Forgets what was.
  void begin();
  /// The worst delay that touches the time from `from` to `until`.
  base::duration worst(base::time_point from, base::time_point until) const;

private:
  struct delay {
    base::time_point due;
    base::time_point came;
  };
  void loop();

  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<delay> delays_; ///< those above the tolerance
  std::thread thread_;
};

} // namespace actor_rdma::bench
