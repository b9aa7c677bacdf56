// SPDX-License-Identifier: Apache-2.0
// Where actors report what happened: one place that hands events to the host's sink and writes the few that a
// person should see to the log, rate-limited. Shared by all lanes.
#pragma once

#include "base/log.hpp"
#include "observe/events.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class observer {
public:
  explicit observer(std::shared_ptr<observe::event_sink> sink) : sink_(std::move(sink)) {}

  /// Any thread. Logs at `at`; level::off: only the sink hears of it.
  void emit(observe::event what, base::level at);

private:
  std::shared_ptr<observe::event_sink> sink_;
  std::mutex mutex_; // the limiter; taken for events that are logged, never on the clean data path
  base::rate_limiter limiter_{40, std::chrono::seconds{1}};
};

} // namespace actor_rdma::actors
