// SPDX-License-Identifier: Apache-2.0
//
// Publishing of executions, and the waits for them.
#include "verbs/soft/hazard.hpp"

#include "verbs/soft/liveness.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace actor_rdma::verbs::soft {

namespace {

/// Where this thread looks for a free slot first, so that threads rarely meet.
std::uint32_t slot_hint() noexcept {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

struct observed {
  const layout::process_entry* process;
  const layout::hazard_slot* slot;
  std::uint64_t sequence;
  std::uint64_t target;

  bool has_moved() const noexcept {
    return slot->sequence.load(std::memory_order_seq_cst) != sequence ||
           slot->target.load(std::memory_order_seq_cst) != target;
  }
};

bool is_over(const observed& o, const layout::process_entry& own) {
  return o.has_moved() || (o.process != &own && !is_alive(*o.process) && is_gone(*o.process));
}

bool wait_until_over(std::vector<observed> busy, const layout::process_entry& own) {
  const auto deadline = std::chrono::steady_clock::now() + hazard_patience;
  for (unsigned turn = 0;; ++turn) {
    std::erase_if(busy, [&](const observed& o) { return is_over(o, own); });
    if (busy.empty())
      return true;
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    if (turn < 64)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
}

/// Slots that are at work now and for which `concerns(process, target)` holds.
template <class Concerns>
std::vector<observed> observe(layout::tables& tables, Concerns concerns) {
  std::vector<observed> busy;
  for (const auto& process : tables.processes) {
    if (process.used.load(std::memory_order_acquire) == 0)
      continue;
    for (const auto& slot : process.hazards) {
      const observed o{&process, &slot, slot.sequence.load(std::memory_order_seq_cst),
                       slot.target.load(std::memory_order_seq_cst)};
      if (o.sequence % 2 != 0 && concerns(process, o.target))
        busy.push_back(o);
    }
  }
  return busy;
}

} // namespace

execution::execution(layout::process_entry& process) noexcept {
  for (auto i = slot_hint();; ++i) {
    slot_ = &process.hazards[i % layout::hazards_per_process];
    if (slot_->taken.load(std::memory_order_relaxed) == 0 &&
        slot_->taken.exchange(1, std::memory_order_acquire) == 0)
      break;
    if (i % layout::hazards_per_process == layout::hazards_per_process - 1)
      std::this_thread::yield();
  }
  slot_->sequence.store(slot_->sequence.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

execution::~execution() {
  slot_->target.store(0, std::memory_order_release);
  slot_->sequence.store(slot_->sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  slot_->taken.store(0, std::memory_order_release);
}

bool wait_for_queue_pair(layout::tables& tables, const layout::process_entry& own, std::uint32_t qp_index) {
  const auto wanted = std::uint64_t{qp_index} + 1;
  return wait_until_over(
      observe(tables, [&](const auto&, std::uint64_t target) { return target >> 32 == wanted; }), own);
}

bool is_at_work_on_queue_pair(layout::tables& tables, const layout::process_entry& own,
                              std::uint32_t qp_index) {
  const auto wanted = std::uint64_t{qp_index} + 1;
  const auto busy =
      observe(tables, [&](const auto&, std::uint64_t target) { return target >> 32 == wanted; });
  return std::any_of(busy.begin(), busy.end(), [&](const observed& o) { return !is_over(o, own); });
}

bool wait_for_memory_region(layout::tables& tables, const layout::process_entry& own,
                            std::uint32_t mr_index) {
  const auto wanted = std::uint64_t{mr_index} + 1;
  return wait_until_over(observe(tables,
                                 [&](const auto& process, std::uint64_t target) {
                                   return &process == &own || (target & 0xffffffffU) == wanted;
                                 }),
                         own);
}

bool wait_for_own_executions(const layout::process_entry& own) {
  std::vector<observed> busy;
  for (const auto& slot : own.hazards) {
    const auto sequence = slot.sequence.load(std::memory_order_seq_cst);
    if (sequence % 2 != 0)
      busy.push_back({&own, &slot, sequence, slot.target.load(std::memory_order_seq_cst)});
  }
  return wait_until_over(std::move(busy), own);
}

} // namespace actor_rdma::verbs::soft
