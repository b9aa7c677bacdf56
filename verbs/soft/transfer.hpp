// SPDX-License-Identifier: Apache-2.0
//
// Moving bytes between local memory and registered memory of a peer, by the cheapest way there is: a plain
// copy within the process, a plain copy through a mapping of the peer's shared pages, or
// process_vm_readv/writev. Whether the bytes may move at all is decided before (responder.hpp); here it is
// only checked again between pieces, so that a peer that takes its memory away waits for one piece and not
// for a gigabyte.
#pragma once

#include "verbs/soft/layout.hpp"
#include "verbs/soft/timeline.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

enum class tier : std::uint8_t { own_process, mapped, system_call };
inline constexpr std::size_t tiers = 3;
/// Work requests by the way their payload went.
using tier_counts = std::array<std::uint64_t, tiers>;

/// Where a remote region is, as this process can reach it.
struct reachable {
  tier way = tier::own_process;
  std::byte* base = nullptr; // of the region, in this process; not for system_call
  std::int32_t pid = 0;      // system_call only
};

/// The published target covers a piece of any size; this bounds how long a destroying peer waits for it. A
/// stopped process is never inside a system call of this kind: the kernel stops it on the way out.
inline constexpr std::uint64_t piece_bytes = 64U << 10;

/// What must stay as it is while bytes move.
struct permission {
  const std::atomic<std::uint64_t>* qp_word = nullptr;
  std::uint64_t qp_generation = 0;
  const std::atomic<std::uint64_t>* mr_state = nullptr;
  std::uint64_t mr_value = 0;

  [[nodiscard]] bool holds() const noexcept;
};

enum class moved : std::uint8_t {
  all,
  some, ///< the budget is used up
  revoked,
  no_process,
  no_permission, ///< the kernel forbids it: other user, other namespace
  fault          ///< memory behind a registration is gone
};

struct move_order {
  reachable where;
  std::uint64_t remote_offset = 0; // within the region
  std::uint64_t remote_addr = 0;
  std::span<const ibv_sge> local;
  std::uint64_t length = 0;
  bool to_local = false;
};

/// What needs no second look is copied here and now: one piece, in one go. False if it is something else.
[[nodiscard]] inline bool move_at_once(const move_order& order, std::uint64_t done,
                                       copy_budget& budget) noexcept {
  if (order.where.way == tier::system_call || order.local.size() != 1 || done != 0 ||
      order.length > piece_bytes || order.length > budget)
    return false;
  auto* const here = reinterpret_cast<std::byte*>(order.local.front().addr);
  auto* const there = order.where.base + order.remote_offset;
  std::memmove(order.to_local ? here : there, order.to_local ? there : here, order.length);
  budget -= order.length;
  return true;
}

/// Goes on at `done` bytes and advances it.
[[nodiscard]] moved move_bytes(const move_order& order, const permission& may, std::uint64_t& done,
                               copy_budget& budget) noexcept;

} // namespace actor_rdma::verbs::soft
