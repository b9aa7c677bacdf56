// SPDX-License-Identifier: Apache-2.0
#include "actors/verbs_executor.hpp"

#include "actors/named_thread.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <string>

namespace actor_rdma::actors {

namespace {

constexpr const char* component = "verbs-executor";
constexpr std::uint32_t log_lines_per_window = 5;
constexpr base::duration log_window = std::chrono::seconds{10};

double in_ms(base::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

} // namespace

// Its mutex is never held over a call, a post or a notification: a lane takes it in run().
struct verbs_executor::line {
  explicit line(std::uint32_t queue) { figures.queue = queue; }

  bool idle() const { return waiting.empty() && !running && !delivering; }
  base::duration running_for() const {
    return running ? base::mono_clock::now() - since : base::duration::zero();
  }

  /// False, and nothing is taken, if the thread is about to end.
  bool accept(call& fresh, std::size_t congested_at) {
    std::unique_lock lock{mutex};
    if (closing)
      return false;
    const auto before = waiting.size();
    waiting.push_back(std::move(fresh));
    bool say = false;
    if (before >= congested_at) {
      ++figures.congested;
      say = log_limit.allow(base::mono_clock::now());
    }
    lock.unlock();
    changed.notify_all();
    if (say)
      base::log(base::level::warn, component, "queue {} is congested: {} calls are waiting", figures.queue,
                before);
    return true;
  }

  queue_state state() const {
    std::lock_guard lock{mutex};
    auto result = figures;
    result.waiting = waiting.size();
    result.busy_for = running_for();
    return result;
  }

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<call> waiting;
  queue_state figures; // without `waiting` and `busy_for`
  base::time_point since{};
  bool running = false;    // inside a work()
  bool delivering = false; // handing over a done()
  bool closing = false;    // end when idle
  bool abandoned = false;  // nobody waits any more: bury whatever comes back
  base::rate_limiter log_limit{log_lines_per_window, log_window};
};

verbs_executor::~verbs_executor() {
  shutdown(base::duration::zero());
  if (late_)
    bury(std::move(late_));
}

void verbs_executor::run(std::uint32_t queue, std::function<void()> work, std::function<void()> done,
                         lane_env& home) {
  call fresh{std::move(work), std::move(done), &home};
  auto target = find_or_make(queue);
  if (!target->accept(fresh, congested_at_)) { // closed meanwhile, so this one never is
    target = find_or_make(queue);
    (void)target->accept(fresh, congested_at_);
  }
}

std::shared_ptr<verbs_executor::line> verbs_executor::find_or_make(std::uint32_t queue) {
  std::lock_guard lock{mutex_};
  if (closed_) {
    if (!late_)
      late_ = std::make_shared<line>(queue);
    base::log(base::level::error, component, "a call for queue {} came after the end and is not made", queue);
    return late_;
  }
  if (const auto found = servers_.find(queue); found != servers_.end())
    return found->second.state;
  auto fresh = std::make_shared<line>(queue);
  auto thread = named_thread("verbs" + std::to_string(queue), [fresh] { serve(fresh); });
  servers_.emplace(queue, server{fresh, std::move(thread)});
  return fresh;
}

void verbs_executor::serve(const std::shared_ptr<line>& self) {
  std::unique_lock lock{self->mutex};
  for (;;) {
    self->changed.wait(lock, [&] { return !self->waiting.empty() || self->closing; });
    if (self->waiting.empty() || self->abandoned)
      return;
    auto current = std::move(self->waiting.front());
    self->waiting.pop_front();
    self->running = true;
    self->since = base::mono_clock::now();
    lock.unlock();

    const char* fault = nullptr;
    std::string text;
    try {
      current.work();
    } catch (const std::exception& e) {
      text = e.what();
      fault = text.c_str();
    } catch (...) {
      fault = "an exception of unknown type";
    }
    const auto ended = base::mono_clock::now();

    lock.lock();
    if (self->abandoned) { // keep it as it is, in the place where it came from
      self->waiting.push_front(std::move(current));
      return;
    }
    const auto took = ended - self->since;
    auto& figures = self->figures;
    ++figures.calls;
    figures.faults += fault != nullptr ? 1 : 0;
    figures.last_call = took;
    figures.longest_call = std::max(figures.longest_call, took);
    self->running = false;
    self->delivering = true;
    const bool say = fault != nullptr && self->log_limit.allow(ended);
    lock.unlock();

    if (say)
      base::log(base::level::error, component, "a call of queue {} threw: {}", figures.queue, fault);
    current.work = nullptr;
    current.home->post(std::move(current.done));

    lock.lock();
    self->delivering = false;
    self->changed.notify_all();
  }
}

base::duration verbs_executor::busy_for(std::uint32_t queue) const {
  std::lock_guard lock{mutex_};
  const auto found = servers_.find(queue);
  return found == servers_.end() ? base::duration::zero() : found->second.state->state().busy_for;
}

std::vector<verbs_executor::queue_state> verbs_executor::states() const {
  std::lock_guard lock{mutex_};
  std::vector<queue_state> result;
  result.reserve(servers_.size());
  for (const auto& [queue, entry] : servers_)
    result.push_back(entry.state->state());
  return result;
}

std::vector<verbs_executor::stuck_queue> verbs_executor::shutdown(base::duration patience) {
  std::map<std::uint32_t, server> servers;
  {
    std::lock_guard lock{mutex_};
    closed_ = true;
    servers.swap(servers_);
  }
  const auto deadline = base::mono_clock::now() + patience;
  std::vector<stuck_queue> stuck;
  for (auto& [queue, entry] : servers) {
    auto& state = *entry.state;
    std::unique_lock lock{state.mutex};
    const bool done = state.changed.wait_until(lock, deadline, [&] { return state.idle(); });
    // What is being handed over is a matter of microseconds, and the lane must not hear of it later.
    state.changed.wait(lock, [&] { return !state.delivering; });
    state.closing = true;
    if (!done && !state.idle()) {
      state.abandoned = true;
      stuck.push_back({queue, state.running_for(), state.waiting.size()});
    }
    const bool abandoned = state.abandoned;
    lock.unlock();
    state.changed.notify_all();
    if (!abandoned) {
      entry.thread.join();
      continue;
    }
    base::log(base::level::error, component,
              "queue {} does not end: its call has been running for {:.1f} ms, "
              "{} more were not begun; they are left behind",
              queue, in_ms(stuck.back().busy_for), stuck.back().never_begun);
    entry.thread.detach();
    bury(std::move(entry.state));
  }
  return stuck;
}

void verbs_executor::bury(std::shared_ptr<line> what) {
  // Never destroyed, also not at exit: threads may still be inside, and closures own what a device may still
  // use.
  static auto& graveyard = *new std::vector<std::shared_ptr<line>>;
  static std::mutex mutex;
  std::lock_guard lock{mutex};
  graveyard.push_back(std::move(what));
}

} // namespace actor_rdma::actors
