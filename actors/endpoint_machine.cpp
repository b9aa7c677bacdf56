// SPDX-License-Identifier: Apache-2.0
// Names of the endpoint machine's states, events and actions.
#include "actors/endpoint_machine.hpp"

namespace actor_rdma::actors {

const char* to_string(endpoint_state v) noexcept {
  switch (v) {
  case endpoint_state::active: return "ACTIVE";
  case endpoint_state::paused: return "PAUSED";
  case endpoint_state::draining: return "DRAINING";
  case endpoint_state::rebuilding: return "REBUILDING";
  case endpoint_state::retired: return "RETIRED";
  case endpoint_state::count: break;
  }
  return "?";
}

const char* to_string(endpoint_event v) noexcept {
  switch (v) {
  case endpoint_event::qp_usable: return "qp_usable";
  case endpoint_event::all_suspect: return "all_suspect";
  case endpoint_event::all_lost: return "all_lost";
  case endpoint_event::device_down: return "device_down";
  case endpoint_event::device_up: return "device_up";
  case endpoint_event::device_lost: return "device_lost";
  case endpoint_event::peer_connected: return "peer_connected";
  case endpoint_event::peer_lost: return "peer_lost";
  case endpoint_event::peer_dead: return "peer_dead";
  case endpoint_event::rejected: return "rejected";
  case endpoint_event::attempt_failed: return "attempt_failed";
  case endpoint_event::drain: return "drain";
  case endpoint_event::drained: return "drained";
  case endpoint_event::deadline: return "deadline";
  case endpoint_event::count: break;
  }
  return "?";
}

const char* to_string(endpoint_action v) noexcept {
  switch (v) {
  case endpoint_action::none: return "none";
  case endpoint_action::begin: return "begin";
  case endpoint_action::hold_qps: return "hold_qps";
  case endpoint_action::release_qps: return "release_qps";
  case endpoint_action::fence_qps: return "fence_qps";
  case endpoint_action::drain_qps: return "drain_qps";
  case endpoint_action::finish: return "finish";
  case endpoint_action::count: break;
  }
  return "?";
}

} // namespace actor_rdma::actors
