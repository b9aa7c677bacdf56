// SPDX-License-Identifier: Apache-2.0
//
// Completions that rules keep back from their completion queue. A queue pair completes in order, so what its
// send or receive queue completes next waits behind one that is kept, unless that one is to be passed
// (`alone`). Guarded by the completion queue's lock.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace actor_rdma::verbs::soft {

struct completion;
class soft_qp;

struct cqe_hold {
  nanos time = never; ///< how long
  bool is_alone = false;
  std::optional<cqe_class> behind{}; ///< until one of these was written, at most so long
};

/// The queue of a queue pair that completes.
struct work_queue_name {
  const soft_qp* qp = nullptr;
  bool is_recv = false;
  friend bool operator==(const work_queue_name&, const work_queue_name&) = default;
};

/// `Completion` is soft::completion; a template only so that this stands below it.
template <class Completion>
class completion_keeper {
public:
  [[nodiscard]] bool is_empty() const noexcept { return kept_.empty(); }

  /// `what` is absent for work that has no completion: those behind it wait all the same.
  void keep(work_queue_name of, std::optional<Completion> what, const cqe_hold& hold, nanos now) {
    const auto until = hold.time == never ? never : now + hold.time;
    kept_.push_back({of, std::move(what), until, hold.is_alone, hold.behind});
  }
  /// Whether the next completion of this queue has to wait.
  [[nodiscard]] bool blocks(work_queue_name of) const noexcept {
    for (const auto& k : kept_)
      if (k.of == of && !k.is_alone)
        return true;
    return false;
  }
  /// A completion of this queue was written: those that let it pass may come.
  void note_written(work_queue_name of) noexcept {
    for (auto& k : kept_)
      if (k.behind && is_meant(*k.behind, k.of, of))
        k.until = 0;
  }
  /// Takes out what may be written now, in order.
  [[nodiscard]] std::vector<Completion> take_due(nanos now) {
    std::vector<Completion> due;
    for (auto k = kept_.begin(); k != kept_.end();) {
      if (k->until <= now && !is_behind_another(k)) {
        if (k->what)
          due.push_back(*k->what);
        k = kept_.erase(k);
      } else {
        ++k;
      }
    }
    return due;
  }
  /// The queue pair is about to be flushed: what has a time comes now, what has none never comes.
  void hurry(const soft_qp* qp) noexcept {
    std::erase_if(kept_, [&](const kept& k) { return k.of.qp == qp && k.until == never; });
    for (auto& k : kept_)
      if (k.of.qp == qp)
        k.until = 0;
  }
  void forget(const soft_qp* qp) noexcept {
    std::erase_if(kept_, [&](const kept& k) { return k.of.qp == qp; });
  }
  [[nodiscard]] nanos next_due() const noexcept {
    auto next = never;
    for (auto k = kept_.begin(); k != kept_.end(); ++k)
      if (k->until < next && !is_behind_another(k))
        next = k->until;
    return next;
  }

private:
  struct kept {
    work_queue_name of;
    std::optional<Completion> what;
    nanos until;
    bool is_alone;
    std::optional<cqe_class> behind;
  };

  [[nodiscard]] static bool is_meant(cqe_class c, work_queue_name own, work_queue_name other) noexcept {
    switch (c) {
    case cqe_class::send: return !other.is_recv && !(own == other);
    case cqe_class::recv: return other.is_recv && !(own == other);
    case cqe_class::other: return !(own == other);
    }
    return false;
  }
  [[nodiscard]] bool is_behind_another(typename std::deque<kept>::const_iterator k) const noexcept {
    if (k->is_alone)
      return false;
    for (auto before = kept_.begin(); before != k; ++before)
      if (before->of == k->of && !before->is_alone)
        return true;
    return false;
  }

  std::deque<kept> kept_;
};

} // namespace actor_rdma::verbs::soft
