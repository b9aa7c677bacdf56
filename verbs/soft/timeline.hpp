// SPDX-License-Identifier: Apache-2.0
//
// What is due when: an ordered set of things to run, each at most once in it, in the order (time, device, QP
// number, work request). Never in order of arrival, which would not repeat. On a steady clock each completion
// queue has its own, run by whoever polls it and, when nobody does, by the engine thread; in virtual time
// there is one for all.
#pragma once

#include "verbs/soft/layout.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace actor_rdma::verbs::soft {

/// Bytes that one turn may still copy, so that no post and no poll takes the caller's thread for long.
using copy_budget = std::size_t;
inline constexpr copy_budget budget_per_call = 256U << 10;

struct due_key {
  nanos at = never;
  std::uint32_t device = 0;
  std::uint32_t qp_num = 0;
  std::uint64_t order = 0; // of the work request
  friend bool operator<(const due_key& a, const due_key& b) noexcept {
    return std::tie(a.at, a.device, a.qp_num, a.order) < std::tie(b.at, b.device, b.qp_num, b.order);
  }
};

/// Something that a timeline runs. Owned by shared_ptr, because it may be taken out for running while its
/// other owners let it go.
class timed {
public:
  timed() = default;
  timed(const timed&) = delete;
  timed& operator=(const timed&) = delete;
  virtual ~timed() = default;
  /// Does what is due at `now`, for which it was scheduled. It may go on with what is due by `until`, as long
  /// as that comes before everything else on its timeline.
  virtual void run(nanos now, nanos until, copy_budget& budget) = 0;

private:
  friend class timeline;
  static constexpr std::size_t outside = SIZE_MAX;
  std::size_t position_ = outside; // guarded by the timeline
};

class timeline {
public:
  /// `on_earlier` is called, without a lock, when the earliest time moved forward.
  explicit timeline(std::function<void(const timeline&)> on_earlier = {})
      : on_earlier_{std::move(on_earlier)} {}

  void schedule(const std::shared_ptr<timed>& what, const due_key& key);
  void remove(timed& what) noexcept;
  /// Takes out the first entry that is due by `now`.
  [[nodiscard]] std::shared_ptr<timed> pop_due(nanos now, due_key& key) noexcept;
  /// When the first entry is due. A plain load.
  [[nodiscard]] nanos next_due() const noexcept { return next_due_.load(std::memory_order_seq_cst); }
  void clear() noexcept;

  /// Runs what is due, in order, each entry at its own time rather than at `now`: a late caller catches up
  /// without losing time. Stops when the budget is used up.
  void run_due(nanos now, copy_budget& budget);

  /// Somebody sleeps until something happens here: the engine must be exact. Otherwise it may be late.
  void set_watched(bool watched) noexcept;
  [[nodiscard]] bool is_watched() const noexcept { return watched_.load(std::memory_order_seq_cst); }

  /// Its owner looked here at that time, and is expected to come again.
  void note_served(nanos now) noexcept { served_at_.store(now, std::memory_order_relaxed); }
  [[nodiscard]] nanos served_at() const noexcept { return served_at_.load(std::memory_order_relaxed); }

private:
  struct entry {
    due_key key;
    std::shared_ptr<timed> what;
  };
  void sift_up(std::size_t i) noexcept;
  void sift_down(std::size_t i) noexcept;
  void take_out(std::size_t i) noexcept;
  void place(std::size_t i, entry&& e) noexcept;
  void publish() noexcept;

  std::mutex mutex_;
  std::vector<entry> heap_;
  std::atomic<nanos> next_due_{never};
  std::atomic<bool> watched_{false};
  std::atomic<nanos> served_at_{0};
  std::function<void(const timeline&)> on_earlier_;
};

} // namespace actor_rdma::verbs::soft
