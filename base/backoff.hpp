// SPDX-License-Identifier: Apache-2.0
// How long to wait before the next attempt: longer each time up to a cap, and not all at the same moment.
// Pure.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace actor_rdma::base {

/// `least` after the first failure (`failures` 0), twice as long after each further one, `most` at most; of
/// that between half and all, as `random` says.
inline duration backoff(duration least, duration most, std::uint32_t failures,
                        std::uint64_t random) noexcept {
  const auto full = std::min(least * (1u << std::min(failures, 10u)), most);
  return full / 2 +
         duration{static_cast<std::int64_t>(random % static_cast<std::uint64_t>(full.count() / 2 + 1))};
}

} // namespace actor_rdma::base
