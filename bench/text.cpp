// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#include "bench/text.hpp"

#include <array>

#include <fmt/format.h>

namespace actor_rdma::bench {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string count_text(double number) {
  if (number >= 1e6)
    return fmt::format("{:.2f} M", number / 1e6);
  if (number >= 1e4)
    return fmt::format("{:.1f} k", number / 1e3);
  return fmt::format("{:.0f} ", number);
}

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second >= 1e9)
    return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
  if (bytes_per_second >= 1e6)
    return fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
  return fmt::format("{:.1f} kB/s", bytes_per_second / 1e3);
}

std::string time_text(base::duration span) {
  const auto ns = static_cast<double>(span.count());
  if (ns < 1e3)
    return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6)
    return fmt::format("{:.1f} us", ns / 1e3);
  if (ns < 1e9)
    return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

double to_ms(base::duration span) noexcept {
  return std::chrono::duration<double, std::milli>(span).count();
}

double to_seconds(base::duration span) noexcept {
  return std::chrono::duration<double>(span).count();
}

} // namespace actor_rdma::bench
