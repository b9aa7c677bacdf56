// SPDX-License-Identifier: Apache-2.0
//
// The assertion that is always on. It guards invariants whose breach would let memory be written that is no
// longer ours: there going on is worse than stopping. What a peer or a caller can cause is an error value,
// never this.
#pragma once

namespace actor_rdma::base {

/// Prints one line to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file,
                                   int line) noexcept;

} // namespace actor_rdma::base

#define ACTOR_RDMA_ASSERT(condition, message)                                                                \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::actor_rdma::base::assertion_failed(#condition, message, __FILE__, __LINE__);                         \
  } while (false)
