// SPDX-License-Identifier: Apache-2.0
// Names of the device machine's states, events and actions.
#include "actors/device_machine.hpp"

namespace actor_rdma::actors {

const char* to_string(device_state v) noexcept {
  switch (v) {
  case device_state::active: return "ACTIVE";
  case device_state::paused: return "PAUSED";
  case device_state::draining: return "DRAINING";
  case device_state::rebuilding: return "REBUILDING";
  case device_state::retired: return "RETIRED";
  case device_state::count: break;
  }
  return "?";
}

const char* to_string(device_event v) noexcept {
  switch (v) {
  case device_event::address_ready: return "address_ready";
  case device_event::port_down: return "port_down";
  case device_event::port_up: return "port_up";
  case device_event::address_changed: return "address_changed";
  case device_event::read_failed: return "read_failed";
  case device_event::lost: return "lost";
  case device_event::drain: return "drain";
  case device_event::drained: return "drained";
  case device_event::deadline: return "deadline";
  case device_event::released: return "released";
  case device_event::open_due: return "open_due";
  case device_event::open_failed: return "open_failed";
  case device_event::opened: return "opened";
  case device_event::memory_ready: return "memory_ready";
  case device_event::count: break;
  }
  return "?";
}

const char* to_string(device_action v) noexcept {
  switch (v) {
  case device_action::none: return "none";
  case device_action::announce: return "announce";
  case device_action::read_port: return "read_port";
  case device_action::announce_and_read: return "announce_and_read";
  case device_action::drain: return "drain";
  case device_action::finish: return "finish";
  case device_action::open: return "open";
  case device_action::open_later: return "open_later";
  case device_action::count: break;
  }
  return "?";
}

} // namespace actor_rdma::actors
