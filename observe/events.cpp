// SPDX-License-Identifier: Apache-2.0
// Names of event kinds.
#include "observe/events.hpp"

namespace actor_rdma::observe {

const char* to_string(event_kind kind) noexcept {
  switch (kind) {
  case event_kind::transition: return "transition";
  case event_kind::stall_suspected: return "stall suspected";
  case event_kind::false_alarm: return "false alarm";
  case event_kind::fences_put_off: return "fences put off";
  case event_kind::reissued: return "reissued";
  case event_kind::fenced: return "fenced";
  case event_kind::remote_fence: return "remote fence";
  case event_kind::quarantined: return "quarantined";
  case event_kind::peer_up: return "peer up";
  case event_kind::peer_lost: return "peer lost";
  case event_kind::peer_dead: return "peer dead";
  case event_kind::rejected: return "rejected";
  case event_kind::attempt_failed: return "attempt failed";
  case event_kind::wr_error: return "wr error";
  case event_kind::batch_failed: return "batch failed";
  case event_kind::stale_completion: return "stale completion";
  case event_kind::stuck: return "stuck";
  case event_kind::lane_gap: return "lane gap";
  case event_kind::notice_sent: return "notice sent";
  case event_kind::notice_delivered: return "notice delivered";
  case event_kind::notice_lost: return "notice lost";
  case event_kind::notice_received: return "notice received";
  case event_kind::barred: return "barred";
  case event_kind::memory_avoided: return "memory avoided";
  case event_kind::memory_reached: return "memory reached";
  case event_kind::device_lost: return "device lost";
  case event_kind::device_opened: return "device opened";
  case event_kind::internal_fault: return "internal fault";
  case event_kind::keys_refreshed: return "keys refreshed";
  case event_kind::address_chosen: return "address chosen";
  case event_kind::no_rail: return "no rail";
  case event_kind::less_room: return "less room";
  case event_kind::port_speed: return "port speed";
  }
  return "?";
}

} // namespace actor_rdma::observe
