// SPDX-License-Identifier: Apache-2.0
//
// The CAF scheduler made of lanes. Actors derived from lane_actor run on the lane they were made for;
// whatever else CAF schedules (its own helpers, control actors) runs on one more lane, the control lane,
// which does not spin. Timers of CAF have a thread of their own; nothing on the data path uses them.
#pragma once

#include "actors/lane.hpp"
#include "actors/verbs_executor.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/thread_safe_actor_clock.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace actor_rdma::actors {

/// max(1, min(4, cores / 2 - 1)): lanes spin, and the threads that wait for them need cores too.
std::size_t default_lane_count();

struct lane_scheduler_options {
  std::size_t lanes = 0; ///< 0: default_lane_count()
  bool pin = false;      ///< each lane to a core of its own, from the last one downwards
  lane_options lane{};   ///< of every lane; index, name and core are set here, a missing executor is made
  base::duration drain = std::chrono::milliseconds{100}; ///< at the end, for actors that still run
  base::duration patience = std::chrono::seconds{2};     ///< at the end, for slow calls that are still out
};

/// CAF's clock. On a data lane it answers with the time of the turn, since CAF reads it after every few
/// messages, and it is not asked to forget the timers of an actor that ends there: such an actor has none,
/// and asking may block.
class lane_clock final : public caf::detail::thread_safe_actor_clock {
public:
  explicit lane_clock(const std::unique_ptr<lane>& control) : control_(control) {}
  ~lane_clock() override;
  time_point now() const noexcept override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void start();
  void stop();

private:
  const lane* data_lane() const noexcept;

  const std::unique_ptr<lane>& control_;
  std::thread thread_;
  std::atomic<bool> running_{false};
};

class lane_scheduler final : public caf::scheduler::abstract_coordinator {
public:
  lane_scheduler(caf::actor_system& sys, lane_scheduler_options options);

  std::size_t lane_count() const noexcept { return lanes_.size(); }
  lane& at(std::size_t index) { return *lanes_.at(index); }
  lane& control() noexcept { return *control_; }
  verbs_executor& executor() noexcept { return *executor_; }

  void enqueue(caf::resumable* job) override { control_->exec_later(job); }
  caf::actor_clock& clock() noexcept override { return clock_; }

protected:
  void start() override;
  void stop() override;

private:
  bool release_leftovers();

  const lane_scheduler_options options_;
  std::shared_ptr<verbs_executor> executor_;
  std::vector<std::unique_ptr<lane>> lanes_;
  std::unique_ptr<lane> control_;
  lane_clock clock_;
};

/// Makes the systems of `cfg` use lanes.
void use_lanes(caf::actor_system_config& cfg, const lane_scheduler_options& options);

/// The lanes of `sys`, nullptr if it has another scheduler (the simulation's).
lane_scheduler* lanes_of(caf::actor_system& sys);

} // namespace actor_rdma::actors
