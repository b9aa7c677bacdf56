// SPDX-License-Identifier: Apache-2.0
// Names of the session machine's states, events and actions.
#include "actors/session_machine.hpp"

namespace actor_rdma::actors {

const char* to_string(session_state v) noexcept {
  switch (v) {
  case session_state::idle: return "IDLE";
  case session_state::dialling: return "DIALLING";
  case session_state::greeting: return "GREETING";
  case session_state::ready: return "READY";
  case session_state::stopped: return "STOPPED";
  case session_state::count: break;
  }
  return "?";
}

const char* to_string(session_event v) noexcept {
  switch (v) {
  case session_event::want: return "want";
  case session_event::linked: return "linked";
  case session_event::same_peer: return "same_peer";
  case session_event::new_peer: return "new_peer";
  case session_event::refused: return "refused";
  case session_event::closed: return "closed";
  case session_event::retry: return "retry";
  case session_event::stop: return "stop";
  case session_event::count: break;
  }
  return "?";
}

const char* to_string(session_action v) noexcept {
  switch (v) {
  case session_action::none: return "none";
  case session_action::dial: return "dial";
  case session_action::redial_later: return "redial_later";
  case session_action::greet: return "greet";
  case session_action::resume: return "resume";
  case session_action::link_down: return "link_down";
  case session_action::give_up: return "give_up";
  case session_action::finish: return "finish";
  case session_action::count: break;
  }
  return "?";
}

} // namespace actor_rdma::actors
