// SPDX-License-Identifier: Apache-2.0
// The last few refusals of each source.
#include "actors/refusal_budget.hpp"

#include <algorithm>

namespace actor_rdma::actors {

bool refusal_budget::refused(const source& who, base::time_point now) {
  const bool before = is_barred(who, now);
  if (refusals_.size() >= most_sources && refusals_.count(who) == 0)
    refusals_.erase(std::min_element(refusals_.begin(), refusals_.end(), [](const auto& a, const auto& b) {
      return a.second.back() < b.second.back();
    }));
  auto& times = refusals_[who];
  times.push_back(now);
  if (times.size() > allowed)
    times.pop_front();
  return !before && is_barred(who, now);
}

bool refusal_budget::is_barred(const source& who, base::time_point now) const {
  const auto at = refusals_.find(who);
  return at != refusals_.end() && at->second.size() >= allowed && now - at->second.front() < window;
}

} // namespace actor_rdma::actors
