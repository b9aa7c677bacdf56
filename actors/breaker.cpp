// SPDX-License-Identifier: Apache-2.0
// When many silences are one event.
#include "actors/breaker.hpp"

#include <algorithm>

namespace actor_rdma::actors {

std::optional<breaker::finding> breaker::suspected(std::span<const silence> busy,
                                                   base::time_point now) noexcept {
  if (hold_ <= base::duration::zero() || (opened_ && now - *opened_ < rest))
    return std::nullopt;
  finding f;
  for (auto at = busy.begin(); at != busy.end();) {
    const auto end = std::find_if(at, busy.end(), [&](const auto& s) { return s.peer != at->peer; });
    ++f.peers;
    f.silent += std::all_of(at, end, [&](const auto& s) { return s.suspected.has_value(); }) &&
                        std::any_of(at, end, [&](const auto& s) { return now - *s.suspected <= together; })
                    ? 1
                    : 0;
    at = end;
  }
  if (f.peers < least_peers || 2 * f.silent <= f.peers)
    return std::nullopt;
  opened_ = now;
  until_ = now + hold_;
  waiting_ = 0;
  return f;
}

base::time_point breaker::fence_at(base::time_point now, base::duration jitter) noexcept {
  return is_open(now) ? until_ + jitter + spacing * waiting_++ : now;
}

} // namespace actor_rdma::actors
