// SPDX-License-Identifier: Apache-2.0
// Event to log line.
#include "actors/observer.hpp"

#include <fmt/format.h>

namespace actor_rdma::actors {

void observer::emit(observe::event what, base::level at) {
  if (sink_)
    sink_->on_event(what);
  if (!base::enabled(at))
    return;
  {
    std::lock_guard lock(mutex_);
    if (!limiter_.allow(what.at))
      return;
    if (const auto n = limiter_.take_suppressed(); n > 0)
      base::log(at, "actors", "{} lines were held back", n);
  }
  if (what.kind == observe::event_kind::transition) {
    base::log(at, "actors", "{}: {} -> {} ({})", what.subject, what.from, what.to, what.detail);
    return;
  }
  const auto value = what.value != 0 ? fmt::format(" [{:#x}]", what.value) : "";
  const auto trace = what.trace != 0 ? fmt::format(" (batch {})", what.trace) : "";
  base::log(at, "actors", "{}: {}: {}{}{}", what.subject, to_string(what.kind), what.detail, value, trace);
}

} // namespace actor_rdma::actors
