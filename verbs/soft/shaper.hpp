// SPDX-License-Identifier: Apache-2.0
//
// The bandwidth model of paced devices. Each direction of a port is a queue that drains at the port's rate; a
// message takes its place in the sender's outgoing and in the receiver's incoming queue, and is there when
// the later of the two is done plus the latency. The queues are words in the shared tables, so hosts in other
// processes count too.
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

[[nodiscard]] inline nanos wire_time(const layout::device_entry& device, std::uint64_t bytes) noexcept {
  return static_cast<nanos>(bytes * device.fs_per_byte.load(std::memory_order_relaxed) / 1'000'000);
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

[[nodiscard]] inline passage reserve(layout::device_entry& from, layout::device_entry& to, nanos now,
                                     std::uint64_t bytes) noexcept {
  const auto left = queue_up(from.tx_free, now, wire_time(from, bytes));
  const auto received = queue_up(to.rx_free, now, wire_time(to, bytes));
  return {left, std::max(left, received) + from.latency.load(std::memory_order_relaxed)};
}

} // namespace actor_rdma::verbs::soft
