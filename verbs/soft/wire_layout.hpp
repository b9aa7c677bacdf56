// SPDX-License-Identifier: Apache-2.0
//
// What is behind a device's port, in the shared tables (layout.hpp): the wires, of which a bond has several,
// and the memory of the host, which takes and gives for all of its devices together. Zero is a wire that is
// up and a memory that is as fast as its ports.
#pragma once

#include "verbs/soft/device_options.hpp"

#include <atomic>
#include <cstdint>

namespace actor_rdma::verbs::soft::layout {

inline constexpr std::uint32_t max_bond_members = greatest_bond;

/// A port without a bond has one. Each direction is a queue (shaper.hpp); times are of the fabric's clock.
struct alignas(64) wire_entry {
  std::atomic<std::int64_t> tx_free; // when the last reserved byte will have left, arrived
  std::atomic<std::int64_t> rx_free;
  std::atomic<std::uint64_t> fs_per_byte; // femtoseconds on the wire, so that odd rates are exact
  std::atomic<std::uint32_t> is_down;     // what its queue pairs send and receive is lost
  std::atomic<std::int64_t> leaves_at;    // is_down: from then on they use other members
};

/// One queue for both directions.
struct alignas(64) memory_entry {
  std::atomic<std::int64_t> free_at;
  std::atomic<std::uint64_t> fs_per_byte; // 0: as much as comes
};

} // namespace actor_rdma::verbs::soft::layout
