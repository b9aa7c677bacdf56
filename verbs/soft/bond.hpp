// SPDX-License-Identifier: Apache-2.0
//
// Bonds: several wires behind one port. Queue pairs are spread over the members in turn, as they are made,
// and a queue pair stays with its member in both directions. A member that is down loses what its queue pairs
// send and receive, and the port does not know: it stays up, without an event. After a time, if there is one,
// its queue pairs use the members that are up, and they come back with it.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/shaper.hpp"

#include <cstdint>

namespace actor_rdma::verbs::soft {

class runtime;

/// Gives a new queue pair of the device its turn.
void join_bond(layout::tables& t, std::uint32_t device, std::uint32_t qp_index) noexcept;
/// The member that the queue pair uses now.
[[nodiscard]] std::uint32_t member_of(const layout::tables& t, std::uint32_t device, std::uint32_t qp_index,
                                      nanos now) noexcept;
/// Whether that member is up. One load for a port without a bond.
[[nodiscard]] bool is_member_up(const runtime& rt, std::uint32_t device, std::uint32_t qp_index) noexcept;
/// What a queue pair's messages pass at its device: the wire and the memory.
[[nodiscard]] way_end end_of(layout::tables& t, std::uint32_t device, std::uint32_t qp_index,
                             nanos now) noexcept;

} // namespace actor_rdma::verbs::soft
