// SPDX-License-Identifier: Apache-2.0
// The seeded queue of jobs.
#include "actors/sim_world.hpp"

#include "actors/lane_actor.hpp"
#include "actors/sim_lane.hpp"
#include "base/checks.hpp"

#include <algorithm>

#include <caf/atom.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// What one job costs in virtual time.
constexpr base::duration job_time{200};

/// The lane of the actor that a job of CAF's is; CAF's own helpers have none.
const lane_env* lane_of(caf::resumable& job) {
  const auto* actor = dynamic_cast<const lane_actor*>(&job);
  return actor != nullptr ? &actor->own_lane() : nullptr;
}

} // namespace

sim_world::sim_world(std::uint64_t seed) : random_(seed) {
  clock_.set(base::time_point{std::chrono::seconds{1}});
  config_.set("scheduler.policy", caf::atom("testing"));
  system_ = std::make_unique<caf::actor_system>(config_);
  jobs_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
}

sim_world::~sim_world() {
  end();
  system_.reset();
}

void sim_world::end() {
  plan_.clear();
  // Twice: a message that comes before an actor's end may still ask for a slow call, which holds a device.
  for (int pass = 0; pass < 2; ++pass) {
    for (auto& l : lanes_)
      l->end_actors();
    while (!jobs_->jobs.empty())
      jobs_->run_once();
  }
}

lane_env& sim_world::make_lane(const std::string& name) {
  lanes_.push_back(std::make_unique<sim_lane>(*this, name, random_.next()));
  return *lanes_.back();
}

sim_lane& sim_world::known(const lane_env& lane) const {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& l) { return l.get() == &lane; });
  ACTOR_RDMA_ASSERT(found != lanes_.end(), "the lane is one of this world's");
  return **found;
}

void sim_world::look_when(const lane_env& lane, std::function<std::uint64_t()> arrivals) {
  known(lane).look_when(std::move(arrivals));
}

void sim_world::freeze(const lane_env& lane, bool on) {
  auto& it = known(lane);
  if (it.is_frozen() == on)
    return;
  it.set_frozen(on);
  frozen_ += on ? 1 : std::size_t{0} - 1;
}

void sim_world::kill(const lane_env& lane) {
  freeze(lane, false);
  auto& it = known(lane);
  // What its actors do while they end may launch others, arm deadlines and ask for slow calls: all that goes
  // as well, since what it refers to goes with the process.
  for (bool some = true; some;) {
    it.end_actors();
    some = false;
    for (std::size_t i = 0; i < jobs_->jobs.size() && !some; ++i)
      if (lane_of(*jobs_->jobs[i]) == &lane) {
        some = true;
        run_actor(i);
      }
  }
  it.forget();
}

bool sim_world::may_run(std::size_t actor_job) const {
  const auto* lane = frozen_ == 0 ? nullptr : lane_of(*jobs_->jobs[actor_job]);
  return lane == nullptr || !known(*lane).is_frozen();
}

const std::string& sim_world::running_on() const noexcept {
  static const std::string nobody;
  return running_on_ != nullptr ? running_on_->name() : nobody;
}

void sim_world::at(base::time_point when, std::function<void()> action) {
  const auto later = std::upper_bound(plan_.begin(), plan_.end(), when,
                                      [](base::time_point t, const planned& p) { return t < p.at; });
  plan_.insert(later, {when, next_order_++, std::move(action)});
}

void sim_world::mix(std::uint64_t value) noexcept {
  fingerprint_ = (fingerprint_ ^ value) * 1099511628211ull;
}

void sim_world::trace(const std::string& line) {
  trace_.push_back(fmt::format(
      "{:12.3f} us  {}", std::chrono::duration<double, std::micro>(now().time_since_epoch()).count(), line));
  for (const char c : trace_.back())
    mix(static_cast<unsigned char>(c));
  if (keep_lines_ != 0 && trace_.size() >= 2 * keep_lines_)
    trace_.erase(trace_.begin(), trace_.begin() + static_cast<std::ptrdiff_t>(keep_lines_));
}

void sim_world::everything_may_have_changed() noexcept {
  for (auto& l : lanes_)
    l->may_have_changed();
}

bool sim_world::run_planned() {
  if (plan_.empty() || plan_.front().at > now())
    return false;
  auto action = std::move(plan_.front().action);
  plan_.erase(plan_.begin());
  action();
  everything_may_have_changed();
  return true;
}

void sim_world::run_actor(std::size_t index) {
  // run_once() takes the front job and puts an unfinished actor back there, so the order is ours to make.
  std::swap(jobs_->jobs.front(), jobs_->jobs[index]);
  jobs_->run_once();
  everything_may_have_changed();
}

std::optional<base::time_point> sim_world::next_time() const {
  std::optional<base::time_point> next;
  const auto consider = [&](std::optional<base::time_point> t) {
    if (t)
      next = next ? std::min(*next, *t) : *t;
  };
  for (const auto& l : lanes_)
    consider(l->next_time());
  for (const auto& s : sources_)
    consider(s->next_event());
  if (!plan_.empty())
    consider(plan_.front().at);
  return next;
}

bool sim_world::step() {
  ++steps_;
  if (run_planned())
    return true;
  std::vector<choice> choices;
  for (std::size_t i = 0; i < jobs_->jobs.size(); ++i)
    if (may_run(i))
      choices.push_back({choice::kind::actor, i, 0});
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    for (std::size_t k = 0, n = lanes_[i]->jobs(); k < n; ++k)
      choices.push_back({choice::kind::lane, i, k});
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (const auto t = sources_[i]->next_event(); t && *t <= now())
      choices.push_back({choice::kind::source, i, 0});
  if (choices.empty()) {
    const auto next = next_time();
    if (!next)
      return false;
    clock_.set(std::max(*next, now()));
    return true;
  }
  const auto k = random_.below(choices.size());
  mix(k);
  mix(choices.size());
  const auto c = choices[k];
  switch (c.what) {
  case choice::kind::actor: {
    set_running(job::actor, nullptr);
    run_actor(c.index);
    break;
  }
  case choice::kind::lane: {
    set_running(job::lane, lanes_[c.index].get());
    lanes_[c.index]->run(c.detail);
    break;
  }
  case choice::kind::source: {
    set_running(job::source, nullptr);
    std::string what;
    if (sources_[c.index]->happen(now(), what) && !what.empty())
      trace(what);
    everything_may_have_changed();
    break;
  }
  }
  set_running(job::none, nullptr);
  clock_.set(now() + job_time);
  return true;
}

bool sim_world::run_until(const std::function<bool()>& done, base::time_point until) {
  while (!done())
    if (now() > until || !step())
      return false;
  return true;
}

void sim_world::run_for(base::duration span) {
  const auto until = now() + span;
  at(until, [] {});
  run_until([&] { return now() >= until; }, until + base::duration{1});
}

} // namespace actor_rdma::actors
