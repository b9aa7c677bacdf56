// SPDX-License-Identifier: Apache-2.0
// The account of one QP's posted WRs: a ring in posting order. RC completes in order, so a success CQE
// retires every earlier WR as a success. An error or a flush ends with its own status, and says nothing of
// the earlier ones, whose own CQE may have been lost: they are issued again. What is left when the QP was
// destroyed ends without a CQE. Each entry leaves exactly once. Pure: no verbs, no clock.
#pragma once

#include "actors/slice.hpp"
#include "base/checks.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <vector>

namespace actor_rdma::actors {

class ledger {
public:
  /// `capacity` is a power of two: the send queue's depth.
  explicit ledger(std::uint32_t capacity) : mask_(capacity - 1), entries_(capacity) {
    ACTOR_RDMA_ASSERT(capacity != 0 && (capacity & mask_) == 0, "ledger capacity is a power of two");
  }

  std::uint32_t outstanding() const noexcept { return tail_ - head_; }
  std::uint32_t room() const noexcept { return mask_ + 1 - outstanding(); }
  bool empty() const noexcept { return tail_ == head_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Position that the next push gets. Positions wrap at 2^32, far above the capacity.
  std::uint32_t next() const noexcept { return tail_; }
  base::time_point oldest_posted() const noexcept { return entries_[head_ & mask_].posted; }
  std::uint64_t oldest_wr_position() const noexcept { return head_; }

  std::uint32_t push(const slice& what, base::time_point now) noexcept {
    auto& e = entries_[tail_ & mask_];
    e.what = what;
    e.posted = now;
    bytes_ += what.length;
    return tail_++;
  }
  /// Takes back the newest `n` entries, newest last in `visit(slice)`: the device did not accept them.
  template <class Visit>
  void unpush(std::uint32_t n, Visit&& visit) {
    const auto first = tail_ - n;
    for (auto i = first; i != tail_; ++i) {
      bytes_ -= entries_[i & mask_].what.length;
      visit(entries_[i & mask_].what);
    }
    tail_ = first;
  }

  bool holds(std::uint32_t position) const noexcept { return position - head_ < outstanding(); }

  /// Retires `position` with `end` and everything before it, through `visit(slice, wr_end)`: as success if
  /// this is one, else as flushed. Unsignalled WRs before an error did succeed, but nothing tells them from
  /// one whose own error or flush was lost; issuing them once more is harmless. False when `position` is not
  /// in the ring: a completion that was not expected.
  template <class Visit>
  bool retire(std::uint32_t position, wr_end end, Visit&& visit) {
    if (!holds(position))
      return false;
    const auto before = end == wr_end::success ? end : wr_end::flushed;
    while (head_ != position)
      pop(before, visit);
    pop(end, visit);
    return true;
  }
  /// The QP is gone: nothing of it can touch memory any more, and no CQE will come.
  template <class Visit>
  void retire_all(wr_end end, Visit&& visit) {
    while (!empty())
      pop(end, visit);
  }
  /// Visits outstanding slices, oldest first; `visit(slice&)` may change them.
  template <class Visit>
  void each(Visit&& visit) {
    for (auto i = head_; i != tail_; ++i)
      visit(entries_[i & mask_].what);
  }

private:
  struct entry {
    slice what;
    base::time_point posted{};
  };

  template <class Visit>
  void pop(wr_end end, Visit&& visit) {
    auto& e = entries_[head_ & mask_];
    bytes_ -= e.what.length;
    ++head_;
    visit(e.what, end);
  }

  std::uint32_t mask_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<entry> entries_;
};

/// wr_id = our QP's index (16) | its generation (16) | position in the ledger (32). Never a pointer.
struct wr_name {
  std::uint16_t qp_index = 0;
  std::uint16_t generation = 0;
  std::uint32_t position = 0;
};
constexpr std::uint64_t pack(wr_name n) noexcept {
  return (std::uint64_t{n.qp_index} << 48) | (std::uint64_t{n.generation} << 32) | n.position;
}
constexpr wr_name unpack(std::uint64_t wr_id) noexcept {
  return {static_cast<std::uint16_t>(wr_id >> 48), static_cast<std::uint16_t>(wr_id >> 32),
          static_cast<std::uint32_t>(wr_id)};
}

} // namespace actor_rdma::actors
