// SPDX-License-Identifier: Apache-2.0
// A slice: what one WR carries, with everything a QP needs to post it: a piece of one transfer, or several
// transfers of a batch that adjoin in both memories. Slices travel in chunks, preallocated arrays that change
// hands between the peer actor and QP actors, so that nothing is allocated per slice and one message moves up
// to 64 of them.
#pragma once

#include "actors/batch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace actor_rdma::actors {

/// Made when a slice is issued a second time while its first WR is still out. Carried by QPs, read and
/// written by the peer actor only.
struct reissue_record {
  bool done = false;       ///< one of its WRs succeeded: its bytes are counted
  std::uint32_t holds = 0; ///< WRs and queue places that carry it
};

struct slice {
  batch_state* batch = nullptr;
  transfer* item = nullptr;
  reissue_record* record = nullptr;
  std::uint64_t offset = 0; ///< in the transfer; 0 if it carries several
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  static constexpr std::uint16_t no_device = 0xffff;
  std::uint16_t avoid =
      no_device;           ///< local device on which its last WR hung: another one is better, if there is one
  std::uint8_t faults = 0; ///< how often a WR of it ended as wr_end::fault
  /// Rails on whose devices, ours or the peer's, the memory was refused to it: bits of the queue's.
  std::uint64_t refused_on = 0;
  /// What this issue of it tries again, of what devices could not reach: bits of reach::side.
  std::uint8_t tries = 0;
  std::uint16_t more = 0; ///< it also carries so many transfers that follow `item`, all of them whole

  /// visit(transfer&, bytes of it)
  template <class Visit>
  void each(Visit&& visit) const {
    if (more == 0)
      return visit(*item, std::uint64_t{length});
    for (std::size_t i = 0; i <= more; ++i)
      visit(item[i], item[i].length);
  }
};

/// How one WR ended.
enum class wr_end : std::uint8_t {
  success,   ///< success CQE: fenced on both sides
  flushed,   ///< ended by its QP's end, for no fault of its own; fenced locally
  error,     ///< error CQE that a path or peer fault explains; fenced locally
  fault,     ///< error CQE that may be the request's doing or not: tried again, but not for ever
  refused,   ///< error CQE that the request itself explains (range, length); fenced locally
  no_reach,  ///< our device refused our key, or could not get at the memory; fenced locally
  no_access, ///< the peer's device did that: the key may have been revoked; fenced on both sides
  unposted,  ///< never reached the device
};

struct ended_slice {
  slice what;
  wr_end end = wr_end::success;
};

/// Who may carry a slice whose WR is still out.
enum class offer_to : std::uint8_t {
  anyone,        ///< another device rather than the same one
  other_devices, ///< the same one may only be busy, and would be more so
  declined,      ///< anyone, if no other device was there to take it: its own rail was found to answer
};

/// Names a QP to the peer actor that feeds it.
using slot_id = std::uint16_t;

/// The slice for another issue of it: its record is held once more, by whoever gets this.
inline slice again(slice& posted) {
  if (posted.record == nullptr)
    posted.record = new reissue_record{false, 1};
  ++posted.record->holds;
  return posted;
}

struct chunk {
  static constexpr std::size_t capacity = 64;
  slot_id slot = 0;
  std::uint16_t generation = 0;
  std::uint16_t count = 0;
  std::array<ended_slice, capacity> slices;

  void clear() noexcept { count = 0; }
  bool full() const noexcept { return count == capacity; }
  void add(const slice& what, wr_end end) noexcept { slices[count++] = ended_slice{what, end}; }
};

using chunk_ptr =
    std::shared_ptr<chunk>; // messages must be copyable; a chunk has one holder at a time all the same

/// Free chunks of one actor. Chunks may be given back to another pool than they came from.
class chunk_pool {
public:
  chunk_ptr take() {
    if (free_.empty())
      return std::make_shared<chunk>();
    auto c = std::move(free_.back());
    free_.pop_back();
    c->clear();
    return c;
  }
  void give(chunk_ptr c) {
    if (free_.size() < keep)
      free_.push_back(std::move(c));
  }

private:
  static constexpr std::size_t keep = 64;
  std::vector<chunk_ptr> free_;
};

} // namespace actor_rdma::actors
