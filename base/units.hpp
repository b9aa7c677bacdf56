// SPDX-License-Identifier: Apache-2.0
//
// Sizes and times as people write them on a command line: "64K", "1M", "4G" (powers of 1024), "50us", "1.5s".
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string_view>

namespace actor_rdma::base {

/// Bytes; K, M, G, T, also KiB and so on, also with a small letter. Without a unit: bytes.
[[nodiscard]] expected<std::uint64_t> parse_size(std::string_view text);

/// ns, us, ms, s, min or h; the unit is obligatory, because a bare number is the usual mistake. Fractions are
/// fine.
[[nodiscard]] expected<duration> parse_duration(std::string_view text);

} // namespace actor_rdma::base
