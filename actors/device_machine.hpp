// SPDX-License-Identifier: Apache-2.0
// The machine of one RDMA device: it follows the port's level, and it is opened again after it was lost.
// Every state but RETIRED has a deadline, after which the port is read again, so that a lost async event
// costs one period.
#pragma once

#include "base/state_table.hpp"

#include <cstdint>

namespace actor_rdma::actors {

enum class device_state : std::uint8_t {
  active,     ///< port up, address known and published, serving
  paused,     ///< port down or unreadable
  draining,   ///< being closed, or everything of a lost one being released: waits for its QPs first
  rebuilding, ///< reading the port, or a lost one is being opened again: not yet known whether it serves
  retired,    ///< closed
  count
};

enum class device_event : std::uint8_t {
  address_ready,   ///< the port is up and its address known
  port_down,       ///< async event, or what a reading found
  port_up,         ///< async event: a hint to read
  address_changed, ///< a reading found another GID, LID or MTU
  read_failed,     ///< the port could not be read
  lost,            ///< DEVICE_FATAL, CQ error, or the event fd is dead
  drain,           ///< somebody closes it
  drained,         ///< no QP is left
  deadline,        ///< the period between readings is over
  released,        ///< everything of a lost device has been released
  open_due,        ///< the next attempt to open it is due
  open_failed,     ///< it was not there, or something of it could not be made
  opened,          ///< it is open, with nothing registered on it
  memory_ready,    ///< all memory is registered on it, and its new keys are published
  count
};

enum class device_action : std::uint8_t {
  none,
  announce,
  read_port,
  announce_and_read,
  drain,
  finish,
  open,
  open_later,
  count
};

const char* to_string(device_state s) noexcept;
const char* to_string(device_event e) noexcept;
const char* to_string(device_action a) noexcept;

using device_table = base::state_table<device_state, device_event, device_action>;

inline constexpr device_table device_machine{
    {device_state::active, device_event::address_ready, base::ignored{"the reading found what is known"}},
    {device_state::active, device_event::port_down, device_state::paused, device_action::announce},
    {device_state::active, device_event::port_up, device_state::active, device_action::read_port},
    {device_state::active, device_event::address_changed, device_state::rebuilding,
     device_action::announce_and_read},
    {device_state::active, device_event::read_failed,
     base::ignored{"one failed reading; the next follows in a period"}},
    {device_state::active, device_event::lost, device_state::draining, device_action::drain},
    {device_state::active, device_event::drain, device_state::draining, device_action::drain},
    {device_state::active, device_event::drained, base::ignored{"nothing drains"}},
    {device_state::active, device_event::deadline, device_state::active, device_action::read_port},
    {device_state::active, device_event::released, base::ignored{"nothing is being released"}},
    {device_state::active, device_event::open_due, base::ignored{"it is open"}},
    {device_state::active, device_event::open_failed, base::ignored{"it is open"}},
    {device_state::active, device_event::opened, base::ignored{"it is"}},
    {device_state::active, device_event::memory_ready, base::ignored{"it was before it served"}},
    {device_state::paused, device_event::address_ready, device_state::active, device_action::announce},
    {device_state::paused, device_event::port_down, base::ignored{"already down"}},
    {device_state::paused, device_event::port_up, device_state::rebuilding, device_action::read_port},
    {device_state::paused, device_event::address_changed,
     base::ignored{"nothing is published while it is down"}},
    {device_state::paused, device_event::read_failed,
     base::ignored{"it stays paused; the next reading follows in a period"}},
    {device_state::paused, device_event::lost, device_state::draining, device_action::drain},
    {device_state::paused, device_event::drain, device_state::draining, device_action::drain},
    {device_state::paused, device_event::drained, base::ignored{"nothing drains"}},
    {device_state::paused, device_event::deadline, device_state::paused, device_action::read_port},
    {device_state::paused, device_event::released, base::ignored{"nothing is being released"}},
    {device_state::paused, device_event::open_due, base::ignored{"it is open"}},
    {device_state::paused, device_event::open_failed, base::ignored{"it is open"}},
    {device_state::paused, device_event::opened, base::ignored{"it is"}},
    {device_state::paused, device_event::memory_ready, base::ignored{"it was before its port was read"}},
    {device_state::draining, device_event::address_ready, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::port_down, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::port_up, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::address_changed, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::read_failed, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::lost, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::drain, base::ignored{"it drains already"}},
    {device_state::draining, device_event::drained, device_state::retired, device_action::finish},
    {device_state::draining, device_event::deadline,
     base::ignored{"the wait for QPs is looked at by a timer of its own"}},
    {device_state::draining, device_event::released, device_state::rebuilding, device_action::open_later},
    {device_state::draining, device_event::open_due, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::open_failed, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::opened, base::ignored{"it is being closed"}},
    {device_state::draining, device_event::memory_ready, base::ignored{"it is being closed"}},
    {device_state::rebuilding, device_event::address_ready, device_state::active, device_action::announce},
    {device_state::rebuilding, device_event::port_down, device_state::paused, device_action::announce},
    {device_state::rebuilding, device_event::port_up, device_state::rebuilding, device_action::read_port},
    {device_state::rebuilding, device_event::address_changed, device_state::rebuilding,
     device_action::read_port},
    {device_state::rebuilding, device_event::read_failed, device_state::paused, device_action::announce},
    {device_state::rebuilding, device_event::lost, device_state::draining, device_action::drain},
    {device_state::rebuilding, device_event::drain, device_state::draining, device_action::drain},
    {device_state::rebuilding, device_event::drained, base::ignored{"nothing drains"}},
    {device_state::rebuilding, device_event::deadline, device_state::rebuilding, device_action::read_port},
    {device_state::rebuilding, device_event::released, base::ignored{"nothing is being released"}},
    {device_state::rebuilding, device_event::open_due, device_state::rebuilding, device_action::open},
    {device_state::rebuilding, device_event::open_failed, device_state::rebuilding,
     device_action::open_later},
    {device_state::rebuilding, device_event::opened, device_state::rebuilding, device_action::announce},
    {device_state::rebuilding, device_event::memory_ready, device_state::rebuilding,
     device_action::read_port},
    {device_state::retired, device_event::address_ready, base::ignored{"it is over"}},
    {device_state::retired, device_event::port_down, base::ignored{"it is over"}},
    {device_state::retired, device_event::port_up, base::ignored{"it is over"}},
    {device_state::retired, device_event::address_changed, base::ignored{"it is over"}},
    {device_state::retired, device_event::read_failed, base::ignored{"it is over"}},
    {device_state::retired, device_event::lost, base::ignored{"it is over"}},
    {device_state::retired, device_event::drain, base::ignored{"it is over"}},
    {device_state::retired, device_event::drained, base::ignored{"it is over"}},
    {device_state::retired, device_event::deadline, base::ignored{"it is over"}},
    {device_state::retired, device_event::released, base::ignored{"it is over"}},
    {device_state::retired, device_event::open_due, base::ignored{"it is over"}},
    {device_state::retired, device_event::open_failed, base::ignored{"it is over"}},
    {device_state::retired, device_event::opened, base::ignored{"it is over"}},
    {device_state::retired, device_event::memory_ready, base::ignored{"it is over"}},
};

} // namespace actor_rdma::actors
