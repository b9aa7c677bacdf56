// SPDX-License-Identifier: Apache-2.0
// The conductor's only thread: descriptors that became ready, and things that are due. Nothing in it blocks.
#pragma once

#include "base/time.hpp"

#include <functional>
#include <map>

namespace actor_rdma::drill {

class event_loop {
public:
  struct watcher {
    std::function<short()> wanted;    ///< poll(2) events to wait for now; 0: only errors
    std::function<void(short)> ready; ///< may watch and unwatch
  };

  base::time_point now() const { return base::mono_clock::now(); }
  void at(base::time_point when, std::function<void()> what) { timers_.emplace(when, std::move(what)); }
  void watch(int fd, watcher how) { watched_[fd] = std::move(how); }
  void unwatch(int fd) { watched_.erase(fd); }
  /// Waits until something is ready or due, `at_most` so long, and does it.
  void turn(base::duration at_most);

private:
  std::multimap<base::time_point, std::function<void()>> timers_;
  std::map<int, watcher> watched_;
};

} // namespace actor_rdma::drill
