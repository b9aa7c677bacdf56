// SPDX-License-Identifier: Apache-2.0
#include "actors/lane.hpp"

#include "actors/named_thread.hpp"
#include "actors/verbs_executor.hpp"
#include "base/checks.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/ref_counted.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <pthread.h>
#include <sched.h>

namespace actor_rdma::actors {

namespace {

thread_local const lane* current_lane = nullptr;

std::unique_ptr<base::wake_gate> make_gate() {
  auto gate = base::wake_gate::make();
  if (!gate)
    throw std::runtime_error(gate.error().to_string());
  return std::move(*gate);
}

/// For figures that only one thread writes.
template <class T>
void add(std::atomic<T>& figure, T what) noexcept {
  figure.store(figure.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

/// What post() queues, so that the lane has one kind of job.
class lane::posted_job final : public caf::ref_counted, public caf::resumable {
public:
  explicit posted_job(std::function<void()> body) : body_(std::move(body)) {}
  subtype_t subtype() const override { return function_object; }
  resume_result resume(caf::execution_unit*, std::size_t) override {
    body_();
    return done;
  }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

private:
  std::function<void()> body_;
};

/// Makes the calling thread the lane's: the lane's own for life, another one for what is left after that.
class lane::as_current {
public:
  explicit as_current(const lane& which) noexcept : before_(std::exchange(current_lane, &which)) {}
  ~as_current() { current_lane = before_; }
  as_current(const as_current&) = delete;
  as_current& operator=(const as_current&) = delete;

private:
  const lane* before_;
};

lane::lane(caf::actor_system& sys, lane_options options)
    : execution_unit(&sys), options_(std::move(options)), gate_(make_gate()), now_(base::mono_clock::now()),
      due_(now_), worked_at_(now_), watch_(*gate_, *this), deadlines_(now_), random_(base::entropy_seed()) {
  ACTOR_RDMA_ASSERT(options_.executor != nullptr, "a lane needs a verbs executor");
}

lane::~lane() {
  if (alive_.load(std::memory_order_relaxed)) {
    request_stop(base::duration::zero(), base::duration::zero());
    join();
  }
}

const lane* lane::current() noexcept {
  return current_lane;
}

// -- work -----------------------------------------------------------------------------------------

void lane::exec_later(caf::resumable* job) {
  if (is_current()) {
    waiting_.push_back(job);
    return;
  }
  inbox_.push(new inbox_entry{job, nullptr});
  gate_->wake();
}

void lane::post(std::function<void()> job) {
  exec_later(new posted_job(std::move(job)));
}

void lane::check_caller() const {
  ACTOR_RDMA_ASSERT(is_current() || !alive_.load(std::memory_order_relaxed),
                    "a lane was called from another thread");
}

deadline_id lane::arm(base::time_point when, deadline_sink& sink, std::uint64_t token) {
  check_caller();
  return deadlines_.arm(when, sink, token);
}

bool lane::cancel(deadline_id id) {
  check_caller();
  return deadlines_.cancel(id);
}

void lane::cancel_all(const deadline_sink& sink) {
  check_caller();
  deadlines_.cancel_all(sink);
}

void lane::watch_cq(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink) {
  check_caller();
  watch_.add(cq, channel, sink);
}

void lane::unwatch_cq(ibv_cq* cq) {
  check_caller();
  watch_.remove(cq);
}

void lane::watch_fd(int fd, fd_sink& sink) {
  check_caller();
  watch_.add(fd, sink);
}

void lane::unwatch_fd(int fd) {
  check_caller();
  watch_.remove(fd);
}

void lane::run_slow(std::uint32_t queue, std::function<void()> work, std::function<void()> done) {
  check_caller();
  auto on_lane = [this, done = std::move(done)] {
    --slow_calls_;
    done();
  };
  options_.executor->run(queue, std::move(work), std::move(on_lane), *this);
  ++slow_calls_;
}

// -- life -----------------------------------------------------------------------------------------

void lane::start() {
  alive_.store(true);
  try {
    thread_ = named_thread(options_.name, [this] { live(); });
  } catch (...) {
    alive_.store(false);
    throw;
  }
}

void lane::request_stop(base::duration drain, base::duration patience) {
  const auto now = base::mono_clock::now();
  run_until_ = now + drain;
  wait_until_ = now + std::max(drain, patience);
  stopping_.store(true);
  gate_->wake();
}

void lane::join() {
  if (thread_.joinable())
    thread_.join();
  alive_.store(false);
}

bool lane::release_leftovers() {
  const as_current guard{*this};
  now_ = base::mono_clock::now();
  take_inbox();
  const auto count = running_.size() - next_job_ + waiting_.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto* const job = take_job();
    if (dynamic_cast<posted_job*>(job) != nullptr)
      run(job);
    else
      caf::scheduler::abstract_coordinator::cleanup_and_release(job);
  }
  return count > 0;
}

void lane::enter_thread() {
  if (options_.core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(options_.core), &set);
    const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    pinned_.store(error == 0, std::memory_order_relaxed);
    if (error != 0)
      base::log(base::level::warn, options_.name, "cannot be pinned to core {}: errno {}", options_.core,
                error);
  }
  now_ = due_ = worked_at_ = base::mono_clock::now();
}

void lane::live() {
  const as_current guard{*this};
  enter_thread();
  system_->thread_started();
  for (;;) {
    const bool worked = turn();
    if (finished(worked))
      break;
    if (worked)
      worked_at_ = now_;
    else
      rest();
  }
  system_->thread_terminates();
}

bool lane::finished(bool worked) const noexcept {
  if (!stopping_.load(std::memory_order_acquire))
    return false;
  if (slow_calls_ == 0 && (!worked || now_ >= run_until_))
    return true;
  return now_ >= wait_until_;
}

// -- a turn ---------------------------------------------------------------------------------------

bool lane::turn() {
  begin_turn();
  bool worked = watch_.poll();
  worked = take_inbox() || worked;
  worked = run_jobs() || worked;
  worked = watch_.read(now_) || worked;
  if (watch_.drained())
    worked = expire_deadlines() || worked;
  return worked;
}

void lane::begin_turn() {
  now_ = base::mono_clock::now();
  add<std::uint64_t>(figures_.turns, 1);
  if (const auto gap = now_ - due_; gap > options_.gap_threshold) {
    lost_time_ += gap;
    add<std::uint64_t>(figures_.gaps, 1);
    figures_.last_gap.store(gap.count(), std::memory_order_relaxed);
    figures_.lost_time.store(lost_time_.count(), std::memory_order_relaxed);
    if (options_.observer != nullptr)
      options_.observer->on_gap(*this, gap);
  }
  due_ = now_;
}

bool lane::take_inbox() {
  auto list = inbox_.take_all();
  if (list.empty())
    return false;
  while (auto* const entry = list.pop()) {
    waiting_.push_back(entry->job);
    delete entry;
  }
  return true;
}

caf::resumable* lane::take_job() noexcept {
  if (next_job_ == running_.size()) {
    running_.clear(); // keeps its memory for the next swap
    running_.swap(waiting_);
    next_job_ = 0;
  }
  return running_[next_job_++];
}

bool lane::run_jobs() {
  std::size_t ran = 0;
  for (; ran < options_.jobs_per_turn && has_jobs(); ++ran)
    run(take_job());
  return ran > 0;
}

void lane::run(caf::resumable* job) {
  auto result = caf::resumable::done;
  guarded("a job", [&] { result = job->resume(this, options_.max_throughput); });
  if (result == caf::resumable::resume_later)
    waiting_.push_back(job);
  else
    intrusive_ptr_release(job);
}

bool lane::expire_deadlines() {
  return deadlines_.expire(now_, [this](deadline_sink& sink, std::uint64_t token) {
    guarded("a deadline", [&] { sink.on_deadline(token); });
  }) > 0;
}

void lane::rest() {
  if (now_ - worked_at_ >= options_.spin)
    sleep();
  else
    relax(); // no sched_yield: where others want the core, it costs a time slice, and a sleep does not
}

void lane::sleep() {
  gate_->prepare_sleep();
  watch_.arm();
  const bool found = watch_.poll() || has_jobs() || !inbox_.empty();
  if (found)
    worked_at_ = now_;
  const bool stopping = stopping_.load(std::memory_order_acquire);
  auto wake_at = deadlines_.next().value_or(base::time_never);
  if (stopping)
    wake_at = std::min(wake_at, slow_calls_ > 0 ? wait_until_ : now_);
  if (found || wake_at <= now_) {
    gate_->cancel_sleep();
    return;
  }
  add<std::uint64_t>(figures_.sleeps, 1);
  due_ = wake_at;
  watch_.sleep(wake_at == base::time_never ? base::wake_gate::forever : wake_at - now_);
}

// -- figures --------------------------------------------------------------------------------------

void lane::on_fault(const char* where, const char* what) noexcept {
  add<std::uint64_t>(figures_.faults, 1);
  const bool say = fault_limit_.allow(now_);
  try {
    const auto text = fmt::format("{}: {}", where, what);
    if (say)
      base::log(base::level::error, options_.name, "internal fault in {} ({} more since the last line)", text,
                fault_limit_.take_suppressed());
    if (options_.observer != nullptr)
      options_.observer->on_internal_fault(*this, text);
  } catch (...) {
    base::log(base::level::error, options_.name, "internal fault, and no memory to tell it");
  }
}

lane_counters lane::counters() const noexcept {
  const auto get = [](const auto& figure) { return figure.load(std::memory_order_relaxed); };
  lane_counters result;
  result.turns = get(figures_.turns);
  result.sleeps = get(figures_.sleeps);
  result.foreign_wakes = gate_->wakes_written();
  result.faults = get(figures_.faults);
  result.gaps = get(figures_.gaps);
  result.last_gap = base::duration{get(figures_.last_gap)};
  result.lost_time = base::duration{get(figures_.lost_time)};
  return result;
}

} // namespace actor_rdma::actors
