// SPDX-License-Identifier: Apache-2.0
//
// Async events that somebody asked for (the control command, a rule): a ring in the shared tables, from which
// each process takes those of its own devices. A process that falls behind by more than the ring loses some,
// as an application loses events that nobody kept for it.
#pragma once

#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

struct raised_event {
  std::uint32_t device = 0;
  ibv_event_type type{};
  std::uint32_t times = 1;
  std::uint32_t qp_num = 0; ///< 0: every queue pair, where the event is of one
};

void write_raised(layout::tables& t, const raised_event& event) noexcept;
/// What was asked for since `next`, which moves on.
[[nodiscard]] std::vector<raised_event> read_raised(const layout::tables& t, std::uint64_t& next);

/// Whether an event is about a queue pair, a completion queue, or neither.
enum class event_subject : std::uint8_t { queue_pair, completion_queue, shared_receive_queue, device };
[[nodiscard]] event_subject subject_of(ibv_event_type type) noexcept;
/// Whether an event names a port.
[[nodiscard]] bool is_of_port(ibv_event_type type) noexcept;

} // namespace actor_rdma::verbs::soft
