// SPDX-License-Identifier: Apache-2.0
// Names of the qp machine's states, events and actions.
#include "actors/qp_machine.hpp"

namespace actor_rdma::actors {

const char* to_string(qp_state v) noexcept {
  switch (v) {
  case qp_state::active: return "ACTIVE";
  case qp_state::paused: return "PAUSED";
  case qp_state::draining: return "DRAINING";
  case qp_state::rebuilding: return "REBUILDING";
  case qp_state::retired: return "RETIRED";
  case qp_state::count: break;
  }
  return "?";
}

const char* to_string(qp_event v) noexcept {
  switch (v) {
  case qp_event::ready: return "ready";
  case qp_event::attempt_failed: return "attempt_failed";
  case qp_event::stall: return "stall";
  case qp_event::hold: return "hold";
  case qp_event::resume: return "resume";
  case qp_event::fence: return "fence";
  case qp_event::wr_error: return "wr_error";
  case qp_event::fenced: return "fenced";
  case qp_event::fenced_for_good: return "fenced_for_good";
  case qp_event::retire: return "retire";
  case qp_event::deadline: return "deadline";
  case qp_event::count: break;
  }
  return "?";
}

const char* to_string(qp_action v) noexcept {
  switch (v) {
  case qp_action::none: return "none";
  case qp_action::offer: return "offer";
  case qp_action::suspect: return "suspect";
  case qp_action::withhold: return "withhold";
  case qp_action::drain: return "drain";
  case qp_action::destroy: return "destroy";
  case qp_action::abandon: return "abandon";
  case qp_action::report_failed: return "report_failed";
  case qp_action::report_fenced: return "report_fenced";
  case qp_action::finish: return "finish";
  case qp_action::count: break;
  }
  return "?";
}

} // namespace actor_rdma::actors
