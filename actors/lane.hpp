// SPDX-License-Identifier: Apache-2.0
//
// A lane: one thread that runs the CAF actors bound to it, polls their completion queues, reads their
// descriptors and fires their deadlines. Any thread may hand it work; only its own thread takes any. One turn
// of it:
//
//   read the clock, once    now() for everything that happens in the turn; time that was lost is noted here
//   completion queues       one batch of each
//   inbox, jobs             actors and posted jobs as they came, a few before the queues are polled again
//   descriptors             at most every millisecond while busy; a sleeping lane hears of them at once
//   deadlines               last, and only while no completion older than the turn is left in a queue
//
// Without work it spins for a bounded time and then sleeps: publish that, arm the queues, look at everything
// once more, epoll until the next deadline. Senders pay one eventfd write per sleep at most. What a sink or a
// job throws is counted and told to the observer, and the lane goes on.
#pragma once

#include "actors/deadline_wheel.hpp"
#include "actors/lane_env.hpp"
#include "actors/lane_options.hpp"
#include "actors/lane_watch.hpp"
#include "base/log.hpp"
#include "base/mpsc_inbox.hpp"
#include "base/random.hpp"
#include "base/wake_gate.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>

namespace actor_rdma::actors {

class lane final : public caf::execution_unit, public lane_env, private fault_guard {
public:
  /// Throws std::runtime_error when there are no descriptors left.
  lane(caf::actor_system& sys, lane_options options);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane() override;

  // -- work ---------------------------------------------------------------------------------------

  /// Any thread, so that there is no wrong one. Takes over one reference of `job`.
  void exec_later(caf::resumable* job) override;
  void post(std::function<void()> job) override;

  base::time_point now() const noexcept override { return now_; }
  base::duration lost_time() const noexcept override { return lost_time_; }
  deadline_id arm(base::time_point when, deadline_sink& sink, std::uint64_t token) override;
  bool cancel(deadline_id id) override;
  void cancel_all(const deadline_sink& sink) override;
  /// A queue whose channel cannot be watched fails at once: on_cq_failed in a later turn.
  void watch_cq(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink) override;
  void unwatch_cq(ibv_cq* cq) override;
  void watch_fd(int fd, fd_sink& sink) override;
  void unwatch_fd(int fd) override;
  void run_slow(std::uint32_t queue, std::function<void()> work, std::function<void()> done) override;
  std::uint64_t random() override { return random_.next(); }
  caf::actor_system& system() override { return *system_; }
  caf::execution_unit* unit() noexcept override { return this; }

  // -- life ---------------------------------------------------------------------------------------

  void start();
  /// The lane will end when it has nothing to do and no slow call is out; but it runs actors for `drain` and
  /// waits for slow calls for `patience` at most. Any thread, once.
  void request_stop(base::duration drain, base::duration patience);
  void join();
  /// After join(): runs what was posted and lets go of the actors that still wanted to run; true if there was
  /// any. Those actors end without on_exit, as in CAF's own schedulers. They may leave more behind on any
  /// lane.
  bool release_leftovers();

  // -- figures, any thread ------------------------------------------------------------------------

  /// The lane whose thread this is, or nullptr.
  static const lane* current() noexcept;
  bool is_current() const noexcept { return current() == this; }
  std::size_t index() const noexcept { return options_.index; }
  const std::string& name() const noexcept { return options_.name; }
  bool pinned() const noexcept { return pinned_.load(std::memory_order_relaxed); }
  lane_counters counters() const noexcept;

private:
  struct inbox_entry {
    caf::resumable* job;
    inbox_entry* inbox_next;
  };
  class as_current;
  class posted_job;

  void live();
  void enter_thread();
  bool turn();
  void begin_turn();
  bool take_inbox();
  bool run_jobs();
  void run(caf::resumable* job);
  bool expire_deadlines();
  void rest();
  void sleep();
  bool finished(bool worked) const noexcept;
  bool has_jobs() const noexcept { return next_job_ < running_.size() || !waiting_.empty(); }
  caf::resumable* take_job() noexcept;
  void check_caller() const;
  void on_fault(const char* where, const char* what) noexcept override;

  const lane_options options_;
  const std::unique_ptr<base::wake_gate> gate_;
  std::thread thread_;

  // The lane's own.
  base::time_point now_;
  base::time_point due_;       // when the next turn should begin at the latest
  base::time_point worked_at_; // the last turn that found something to do
  base::duration lost_time_{};
  std::vector<caf::resumable*> running_; // jobs from next_job_ on, then waiting_
  std::vector<caf::resumable*> waiting_;
  std::size_t next_job_ = 0;
  std::size_t slow_calls_ = 0; // whose done() has not run
  lane_watch watch_;
  deadline_wheel deadlines_;
  base::rng random_;
  base::rate_limiter fault_limit_{5, std::chrono::seconds{10}};

  // Written by the lane, or before it starts, or under stopping_.
  struct figures {
    std::atomic<std::uint64_t> turns{0}, sleeps{0}, faults{0}, gaps{0};
    std::atomic<std::int64_t> last_gap{0}, lost_time{0};
  } figures_;
  std::atomic<bool> pinned_{false};
  std::atomic<bool> alive_{false};
  base::time_point run_until_ = base::time_never;
  base::time_point wait_until_ = base::time_never;
  std::atomic<bool> stopping_{false};

  alignas(64) base::mpsc_inbox<inbox_entry> inbox_;
};

} // namespace actor_rdma::actors
