// SPDX-License-Identifier: Apache-2.0
//
// The one thread of a process on a steady clock. It stands in for the hardware where nobody calls: it brings
// events of ports and peers, keeps retry timers, and does the work that is due when its owner sleeps or does
// not poll. It sleeps on the futex word of the process's entry until the next of these is due; an idle
// process costs nothing. For work whose owner is expected to poll it comes late on purpose, so that the two
// do not meet.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <pthread.h>

namespace actor_rdma::verbs::soft {

class runtime;

class engine {
public:
  /// Returns when the thread runs, and holds the entry's life if the process has others beside it.
  engine(runtime& rt, layout::process_entry& entry, bool holds_life);
  /// Stops the thread. In a forked child, where there is none, it does nothing.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  [[nodiscard]] bool is_running() const noexcept { return is_running_; }
  /// The earliest time of a line moved forward: wakes the thread if it would come too late.
  void note(const timeline& line) noexcept;

private:
  static void* start(void* self);
  void loop();
  void run_lines(nanos now);
  [[nodiscard]] nanos next_wake();
  void sleep_until(std::uint32_t seen, nanos when) noexcept;

  runtime& rt_;
  layout::process_entry& entry_;
  const bool holds_life_;
  const std::int32_t pid_;
  pthread_t thread_{};
  std::vector<std::shared_ptr<timeline>> lines_; // the thread's own copy
  std::uint64_t lines_version_ = 0;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_begun_{false};
  std::atomic<nanos> wakes_at_{0};
};

/// Wakes whoever sleeps on the entry.
void ring_entry(layout::process_entry& entry) noexcept;

} // namespace actor_rdma::verbs::soft
