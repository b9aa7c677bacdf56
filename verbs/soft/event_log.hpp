// SPDX-License-Identifier: Apache-2.0
//
// The fabric's event log: a ring in the shared tables that every process writes, the evidence of what the NIC
// did. An entry is complete when its sequence word says so; a reader passes over an entry that its writer
// never finished.
#pragma once

#include "verbs/soft/fabric.hpp"
#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <vector>

namespace actor_rdma::verbs::soft {

/// What a work request adds to a log entry.
struct logged_work {
  std::uint64_t wr_id = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
};

/// What a rule's decision adds. The codes are those of rules/rule.hpp.
struct logged_verdict {
  std::uint32_t rule = 0;
  std::uint32_t peer = UINT32_MAX; // device slot
  std::uint64_t wr = 0;
  std::uint32_t target = 0;
  std::uint32_t action = 0;
  std::uint32_t code = 0; // operation, verb or event
};

void write_log(layout::tables& t, nanos at, log_kind kind, const layout::device_entry& device,
               std::uint32_t qp_num = 0, std::uint32_t detail = 0, const logged_work& work = {},
               const logged_verdict& verdict = {}) noexcept;

[[nodiscard]] std::vector<log_entry> read_log(const layout::tables& t, std::uint64_t from,
                                              std::uint64_t& next);

/// Posts are logged only around faults. One load when there was none.
[[nodiscard]] inline bool may_log_posts(const layout::tables& t) noexcept {
  return t.head.log_posts_until.load(std::memory_order_relaxed) != 0;
}
[[nodiscard]] bool logs_posts(layout::tables& t, nanos now) noexcept;
/// To be called after each change of a fault: goes on while any is set, and for a second afterwards.
void note_fault_change(layout::tables& t, nanos now) noexcept;

} // namespace actor_rdma::verbs::soft
