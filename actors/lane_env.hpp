// SPDX-License-Identifier: Apache-2.0
// The only way in which data-path actors meet the world: time, deadlines, completion queues, file
// descriptors, slow verbs calls, the lane's ring and randomness. There are two implementations: the real lane
// (one pinned thread of our CAF scheduler) and a simulated one in virtual time, where each of these is a job
// of one seeded queue. Everything is called on the lane's own thread, except post(). Sinks are called on the
// lane, one at a time, never from inside another call; a sink must not block, must outlive its registration,
// and what it throws is the caller's internal fault.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <typeinfo>

#include <infiniband/verbs.h>

namespace caf {
class actor;
class actor_system;
class execution_unit;
} // namespace caf

namespace actor_rdma::verbs {
class completion_channel;
}

namespace actor_rdma::actors {

/// Receives expired deadlines. `token` is what arm() was given.
class deadline_sink {
public:
  virtual void on_deadline(std::uint64_t token) = 0;

protected:
  ~deadline_sink() = default;
};

/// Receives the completions of one CQ, one poll's worth at a time, oldest first.
class cq_sink {
public:
  virtual void on_completions(std::span<const ibv_wc> completions) = 0;
  /// ibv_poll_cq itself failed; the CQ is not polled any more.
  virtual void on_cq_failed(int error) = 0;

protected:
  ~cq_sink() = default;
};

/// Receives readiness of a descriptor (an async fd); must read until it is empty.
class fd_sink {
public:
  virtual void on_readable(int fd) = 0;

protected:
  ~fd_sink() = default;
};

/// Names an armed deadline; a stale one is harmless. 0 names none.
enum class deadline_id : std::uint64_t { none = 0 };

class lane_env {
public:
  virtual ~lane_env() = default;

  /// Time of the current turn: one clock read per turn.
  virtual base::time_point now() const noexcept = 0;
  /// Total time that this lane lost (stopped, throttled) and that stall clocks are credited with.
  virtual base::duration lost_time() const noexcept = 0;

  /// Never fires early. Fires at the first turn that begins after `when`, after completions and inbox of that
  /// turn.
  virtual deadline_id arm(base::time_point when, deadline_sink& sink, std::uint64_t token) = 0;
  /// False when it has fired already or never existed.
  virtual bool cancel(deadline_id id) = 0;
  /// None of its deadlines fires any more.
  virtual void cancel_all(const deadline_sink& sink) = 0;

  /// Polls `cq` every turn and wakes by `channel` when the lane sleeps. The lane reads and acks the channel's
  /// events.
  virtual void watch_cq(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink) = 0;
  virtual void unwatch_cq(ibv_cq* cq) = 0;
  virtual void watch_fd(int fd, fd_sink& sink) = 0;
  virtual void unwatch_fd(int fd) = 0;

  /// Runs `work` on a thread where it may block, one at a time and in order for each `queue` (a device); then
  /// `done` on this lane. Neither is skipped, also when the lane shuts down meanwhile (then `done` runs in
  /// the shutdown).
  virtual void run_slow(std::uint32_t queue, std::function<void()> work, std::function<void()> done) = 0;

  /// Runs `job` on this lane in a later step. Any thread.
  virtual void post(std::function<void()> job) = 0;

  /// Seeded in the simulation.
  virtual std::uint64_t random() = 0;

  virtual caf::actor_system& system() = 0;
  /// An actor of this lane was spawned; the simulation ends what a failed test leaves behind.
  virtual void launched(const caf::actor& who) { (void)who; }
  /// A message of this type is about to be handled on the lane; what the simulation throws here leaves the
  /// handler.
  virtual void handling(const std::type_info& message) { (void)message; }
  /// Where CAF must run this lane's actors; nullptr in the simulation (CAF's test coordinator).
  virtual caf::execution_unit* unit() noexcept = 0;
};

} // namespace actor_rdma::actors
