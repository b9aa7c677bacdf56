// SPDX-License-Identifier: Apache-2.0
// A device's view of its silent QPs: many of them at once are one event (breaker.hpp).
#include "actors/device.hpp"
#include "actors/qp.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::actors {

void device::qp_suspected() {
  const auto ms = [](base::duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::vector<breaker::silence> busy;
  for (const auto* q : qps_)
    if (q != nullptr && q->is_busy())
      busy.push_back(q->silence_of_peer());
  std::sort(busy.begin(), busy.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
  if (const auto found = breaker_.suspected(busy, env().now()))
    note(observe::event_kind::fences_put_off,
         fmt::format(
             "{} of {} busy peers fell silent within {} ms: it is the device or the fabric, and fences "
             "for silence wait for up to {} ms",
             found->silent, found->peers, ms(breaker::together), ms(config_.breaker_hold)),
         found->silent, base::level::warn);
}

base::time_point device::fence_at() {
  constexpr base::duration most_jitter = std::chrono::milliseconds{50};
  const auto jitter = env().random() % static_cast<std::uint64_t>(most_jitter.count());
  return breaker_.fence_at(env().now(), base::duration{static_cast<std::int64_t>(jitter)});
}

} // namespace actor_rdma::actors
