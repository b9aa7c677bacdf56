// SPDX-License-Identifier: Apache-2.0
// Figures that several checks need.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace actor_rdma::drill {

/// Nearest rank; nothing of nothing.
template <class T>
std::optional<T> percentile(std::vector<T> values, double p) {
  if (values.empty())
    return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const auto rank = std::clamp(std::ceil(p / 100 * n), 1.0, n);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

inline double in_ms(base::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

} // namespace actor_rdma::drill
