// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <string>

namespace actor_rdma::bench {

/// "64K", "1M", "1048579": exact, in the form that the command line takes.
std::string size_text(std::uint64_t bytes);
/// "12.3 GB/s", powers of 1000.
std::string rate_text(double bytes_per_second);
/// "1.25 M", "312 k", "17".
std::string count_text(double number);
/// "312 ns", "4.1 us", "38.0 ms", "2.50 s".
std::string time_text(base::duration span);
double to_ms(base::duration span) noexcept;
double to_seconds(base::duration span) noexcept;

} // namespace actor_rdma::bench
