// SPDX-License-Identifier: Apache-2.0
// An atfork handler that counts.
#include "transport/internal/fork_guard.hpp"

#include <atomic>

#include <pthread.h>

namespace actor_rdma::detail {

namespace {

std::atomic<std::uint32_t> generation{0};

} // namespace

std::uint32_t process_generation() noexcept {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  return generation.load(std::memory_order_relaxed);
}

} // namespace actor_rdma::detail
