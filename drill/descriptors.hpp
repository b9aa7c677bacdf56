// SPDX-License-Identifier: Apache-2.0
// How many file descriptors this process has open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace actor_rdma::drill {

inline std::uint64_t open_descriptors() {
  std::error_code failed;
  std::filesystem::directory_iterator it("/proc/self/fd", failed);
  std::uint64_t n = 0;
  for (; !failed && it != std::filesystem::directory_iterator{}; it.increment(failed))
    ++n;
  return n;
}

} // namespace actor_rdma::drill
