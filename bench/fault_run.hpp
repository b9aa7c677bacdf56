// SPDX-License-Identifier: Apache-2.0
// Executes a fault plan beside a run, once or in repeated trials, and finds out how the transport recovered.
// It has one thread, which wakes every millisecond: the NIC's log is a ring that fills up while posts are
// logged.
#pragma once

#include "base/error.hpp"
#include "base/sentinel.hpp"
#include "bench/event_collector.hpp"
#include "bench/fault_plan.hpp"
#include "bench/recovery.hpp"
#include "bench/settings.hpp"
#include "verbs/soft/fabric.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace actor_rdma::bench {

/// Figures of one trial in milliseconds; below zero: it did not happen.
struct trial {
  double detected_ms = -1;
  double first_reissue_ms = -1;
  double full_rate_ms = -1;
  std::uint64_t rebuilds = 0;
};

struct fault_outcome {
  std::optional<recovery> once; ///< without trials; with them, that of the slowest re-issue
  std::vector<trial> trials;    ///< the valid ones
  std::uint32_t void_trials = 0;
  bool no_result = false;    ///< too many void ones
  std::string failure;       ///< why it was given up
  base::duration lateness{}; ///< without trials: the sentinel's worst between zero and the re-issue
};

class fault_run {
public:
  struct surroundings {
    std::shared_ptr<verbs::soft::fabric> net;
    std::shared_ptr<event_collector> events;
    std::function<std::uint64_t()> bytes_done; ///< by all threads
    std::function<bool()> is_settled;          ///< every rail of the initiator is usable
    std::function<void()> on_trials_done;
  };

  static base::expected<std::unique_ptr<fault_run>> create(const settings& what, surroundings in);
  ~fault_run();
  fault_run(const fault_run&) = delete;
  fault_run& operator=(const fault_run&) = delete;

  /// The measured time begins.
  void start();
  /// The run is over: ends what is going on.
  fault_outcome finish();

private:
  enum class trial_end : std::uint8_t { valid, is_void, stopped };

  fault_run(const settings& what, surroundings in);
  void loop();
  void run_trials();
  bool wait_settled();
  trial_end run_trial();
  void run_plan(recovery_tracker& into, base::time_point zero,
                const std::function<bool(base::time_point)>& is_over);
  base::expected<void> apply(const fault_step& step);
  void watch_posts(bool on);
  void collect(recovery_tracker& into);
  void heal();
  bool sleep_tick();

  const settings& what_;
  surroundings in_;
  fault_plan plan_;
  std::unique_ptr<verbs::soft::host>
      watcher_; ///< a device of ours on which a harmless fault turns the log of posts on
  std::string watcher_device_;
  std::uint64_t log_position_ = 0;
  base::time_point next_sample_{};
  base::sentinel sentinel_;
  fault_outcome outcome_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace actor_rdma::bench
