// SPDX-License-Identifier: Apache-2.0
// One counter per kind of event.
#include "bench/health.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace actor_rdma::bench {

bool is_made_qp(const observe::event& what) {
  return what.kind == observe::event_kind::transition && what.from == "REBUILDING" && what.to == "ACTIVE" &&
         what.subject.find('#') != std::string::npos;
}

std::string to_text(const health& what) {
  return fmt::format(
      "{} QPs suspected ({} false alarms), {} WR errors, {} QPs fenced, {} rebuilt, {} peers and {} devices "
      "lost, longest lane gap {:.0f} ms",
      what.suspected, what.false_alarms, what.wr_errors, what.fenced, what.rebuilt, what.peers_lost,
      what.devices_lost, static_cast<double>(what.lane_gap_max_ns) / 1e6);
}

void health_watch::on_event(const observe::event& what) {
  {
    std::lock_guard lock(mutex_);
    switch (what.kind) {
    case observe::event_kind::stall_suspected: ++counts_.suspected; break;
    case observe::event_kind::false_alarm: ++counts_.false_alarms; break;
    case observe::event_kind::fenced: ++counts_.fenced; break;
    case observe::event_kind::wr_error: ++counts_.wr_errors; break;
    case observe::event_kind::peer_lost: ++counts_.peers_lost; break;
    case observe::event_kind::device_lost: ++counts_.devices_lost; break;
    case observe::event_kind::lane_gap:
      counts_.lane_gap_max_ns = std::max(counts_.lane_gap_max_ns, what.value);
      break;
    case observe::event_kind::transition:
      if (is_made_qp(what) && !made_.insert(what.subject).second)
        ++counts_.rebuilt;
      break;
    default: break;
    }
  }
  if (next_)
    next_->on_event(what);
}

health health_watch::so_far() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

} // namespace actor_rdma::bench
