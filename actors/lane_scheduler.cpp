// SPDX-License-Identifier: Apache-2.0
#include "actors/lane_scheduler.hpp"

#include "actors/named_thread.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <sched.h>

namespace actor_rdma::actors {

namespace {

/// How often lanes may hand each other something at the end before that is taken for endless.
constexpr int release_rounds = 1000;

std::vector<int> usable_cores() {
  std::vector<int> result;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<unsigned>(core), &set))
        result.push_back(core);
    }
  }
  return result;
}

} // namespace

std::size_t default_lane_count() {
  const auto half = usable_cores().size() / 2;
  return std::clamp<std::size_t>(half, 2, 5) - 1;
}

// -- clock ----------------------------------------------------------------------------------------

const lane* lane_clock::data_lane() const noexcept {
  const auto* const here = lane::current();
  return here != control_.get() ? here : nullptr;
}

lane_clock::time_point lane_clock::now() const noexcept {
  const auto* const here = data_lane();
  return here != nullptr ? time_point{here->now().time_since_epoch()} : clock_type::now();
}

void lane_clock::cancel_timeouts(caf::abstract_actor* self) {
  if (data_lane() == nullptr && running_.load(std::memory_order_acquire))
    thread_safe_actor_clock::cancel_timeouts(self);
}

lane_clock::~lane_clock() {
  if (running_.load(std::memory_order_relaxed))
    stop();
}

void lane_clock::start() {
  thread_ = named_thread("lane-clock", [this] { run_dispatch_loop(); });
  running_.store(true);
}

void lane_clock::stop() {
  running_.store(false);
  cancel_dispatch_loop();
  thread_.join();
}

// -- scheduler ------------------------------------------------------------------------------------

lane_scheduler::lane_scheduler(caf::actor_system& sys, lane_scheduler_options options)
    : abstract_coordinator(sys), options_(std::move(options)), executor_(options_.lane.executor),
      clock_(control_) {
  if (!executor_)
    executor_ = std::make_shared<verbs_executor>();
  const auto cores = options_.pin ? usable_cores() : std::vector<int>{};
  auto each = options_.lane;
  each.executor = executor_;
  const auto count = options_.lanes > 0 ? options_.lanes : default_lane_count();
  for (std::size_t i = 0; i < count; ++i) {
    each.index = i;
    each.name = "lane" + std::to_string(i);
    each.core = cores.empty() ? -1 : cores[cores.size() - 1 - i % cores.size()];
    lanes_.push_back(std::make_unique<lane>(sys, each));
  }
  each.index = count;
  each.name = "lane-control";
  each.core = -1;
  each.spin = base::duration::zero();
  control_ = std::make_unique<lane>(sys, each);
}

void lane_scheduler::start() {
  for (auto& l : lanes_)
    l->start();
  control_->start();
  clock_.start();
  abstract_coordinator::start();
}

void lane_scheduler::stop() {
  stop_actors();
  for (auto& l : lanes_)
    l->request_stop(options_.drain, options_.patience);
  control_->request_stop(options_.drain, options_.patience);
  // Lanes before the clock: actors that still run may block on a clock that does not.
  for (auto& l : lanes_)
    l->join();
  control_->join();
  executor_->shutdown(base::duration::zero()); // the lanes have waited
  clock_.stop();                               // nothing comes from outside any more
  int rounds = 0;
  while (release_leftovers() && ++rounds < release_rounds) {
  }
  if (rounds >= release_rounds)
    base::log(base::level::error, "lanes", "jobs that go on for ever were cut off at the end");
}

bool lane_scheduler::release_leftovers() {
  bool any = control_->release_leftovers();
  for (auto& l : lanes_)
    any = l->release_leftovers() || any;
  return any;
}

void use_lanes(caf::actor_system_config& cfg, const lane_scheduler_options& options) {
  cfg.module_factories.emplace_back([options](caf::actor_system& sys) -> caf::actor_system::module* {
    return new lane_scheduler(sys, options);
  });
}

lane_scheduler* lanes_of(caf::actor_system& sys) {
  return dynamic_cast<lane_scheduler*>(&sys.scheduler());
}

} // namespace actor_rdma::actors
