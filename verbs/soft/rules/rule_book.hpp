// SPDX-License-Identifier: Apache-2.0
//
// One process's view of the fabric's rules: read again when the tables' epoch says that they changed, asked
// at every place where a rule could act, and the place where a hit is counted and put on record. Counters are
// in the shared tables, so "the seventh" is the seventh of the whole fabric.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/rules/rule.hpp"
#include "verbs/soft/rules/verdicts.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace actor_rdma::verbs::soft {

struct live_rule {
  std::uint32_t id = 0;
  std::uint32_t slot = 0;
  nanos added_at = 0;
  rule what;
};
using live_rules = std::vector<live_rule>;

/// What rules make of a call.
struct verb_verdict {
  int error = 0;            ///< errno with which it fails
  bool is_ignored = false;  ///< reports success without effect
  bool leaves_cqes = false; ///< late_cqe
  bool is_half = false;     ///< gives half of what is asked for
  nanos takes = 0;          ///< longer than usual
};

/// What rules make of an event.
struct event_verdict {
  std::uint32_t times = 1;
  nanos late = 0;
};

class rule_book {
public:
  explicit rule_book(layout::tables& t) noexcept : tables_{t} {}

  void write_verdicts_to(verdict_file file) noexcept { file_ = std::move(file); }

  /// Changes with the rules; 0 as long as there never was one. A plain load, for the data path.
  [[nodiscard]] std::uint32_t epoch() const noexcept {
    return tables_.head.rules_epoch.load(std::memory_order_relaxed);
  }
  /// The rules of that moment, in the order in which they were added.
  [[nodiscard]] std::shared_ptr<const live_rules> current();

  /// Counts a match. True if the rule hits: the caller then acts and calls record().
  [[nodiscard]] bool hits(const live_rule& r, nanos now) noexcept;
  void record(const live_rule& r, nanos now, const verdict_subject& subject, std::uint32_t detail);

  [[nodiscard]] verb_verdict judge(nanos now, std::uint32_t device, verb_facts call);
  [[nodiscard]] event_verdict judge(nanos now, std::uint32_t device, event_facts event);
  /// Whether calls of this kind on the device fail now, without counting anything.
  [[nodiscard]] bool is_dead(nanos now, std::uint32_t device, verb call);

private:
  [[nodiscard]] bool may_concern(verb call) noexcept {
    return seen_epoch_.load(std::memory_order_acquire) != epoch() ||
           (verbs_.load(std::memory_order_relaxed) >> static_cast<int>(call) & 1) != 0;
  }

  layout::tables& tables_;
  verdict_file file_;
  std::atomic<std::uint32_t> seen_epoch_{0};
  std::atomic<std::uint64_t> verbs_{0}; // of which the current rules speak
  std::mutex mutex_;
  std::shared_ptr<const live_rules> rules_ = std::make_shared<live_rules>();
};

} // namespace actor_rdma::verbs::soft
