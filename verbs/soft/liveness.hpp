// SPDX-License-Identifier: Apache-2.0
//
// Whether the process behind a table entry still exists. The question comes up once per operation, so the
// answer is one load: the process's engine thread holds a robust mutex for life, and the kernel marks the
// mutex's word when the thread dies by exit, kill or exec, whatever its pid becomes later.
#pragma once

#include "verbs/soft/layout.hpp"

#include <cstdint>

namespace actor_rdma::verbs::soft {

struct process_identity {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  friend bool operator==(const process_identity&, const process_identity&) = default;
};

[[nodiscard]] process_identity own_identity();
[[nodiscard]] process_identity identity_of(const layout::process_entry& entry) noexcept;

/// Makes the entry's mutex ready for its new owner. Nobody else looks at the entry then.
void prepare_life(layout::process_entry& entry);
/// Called by the thread whose end is the end of the process's part in the fabric.
void begin_life(layout::process_entry& entry);
void end_life(layout::process_entry& entry);

/// Lock-free and without a system call. False from the moment the kernel ended the engine thread.
[[nodiscard]] bool is_alive(const layout::process_entry& entry) noexcept;

/// Whether any process is attached that is alive. Under the segment's lock the answer stays no.
[[nodiscard]] bool has_living_process(const layout::tables& t) noexcept;

/// Whether no thread of the process can run any more. Later than !is_alive: a killed process's threads end
/// one by one, and one of them may still be copying. Makes system calls.
[[nodiscard]] bool is_gone(const layout::process_entry& entry) noexcept;

} // namespace actor_rdma::verbs::soft
