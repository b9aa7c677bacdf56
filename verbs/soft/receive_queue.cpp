// SPDX-License-Identifier: Apache-2.0
//
// Slots of a receive queue as its owner moves them.
#include "verbs/soft/receive_queue.hpp"

#include <algorithm>
#include <cerrno>

namespace actor_rdma::verbs::soft {

bool receive_queue::open(std::uint32_t wrs, std::uint32_t sges, std::uint32_t pd) {
  shape_ = shape_of(wrs, sges);
  const auto unit = claim_receive_queue(rt_.memory(), rt_.process_index(), shape_, pd);
  if (!unit)
    return false;
  unit_ = *unit;
  sges_ = sges;
  for (auto slot = shape_.units; slot > shape_.first_slot;) // the first is taken first
    free_.push_back(unit_ + (slot -= shape_.units_per_slot));
  return true;
}

void receive_queue::close() noexcept {
  if (unit_ != 0)
    release_receive_queue(rt_.tables(), unit_, shape_);
  unit_ = 0;
}

int receive_queue::post(const ibv_recv_wr& wr) {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > sges_)
    return EINVAL;
  std::lock_guard lock{mutex_};
  if (free_.empty())
    return ENOMEM;
  const auto unit = free_.back();
  free_.pop_back();
  auto& slot = (*this)[unit];
  slot.wr_id = wr.wr_id;
  slot.num_sge = static_cast<std::uint8_t>(wr.num_sge);
  std::copy_n(wr.sg_list, wr.num_sge, pieces_of(slot));
  post_receive(rt_.tables(), unit_, unit);
  return 0;
}

void receive_queue::release(std::uint32_t slot) {
  std::lock_guard lock{mutex_};
  (*this)[slot].word.store(0, std::memory_order_relaxed);
  free_.push_back(slot);
}

std::vector<receive_queue::taken> receive_queue::take_back(std::uint32_t qp_index, bool also_posted,
                                                           bool also_claimed) {
  std::vector<taken> all;
  if (!is_open())
    return all;
  std::lock_guard lock{mutex_};
  if (free_.size() == shape_.wrs)
    return all;
  for (auto at = shape_.first_slot; at < shape_.units; at += shape_.units_per_slot) {
    const auto unit = unit_ + at;
    auto& word = (*this)[unit].word;
    auto seen = word.load(std::memory_order_seq_cst);
    const auto state = state_of(seen);
    const bool is_claimed = state == receive_state::claimed || state == receive_state::done;
    if (!(state == receive_state::posted && also_posted) &&
        !(is_claimed && also_claimed && claimer_of(seen) == qp_index))
      continue;
    // Fails when it was claimed in this moment: then it is found the next time.
    if (word.compare_exchange_strong(seen, with_state(seen, receive_state::delivered),
                                     std::memory_order_seq_cst))
      all.push_back({ticket_of(seen), unit, state == receive_state::done});
  }
  pass_claimed(rt_.tables(), unit_);
  const auto newest = ring_at(rt_.tables(), unit_).tail.load(std::memory_order_relaxed);
  std::sort(all.begin(), all.end(), [newest](const taken& a, const taken& b) {
    return newest - a.ticket > newest - b.ticket; // counters wrap
  });
  return all;
}

void receive_queue::reclaim(std::uint32_t qp_index, bool everything) {
  if (!is_open())
    return;
  std::lock_guard lock{mutex_};
  for (auto at = shape_.first_slot; at < shape_.units; at += shape_.units_per_slot) {
    const auto unit = unit_ + at;
    auto& word = (*this)[unit].word;
    const auto seen = word.load(std::memory_order_seq_cst);
    const auto state = state_of(seen);
    if (state == receive_state::free ||
        (!everything && (state == receive_state::posted || claimer_of(seen) != qp_index)))
      continue;
    word.store(0, std::memory_order_seq_cst);
    free_.push_back(unit);
  }
  pass_claimed(rt_.tables(), unit_);
}

} // namespace actor_rdma::verbs::soft
