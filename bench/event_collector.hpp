// SPDX-License-Identifier: Apache-2.0
// Keeps the transport's events until somebody takes them.
#pragma once

#include "observe/events.hpp"

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace actor_rdma::bench {

class event_collector final : public observe::event_sink {
public:
  void on_event(const observe::event& what) override {
    constexpr std::size_t most = 1u << 20; // nobody takes them in a run without faults
    std::lock_guard lock(mutex_);
    if (events_.size() < most)
      events_.push_back(what);
  }
  std::vector<observe::event> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

private:
  std::mutex mutex_;
  std::vector<observe::event> events_;
};

} // namespace actor_rdma::bench
