// SPDX-License-Identifier: Apache-2.0
// The fault thread.
#include "bench/fault_run.hpp"

#include "bench/text.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace actor_rdma::bench {

namespace {

using namespace std::chrono_literals;

constexpr base::duration tick = 1ms;
constexpr base::duration sample_period = 10ms;
/// Posts are logged from so long before the first fault on, so that what is out then is known.
constexpr base::duration watch_before = 30ms;
constexpr base::duration settle_timeout = 10s;
/// A trial goes on for so long after its last fault, or until full rate is back.
constexpr base::duration tail = 3s;
constexpr base::duration between_trials = 100ms;
constexpr base::duration rate_settles = 300ms;
constexpr double most_void = 0.2;

double ms_or_never(const std::optional<base::duration>& d) {
  return d ? to_ms(*d) : -1;
}

} // namespace

base::expected<std::unique_ptr<fault_run>> fault_run::create(const settings& what, surroundings in) {
  const auto devices = in.net->devices();
  std::unique_ptr<fault_run> made(new fault_run(what, std::move(in)));
  for (const auto& step : made->plan_)
    if (std::none_of(devices.begin(), devices.end(), [&](const auto& d) { return d.name == step.device; })) {
      std::string names;
      for (const auto& d : devices)
        names += (names.empty() ? "" : ", ") + d.name;
      return base::fail(base::reason::not_found, "",
                        fmt::format("--fault: there is no device {}, there are: {}", step.device, names));
    }
  const auto host = fmt::format("watcher-{}", ::getpid());
  verbs::soft::device_options device;
  device.name = "log0";
  auto attached = made->in_.net->attach(host, {device});
  if (!attached)
    return base::fail(attached.error());
  made->watcher_ = std::move(*attached);
  made->watcher_device_ = host + "/log0";
  return made;
}

fault_run::fault_run(const settings& what, surroundings in)
    : what_(what), in_(std::move(in)), plan_(with_host(what.faults, what.soft_host)) {}

fault_run::~fault_run() {
  finish();
}

void fault_run::start() {
  thread_ = std::thread([this] { loop(); });
}

fault_outcome fault_run::finish() {
  stopping_.store(true);
  if (thread_.joinable())
    thread_.join();
  return std::move(outcome_);
}

void fault_run::loop() {
  if (what_.trials > 0) {
    run_trials();
    in_.on_trials_done();
  } else {
    recovery_tracker tracker(what_.soft_host, what_.nics);
    run_plan(tracker, base::mono_clock::now(), [&](base::time_point) { return false; });
    outcome_.once = tracker.result();
    if (const auto& r = outcome_.once)
      outcome_.lateness = sentinel_.worst(r->zero, r->zero + r->first_reissue.value_or(1s));
  }
  heal();
}

/// Executes the steps and collects until `is_over(begin of the last step's aftermath)` or the end of the run.
void fault_run::run_plan(recovery_tracker& into, base::time_point zero,
                         const std::function<bool(base::time_point)>& is_over) {
  (void)in_.events->take();
  (void)in_.net->read_log(log_position_, log_position_);
  next_sample_ = {};
  bool watching = false;
  auto next = plan_.begin();
  auto last_step = zero;
  while (sleep_tick()) {
    const auto now = base::mono_clock::now();
    if (!watching && next != plan_.end() && now >= zero + next->at - watch_before) {
      watch_posts(true);
      watching = true;
    }
    for (; next != plan_.end() && now >= zero + next->at; ++next) {
      const auto at = base::mono_clock::now();
      const auto done = apply(*next);
      into.on_step(at, next->to_string() + (done ? "" : ": " + done.error().to_string()));
      if (!done)
        fmt::print(stderr, "{}: {}\n", next->to_string(), done.error().to_string());
      else if (what_.trials == 0)
        fmt::print(stderr, "fault: {}\n", next->to_string());
      last_step = at;
    }
    collect(into);
    if (watching && into.has_reissue()) {
      watch_posts(false);
      watching = false;
    }
    if (next == plan_.end() && is_over(last_step))
      break;
  }
  if (watching)
    watch_posts(false);
  collect(into);
}

void fault_run::run_trials() {
  const auto too_many = static_cast<std::uint32_t>(most_void * what_.trials / (1 - most_void)) + 1;
  while (outcome_.trials.size() < what_.trials && !stopping_.load()) {
    if (!wait_settled()) {
      if (!stopping_.load())
        outcome_.failure =
            fmt::format("after {} trials not every rail was usable again within {}",
                        outcome_.trials.size() + outcome_.void_trials, time_text(settle_timeout));
      return;
    }
    if (run_trial() == trial_end::is_void && ++outcome_.void_trials >= too_many) {
      outcome_.no_result = true;
      return;
    }
  }
}

bool fault_run::wait_settled() {
  const auto until = base::mono_clock::now() + settle_timeout;
  while (!in_.is_settled()) {
    if (base::mono_clock::now() > until || stopping_.load())
      return false;
    std::this_thread::sleep_for(50ms);
  }
  std::this_thread::sleep_for(between_trials);
  return true;
}

fault_run::trial_end fault_run::run_trial() {
  recovery_tracker tracker(what_.soft_host, what_.nics);
  sentinel_.begin();
  const auto begin = base::mono_clock::now();
  auto next_look = begin;
  run_plan(tracker, begin, [&](base::time_point last_step) {
    const auto now = base::mono_clock::now();
    if (now < next_look)
      return false;
    next_look = now + 50ms;
    const auto r = tracker.result();
    return now > last_step + tail ||
           (now > last_step + rate_settles && r && r->full_rate && r->first_reissue);
  });
  heal();
  auto r = tracker.result();
  if (stopping_.load())
    return trial_end::stopped;
  const auto from = r ? r->zero : begin;
  const auto until = r && r->first_reissue ? r->zero + *r->first_reissue : base::mono_clock::now();
  if (sentinel_.worst(from - base::sentinel::period, until) > base::sentinel::tolerance)
    return trial_end::is_void;
  trial t;
  if (r) {
    t.detected_ms = ms_or_never(r->detected);
    t.first_reissue_ms = ms_or_never(r->first_reissue);
    t.full_rate_ms = ms_or_never(r->full_rate);
    t.rebuilds = r->rebuilds;
  }
  const auto reissue = [](const std::optional<recovery>& of) {
    return of ? of->first_reissue.value_or(base::duration::max()) : base::duration::zero();
  };
  if (outcome_.trials.empty() || reissue(r) > reissue(outcome_.once))
    outcome_.once = std::move(r);
  outcome_.trials.push_back(t);
  return trial_end::valid;
}

base::expected<void> fault_run::apply(const fault_step& step) {
  switch (step.verb) {
  case fault_verb::down: return in_.net->set_link(step.device, false);
  case fault_verb::up: return in_.net->set_link(step.device, true);
  case fault_verb::hang: return in_.net->set_hang(step.device, true);
  case fault_verb::heal: return in_.net->set_hang(step.device, false);
  case fault_verb::delay: return in_.net->set_delay(step.device, step.amount);
  }
  return {};
}

/// Whatever the plan left broken; the fabric may outlive this run.
void fault_run::heal() {
  for (const auto& step : plan_) {
    (void)in_.net->set_link(step.device, true);
    (void)in_.net->set_hang(step.device, false);
    (void)in_.net->set_delay(step.device, base::duration::zero());
  }
}

void fault_run::watch_posts(bool on) {
  (void)in_.net->set_delay(watcher_device_, on ? 1ms : 0ms);
}

void fault_run::collect(recovery_tracker& into) {
  for (const auto& e : in_.net->read_log(log_position_, log_position_))
    into.on_log(e);
  for (const auto& e : in_.events->take())
    into.on_event(e);
  const auto now = base::mono_clock::now();
  if (now >= next_sample_) {
    into.on_progress(now, in_.bytes_done());
    next_sample_ = now + sample_period;
  }
}

bool fault_run::sleep_tick() {
  std::this_thread::sleep_for(tick);
  return !stopping_.load(std::memory_order_relaxed);
}

} // namespace actor_rdma::bench
