// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from its parent without a system call: RDMA objects and lanes do not exist in the
// child.
#pragma once

#include <cstdint>

namespace actor_rdma::detail {

/// Grows by one in every forked child.
std::uint32_t process_generation() noexcept;

} // namespace actor_rdma::detail
