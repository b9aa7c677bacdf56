// SPDX-License-Identifier: Apache-2.0
// One round of poll(2) and timers.
#include "drill/real/event_loop.hpp"

#include <algorithm>
#include <vector>

#include <poll.h>

namespace actor_rdma::drill {

void event_loop::turn(base::duration at_most) {
  std::vector<pollfd> fds;
  for (const auto& [fd, w] : watched_)
    fds.push_back({fd, w.wanted(), 0});
  auto wait = at_most;
  if (!timers_.empty())
    wait = std::clamp(timers_.begin()->first - now(), base::duration::zero(), at_most);
  const timespec limit{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
  if (::ppoll(fds.data(), fds.size(), &limit, nullptr) > 0)
    for (const auto& p : fds)
      if (const auto found = watched_.find(p.fd); p.revents != 0 && found != watched_.end()) {
        const auto ready = found->second.ready; // it may unwatch itself
        ready(p.revents);
      }
  const auto until = now(); // what becomes due meanwhile waits for the next turn
  while (!timers_.empty() && timers_.begin()->first <= until)
    timers_.extract(timers_.begin()).mapped()();
}

} // namespace actor_rdma::drill
