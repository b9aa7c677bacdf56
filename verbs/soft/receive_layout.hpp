// SPDX-License-Identifier: Apache-2.0
//
// The part of the shared tables (layout.hpp) that is about receiving: completion queues as peers see them,
// and receive queues with their slots. How they are used is in receive_table.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace actor_rdma::verbs::soft::layout {

/// Where receives complete. A requester adds the slot of a finished receive to the list; the owner takes the
/// whole list at once, so it never waits for anybody.
struct alignas(64) cq_entry {
  std::atomic<std::uint32_t> owner;               // process index + 1, 0: free
  std::atomic<std::uint32_t> armed;               // tell the owner's engine of arrivals
  alignas(64) std::atomic<std::uint32_t> arrived; // unit of the slot that came last, 0: none
};

/// A receive queue begins with two units of this; the ring of units and the slots follow. `head` and `tail`
/// count without end. What is in the ring between them was posted and not yet claimed, or its claimer has
/// not yet moved the head, which anybody may do for it.
struct alignas(64) receive_ring {
  std::atomic<std::uint32_t> tail;          // written by the owner
  std::atomic<std::uint32_t> limit;         // of a shared queue: 0 is none
  std::atomic<std::uint32_t> limit_reached; // for the owner to see
  std::atomic<std::uint32_t> pd;
  std::atomic<std::uint32_t> mask; // of the ring
  alignas(64) std::atomic<std::uint32_t> head;
};

/// One receive. `word` is ticket << 32 | QP index << 16 | state, where the ticket is the place in the ring.
/// The owner writes the rest before it posts, the claimer writes the result before it says that it is done.
struct alignas(64) receive_slot {
  std::atomic<std::uint64_t> word;
  std::uint64_t wr_id;
  std::atomic<std::uint32_t> next; // in a completion queue's list of arrivals
  std::uint32_t byte_len;
  std::uint32_t imm_data;
  std::uint32_t src_qpn;
  std::uint8_t status; // ibv_wc_status
  std::uint8_t opcode; // ibv_wc_opcode
  std::uint8_t flags;  // receive_flag
  std::uint8_t num_sge;
  // The pieces follow: the first in this unit, more in a second one.
};
inline constexpr std::size_t receive_pieces_offset = 40;

enum receive_flag : std::uint8_t { with_imm = 1, solicited = 2 };

struct alignas(64) receive_unit {
  std::array<std::byte, 64> bytes;
};

static_assert(offsetof(receive_slot, num_sge) < receive_pieces_offset && sizeof(receive_slot) == 64 &&
              sizeof(receive_ring) == 2 * sizeof(receive_unit));

} // namespace actor_rdma::verbs::soft::layout
