// SPDX-License-Identifier: Apache-2.0
//
// What rules have in store for the work of one queue pair. Each work request is put before the rules once,
// when it first leaves; each packet of it again with every transmission; each acknowledgement when it would
// come back. What was decided waits here until the queue pair comes to it. Guarded by the queue pair's lock.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/rules/completion_keeper.hpp"
#include "verbs/soft/rules/rule_book.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace actor_rdma::verbs::soft {

struct wr_fate {
  // of the work request
  std::optional<std::uint8_t> status{}; ///< ibv_wc_status with which it completes
  bool is_garbage = false;
  bool lands = false; ///< although it has a status
  bool is_hung = false;
  bool is_hung_hard = false;
  std::optional<cqe_hold> hold{};
  std::optional<nanos> dma_late{}; ///< the payload travels on its own, this much later
  bool is_dma_out = false;         ///< and has left
  // of its last transmission
  bool is_lost = false;
  nanos late = 0;
  std::optional<nanos> again{};  ///< a duplicate, so much later
  std::optional<nanos> pieces{}; ///< payload in disorder over this time

  /// The responder is not to write or read memory for it.
  [[nodiscard]] bool moves_nothing() const noexcept { return status.has_value() && !lands; }
};

/// The work request that rules are asked about.
struct wr_facts {
  std::uint64_t wr = 0;
  work_op op = work_op::write;
  std::uint32_t peer_device = UINT32_MAX;
  std::uint32_t peer_qp = 0;
  std::uint64_t region = 0; ///< length of the memory region; 0: none
  std::uint64_t peer_region = 0;
  logged_work work{};
};

class qp_rules {
public:
  qp_rules(rule_book& book, const layout::tables& t, std::uint32_t device, std::uint32_t qp_num) noexcept
      : book_{book}, tables_{t}, device_{device}, qp_num_{qp_num} {}

  /// The port that the queue pair is on from now on, by its place in the device table. It has no work yet.
  void is_of(std::uint32_t port) noexcept {
    if (std::exchange(device_, port) != port)
      seen_epoch_ = 0;
  }
  /// Whether any rule may act on this queue pair. One load and one comparison when nothing changed.
  [[nodiscard]] bool any() {
    const auto epoch = book_.epoch();
    return epoch == seen_epoch_ ? !rules_.empty() : refresh(epoch);
  }
  [[nodiscard]] wr_fate* find(std::uint64_t wr) noexcept {
    if (fates_.empty())
      return nullptr;
    const auto found = fates_.find(wr);
    return found == fates_.end() ? nullptr : &found->second;
  }

  /// Before a work request leaves for the first time. False if it hangs.
  [[nodiscard]] bool admit(const wr_facts& what, nanos now);
  /// When it meets its own port down; nullptr if no rule speaks of that.
  const wr_fate* meet_link_down(const wr_facts& what, nanos now);
  /// With every transmission; nullptr if nothing happens to it.
  wr_fate* transmit(const wr_facts& what, nanos now);
  struct answer {
    bool is_lost = false;
    nanos late = 0;
  };
  [[nodiscard]] answer acknowledge(const wr_facts& what, nanos now);
  [[nodiscard]] bool suppresses_flush(const wr_facts& what, nanos now, bool is_marker);
  /// For a completion of a receive: a status, a hold.
  [[nodiscard]] wr_fate receive(const wr_facts& what, nanos now);

  void end(std::uint64_t wr) noexcept {
    if (!fates_.empty())
      fates_.erase(wr);
  }
  /// All work is gone; what is posted from `next` on is new.
  void end_all(std::uint64_t next) noexcept {
    fates_.clear();
    decided_ = next;
  }

private:
  bool refresh(std::uint32_t epoch);
  template <class Act>
  void ask(const wr_facts& what, nanos now, bool is_answer, std::uint32_t actions, Act act,
           bool at_link_down = false);
  void decide(wr_fate& fate, const rule& r) noexcept;

  rule_book& book_;
  const layout::tables& tables_;
  std::uint32_t device_;
  const std::uint32_t qp_num_;
  std::uint32_t seen_epoch_ = 0;
  std::vector<live_rule> rules_;
  std::map<std::uint64_t, wr_fate> fates_; // by work request
  std::uint64_t decided_ = 0;              // work requests before it were admitted
};

} // namespace actor_rdma::verbs::soft
