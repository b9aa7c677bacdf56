// SPDX-License-Identifier: Apache-2.0
//
// The bandwidth model of paced devices. Each direction of a wire is a queue that drains at the wire's rate; a
// message takes its place in the sender's outgoing and in the receiver's incoming queue, and is there when
// the later of the two is done plus the latency. Where the memory behind the ports of a host has a rate too,
// that is one more queue at each end, of all devices of the host and both directions. The queues are words in
// the shared tables, so hosts in other processes count too.
#pragma once

#include "verbs/soft/layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace actor_rdma::verbs::soft {

inline constexpr double min_rate_gbit_s = 0.001;
inline constexpr double max_rate_gbit_s = 10'000;
[[nodiscard]] inline std::uint64_t fs_per_byte(double gbit_s) noexcept {
  return static_cast<std::uint64_t>(std::llround(8e6 / gbit_s));
}
[[nodiscard]] inline double rate_gbit_s(std::uint64_t per_byte) noexcept {
  return 8e6 / static_cast<double>(per_byte == 0 ? 1 : per_byte);
}

struct passage {
  nanos left;    // the last byte left the sender
  nanos arrived; // the last byte is at the receiver
};

/// What a message passes at one end of its way.
struct way_end {
  layout::wire_entry& wire;
  layout::memory_entry& memory;
};

[[nodiscard]] inline nanos time_of(std::uint64_t bytes, std::uint64_t per_byte) noexcept {
  return static_cast<nanos>(bytes * per_byte / 1'000'000);
}

/// Takes a place at the end of one queue: when it will have drained.
[[nodiscard]] inline nanos queue_up(std::atomic<nanos>& free_at, nanos now, nanos cost) noexcept {
  auto before = free_at.load(std::memory_order_relaxed);
  nanos after = 0;
  do {
    after = std::max(before, now) + cost;
  } while (!free_at.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return after;
}

/// When the memory will have taken or given the bytes, if that is later than `at`.
[[nodiscard]] inline nanos pass_memory(layout::memory_entry& memory, nanos now, std::uint64_t bytes,
                                       nanos at) noexcept {
  const auto per_byte = memory.fs_per_byte.load(std::memory_order_relaxed);
  return per_byte == 0 ? at : std::max(at, queue_up(memory.free_at, now, time_of(bytes, per_byte)));
}

[[nodiscard]] inline passage reserve(const way_end& from, const way_end& to, nanos latency, nanos now,
                                     std::uint64_t bytes) noexcept {
  auto left =
      queue_up(from.wire.tx_free, now, time_of(bytes, from.wire.fs_per_byte.load(std::memory_order_relaxed)));
  left = pass_memory(from.memory, now, bytes, left);
  auto received =
      queue_up(to.wire.rx_free, now, time_of(bytes, to.wire.fs_per_byte.load(std::memory_order_relaxed)));
  received = pass_memory(to.memory, now, bytes, received);
  return {left, std::max(left, received) + latency};
}

} // namespace actor_rdma::verbs::soft
