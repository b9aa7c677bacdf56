// SPDX-License-Identifier: Apache-2.0
//
// The completion queues and descriptors that a lane watches. While the lane is awake the queues are polled
// every turn and the descriptors are looked at now and then; before it sleeps the queues are armed, and
// everything is in the epoll set of the lane's gate. Used by the lane's thread alone. Sinks may watch and
// unwatch while they are being called.
#pragma once

#include "actors/lane_env.hpp"
#include "base/wake_gate.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

namespace actor_rdma::actors {

/// Runs code that is not the lane's and makes what it throws a fault.
class fault_guard {
public:
  template <class Body>
  void guarded(const char* where, Body&& body) noexcept {
    try {
      body();
    } catch (const std::exception& e) {
      on_fault(where, e.what());
    } catch (...) {
      on_fault(where, "an exception of unknown type");
    }
  }
  virtual void on_fault(const char* where, const char* what) noexcept = 0;

protected:
  ~fault_guard() = default;
};

class lane_watch {
public:
  static constexpr int poll_batch = 64;
  static constexpr base::duration look_every = std::chrono::milliseconds{1};

  lane_watch(base::wake_gate& gate, fault_guard& guard) : gate_(gate), guard_(guard) {}

  /// A queue whose channel cannot be watched fails at the next poll.
  void add(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink);
  void remove(ibv_cq* cq);
  void add(int fd, fd_sink& sink);
  void remove(int fd);

  /// Takes at most one batch from each queue and hands it over. True if there was anything.
  bool poll();
  /// Whether the last poll left no completion in any queue that was there when its backlog began. Only then
  /// may a deadline fire. Until then it waits for as many polls as it takes to empty a full queue, and no
  /// longer.
  bool drained() const noexcept { return drained_; }

  /// Looks at the descriptors if they were not looked at for a while, or takes what sleep() brought.
  bool read(base::time_point now);

  /// Before sleeping: makes every queue that holds nothing announce the next completion.
  void arm();
  /// Until woken or something is ready; what is ready is handed over by read().
  void sleep(base::duration timeout) { ready_ = gate_.wait(timeout); }

private:
  struct queue {
    ibv_cq* cq = nullptr;                         ///< nullptr: unwatched, to be removed from the table
    verbs::completion_channel* channel = nullptr; ///< nullptr: could not be watched
    cq_sink* sink = nullptr;
    int capacity = 1;
    int backlog = 0; ///< completions taken since the queue was last known to hold no older one
    int error = 0;   ///< to be told to the sink
    bool armed = false;
  };
  /// A descriptor in the epoll set. A channel is there once for all its queues.
  struct source {
    std::uint64_t token = 0;
    int fd = -1;
    fd_sink* sink = nullptr;
    verbs::completion_channel* channel = nullptr;
    std::size_t users = 0;
  };

  void fail(queue& which);
  int add_source(const source& what);
  void release(verbs::completion_channel* channel);
  void dispatch(std::uint64_t token);

  base::wake_gate& gate_;
  fault_guard& guard_;
  std::vector<queue> queues_;
  bool some_unwatched_ = false;
  bool drained_ = true;
  std::array<ibv_wc, poll_batch> completions_;
  std::vector<source> sources_;
  std::uint64_t last_token_ = 0;
  std::span<const base::wake_gate::ready> ready_;
  base::time_point looked_at_{};
};

} // namespace actor_rdma::actors
