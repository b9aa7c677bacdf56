// SPDX-License-Identifier: Apache-2.0
//
// Slots of the shared tables and the numbers by which the outside names them: QP numbers and keys carry the
// slot's index, so that a lookup is one load, and a tag that changes each time the slot is used. Free slots
// are taken in turn over the whole table, so that no number comes back soon. All numbers follow from the
// fabric's seed.
#pragma once

#include "verbs/soft/layout.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// Makes zeroed memory a fabric's tables.
void initialise(layout::tables& t, std::uint64_t seed) noexcept;

// -- states of a queue pair
// ---------------------------------------------------------------------------------------

[[nodiscard]] constexpr std::uint64_t qp_word(std::uint64_t generation, ibv_qp_state state) noexcept {
  return generation << 8 | (static_cast<std::uint64_t>(state) + 1);
}
[[nodiscard]] constexpr std::uint64_t qp_generation(std::uint64_t word) noexcept {
  return word >> 8;
}
[[nodiscard]] constexpr bool qp_is(std::uint64_t word, ibv_qp_state state) noexcept {
  return (word & 0xff) == static_cast<std::uint64_t>(state) + 1;
}
/// RTR and RTS, the states in which requests of the peer are executed.
[[nodiscard]] constexpr bool qp_responds(std::uint64_t word) noexcept {
  return qp_is(word, IBV_QPS_RTR) || qp_is(word, IBV_QPS_RTS);
}

// -- slots
// --------------------------------------------------------------------------------------------------------

/// The queue pair's index, or nothing when the table is full. The entry is absent, with a generation of its
/// own.
[[nodiscard]] std::optional<std::uint32_t> claim_queue_pair(layout::tables& t, std::uint32_t process);
/// The entry must have been marked absent, and nobody may be at work on it.
void release_queue_pair(layout::tables& t, std::uint32_t index) noexcept;
[[nodiscard]] std::optional<std::uint32_t> claim_memory_region(layout::tables& t, std::uint32_t process);
void release_memory_region(layout::tables& t, std::uint32_t index) noexcept;

[[nodiscard]] std::optional<std::uint32_t> claim_completion_queue(layout::tables& t, std::uint32_t process);
void release_completion_queue(layout::tables& t, std::uint32_t index) noexcept;

/// How many device slots were ever used: the rest of the table need not be looked at.
[[nodiscard]] std::uint32_t device_slots(const layout::tables& t) noexcept;

/// Takes a free device slot; the caller holds the segment's lock. It is port 1 until somebody says otherwise.
[[nodiscard]] std::optional<std::uint32_t> claim_device(layout::tables& t, std::uint32_t process,
                                                        std::string_view name);
void release_device(layout::tables& t, std::uint32_t index) noexcept;
[[nodiscard]] std::string device_name(const layout::device_entry& device);

/// Frees everything that belongs to a process that is gone.
void release_process(layout::tables& t, std::uint32_t index) noexcept;

// -- numbers
// ------------------------------------------------------------------------------------------------------

[[nodiscard]] std::uint32_t new_qp_number(const layout::tables& t, std::uint32_t index) noexcept;
[[nodiscard]] inline std::uint32_t index_of_qp_number(const layout::tables& t, std::uint32_t qpn) noexcept {
  return (qpn & (layout::max_qps - 1)) ^ t.head.qp_scatter;
}
[[nodiscard]] std::uint32_t new_lkey(const layout::tables& t, std::uint32_t index) noexcept;
[[nodiscard]] std::uint32_t new_rkey(const layout::tables& t, std::uint32_t index) noexcept;
[[nodiscard]] inline std::uint32_t index_of_key(const layout::tables& t, std::uint32_t key) noexcept {
  return (key & (layout::max_mrs - 1)) ^ t.head.mr_scatter;
}

} // namespace actor_rdma::verbs::soft
