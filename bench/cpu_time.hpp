// SPDX-License-Identifier: Apache-2.0
// CPU time of the process and of the calling thread. Both are system calls of a few hundred nanoseconds.
#pragma once

#include "base/time.hpp"

#include <ctime>

namespace actor_rdma::bench {

inline base::duration cpu_time(clockid_t clock) noexcept {
  timespec ts{};
  clock_gettime(clock, &ts);
  return base::duration{std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec};
}
inline base::duration process_cpu_time() noexcept {
  return cpu_time(CLOCK_PROCESS_CPUTIME_ID);
}
inline base::duration thread_cpu_time() noexcept {
  return cpu_time(CLOCK_THREAD_CPUTIME_ID);
}

} // namespace actor_rdma::bench
