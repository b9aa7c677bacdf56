// SPDX-License-Identifier: Apache-2.0
//
// Receive queues in the shared tables, as every process sees them: taking room, posting, claiming, and the
// lists of finished receives. No step waits for another process. A receive is claimed by one exchange on its
// own word, which also says for which queue pair, so whoever is stopped or killed anywhere on the way holds
// that one receive and nothing else, and the owner finds it by its word.
#pragma once

#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <optional>
#include <span>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class segment;

// -- words of slots
// --------------------------------------------------------------------------------------------

/// `posted` may be claimed by anybody, `claimed` and `done` are the claimer's, the others the owner's.
/// `delivered` is in the owner's completion queue, and free when it is polled.
enum class receive_state : std::uint16_t { free, posted, claimed, done, delivered };

[[nodiscard]] constexpr std::uint64_t receive_word(std::uint32_t ticket, std::uint32_t qp_index,
                                                   receive_state state) noexcept {
  return std::uint64_t{ticket} << 32 | std::uint64_t{qp_index} << 16 | static_cast<std::uint64_t>(state);
}
[[nodiscard]] constexpr receive_state state_of(std::uint64_t word) noexcept {
  return static_cast<receive_state>(word & 0xffff);
}
[[nodiscard]] constexpr std::uint32_t claimer_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 16) & 0xffff;
}
[[nodiscard]] constexpr std::uint32_t ticket_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}
/// The same receive in another state, or for a queue pair.
[[nodiscard]] constexpr std::uint64_t with_state(std::uint64_t word, receive_state state) noexcept {
  return receive_word(ticket_of(word), claimer_of(word), state);
}

// -- where things are
// ------------------------------------------------------------------------------------------

[[nodiscard]] inline layout::receive_ring& ring_at(layout::tables& t, std::uint32_t unit) noexcept {
  return *reinterpret_cast<layout::receive_ring*>(&t.receive_units[unit]);
}
[[nodiscard]] inline layout::receive_slot& slot_at(layout::tables& t, std::uint32_t unit) noexcept {
  return *reinterpret_cast<layout::receive_slot*>(&t.receive_units[unit]);
}
[[nodiscard]] inline ibv_sge* pieces_of(layout::receive_slot& slot) noexcept {
  return reinterpret_cast<ibv_sge*>(reinterpret_cast<std::byte*>(&slot) + layout::receive_pieces_offset);
}

/// How a queue of so many receives with so many pieces lies in its units.
struct receive_shape {
  std::uint32_t wrs = 0;
  std::uint32_t ring_size = 0;
  std::uint32_t units_per_slot = 0;
  std::uint32_t first_slot = 0; // relative to the queue's first unit
  std::uint32_t units = 0;      // of all
};
[[nodiscard]] receive_shape shape_of(std::uint32_t wrs, std::uint32_t sges) noexcept;

/// Takes the room of a receive queue and makes it empty: its first unit, or nothing when there is none left.
[[nodiscard]] std::optional<std::uint32_t> claim_receive_queue(const segment& memory, std::uint32_t process,
                                                               const receive_shape& shape, std::uint32_t pd);
/// Nobody may be at work on it any more.
void release_receive_queue(layout::tables& t, std::uint32_t first_unit, const receive_shape& shape) noexcept;

// -- by the owner
// ----------------------------------------------------------------------------------------------

/// Appends a slot that is filled in and free. The caller is the only one who posts to the queue.
void post_receive(layout::tables& t, std::uint32_t queue, std::uint32_t slot) noexcept;
/// The whole list of arrivals, oldest first, linked by `next`; 0 when there is none.
[[nodiscard]] std::uint32_t take_arrivals(layout::tables& t, layout::cq_entry& cq) noexcept;
/// Moves the head past everything that is not posted any more.
void pass_claimed(layout::tables& t, std::uint32_t queue) noexcept;
/// How many receives are there to be claimed.
[[nodiscard]] inline std::uint32_t posted_receives(layout::tables& t, std::uint32_t queue) noexcept {
  const auto& ring = ring_at(t, queue);
  return ring.tail.load(std::memory_order_seq_cst) - ring.head.load(std::memory_order_seq_cst);
}

// -- by whoever executes a request
// -----------------------------------------------------------------------------

/// Claims the oldest receive for a queue pair: its slot's unit, 0 when none is posted.
[[nodiscard]] std::uint32_t claim_receive(layout::tables& t, std::uint32_t queue,
                                          std::uint32_t qp_index) noexcept;
/// Whether the number of receives fell below the limit with the last claim: true once, then the limit is
/// spent.
[[nodiscard]] bool reached_limit(layout::tables& t, std::uint32_t queue) noexcept;
/// Says that a claimed receive, whose result is filled in, is finished. False if it is not the claimer's any
/// more.
[[nodiscard]] bool finish_receive(layout::receive_slot& slot, std::uint64_t claimed_word) noexcept;
/// Puts a finished receive on the list of its completion queue.
void add_arrival(layout::tables& t, layout::cq_entry& cq, std::uint32_t slot) noexcept;

} // namespace actor_rdma::verbs::soft
