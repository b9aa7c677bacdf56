// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of requests have in common on the responder's side: the order of packets, refusing, finding
// memory, and what a responder leaves for its owner to see.
#pragma once

#include "verbs/soft/responder.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace actor_rdma::verbs::soft {

/// The responder's view of a sequence number: the next one, one that it has seen, or one behind a gap.
enum class arrival : std::uint8_t { next, repeated, early };
[[nodiscard]] inline arrival classify(std::uint32_t psn, std::uint32_t expected) noexcept {
  const auto ahead = (psn - expected) & psn_mask;
  return ahead == 0 ? arrival::next : ahead >= (psn_mask + 1) / 2 ? arrival::repeated : arrival::early;
}

/// A port drops frames that are longer than its MTU.
[[nodiscard]] inline bool fits_ports(const layout::tables& t, const responder& to,
                                     const request& what) noexcept {
  const auto longest = std::min(what.path_mtu, what.length);
  return longest <= what.port_mtu && longest <= t.devices[to.device].mtu.load(std::memory_order_relaxed);
}

/// Whether packets are longer than the responder takes.
[[nodiscard]] inline bool has_long_packets(const layout::qp_entry& qp, const request& what) noexcept {
  const std::uint32_t mtu = qp.path_mtu.load(std::memory_order_relaxed);
  return what.path_mtu > mtu && what.length > mtu;
}

/// Refusing a request ends the responder's side of the connection too. `sign` says why, if it is not what
/// `why` implies.
[[nodiscard]] verdict refuse(runtime& rt, const responder& to, verdict why, std::uint32_t sign = 0) noexcept;
/// Makes the owner look at its queue pairs.
void tell_owner(runtime& rt, const responder& to) noexcept;
/// The communication is established, if this is the first message.
void note_first_message(runtime& rt, const responder& to) noexcept;

/// How this process reaches a region.
[[nodiscard]] reachable find_way(runtime& rt, const layout::mr_entry& mr, std::uint32_t index,
                                 std::uint64_t state);
void log_no_permission(const runtime& rt, const responder& to);

/// Reads what the key means now.
void look_up(region_cache& cache, const layout::mr_entry& mr, std::uint64_t state,
             const responder& to) noexcept;
[[nodiscard]] inline bool is_within(const region_cache& region, const request& what) noexcept {
  return what.remote_addr >= region.addr && what.length <= region.length &&
         what.remote_addr - region.addr <= region.length - what.length;
}

/// Whether the responder has the resources for so many READs and atomics at one time. IBA lets it refuse the
/// one that is too many as an invalid request.
[[nodiscard]] inline bool has_room_for(const layout::qp_entry& qp, const request& what) noexcept {
  const std::uint32_t room = qp.max_dest_reads.load(std::memory_order_relaxed);
  return room != 0 && what.reads_ahead < room;
}

/// Checks the key that `cache` has chosen, and moves the bytes of a READ or WRITE.
[[nodiscard]] verdict move_payload(runtime& rt, execution& at_work, const responder& to, const request& what,
                                   std::span<const ibv_sge> local, region_cache& cache, std::uint64_t& done,
                                   copy_budget& budget);

} // namespace actor_rdma::verbs::soft
