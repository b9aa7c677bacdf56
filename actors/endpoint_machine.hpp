// SPDX-License-Identifier: Apache-2.0
// The machine of one endpoint: our side of one rail. ACTIVE means that at least one QP has answered a probe
// and takes work.
#pragma once

#include "base/state_table.hpp"

#include <cstdint>

namespace actor_rdma::actors {

enum class endpoint_state : std::uint8_t {
  active,     ///< at least one QP takes work
  paused,     ///< the rail rests: its device is down, or every QP is suspect
  draining,   ///< its QPs are being fenced for good
  rebuilding, ///< no QP is usable: bootstrap and probes under way
  retired,    ///< gone
  count
};

enum class endpoint_event : std::uint8_t {
  qp_usable,      ///< a QP became ACTIVE
  all_suspect,    ///< no QP is ACTIVE, some may still go on
  all_lost,       ///< no QP is ACTIVE or PAUSED
  device_down,    ///< its device left ACTIVE
  device_up,      ///< its device is ACTIVE
  device_lost,    ///< its device is gone, with all that was posted on it, until it is opened again
  peer_connected, ///< the control link is up
  peer_lost,      ///< the control link is down, the peer may live
  peer_dead,      ///< the peer's incarnation is gone
  rejected,       ///< the peer refused
  attempt_failed, ///< a QP could not be connected
  drain,          ///< it is not needed any more
  drained,        ///< every QP is RETIRED
  deadline,       ///< draining takes long
  count
};

enum class endpoint_action : std::uint8_t {
  none,
  begin,
  hold_qps,
  release_qps,
  fence_qps,
  drain_qps,
  finish,
  count
};

const char* to_string(endpoint_state s) noexcept;
const char* to_string(endpoint_event e) noexcept;
const char* to_string(endpoint_action a) noexcept;

using endpoint_table = base::state_table<endpoint_state, endpoint_event, endpoint_action>;

inline constexpr endpoint_table endpoint_machine{
    {endpoint_state::active, endpoint_event::qp_usable, base::ignored{"another QP joins"}},
    {endpoint_state::active, endpoint_event::all_suspect, endpoint_state::paused, endpoint_action::none},
    {endpoint_state::active, endpoint_event::all_lost, endpoint_state::rebuilding, endpoint_action::begin},
    {endpoint_state::active, endpoint_event::device_down, endpoint_state::paused, endpoint_action::hold_qps},
    {endpoint_state::active, endpoint_event::device_up, base::ignored{"it was not down"}},
    {endpoint_state::active, endpoint_event::device_lost, endpoint_state::paused, endpoint_action::fence_qps},
    {endpoint_state::active, endpoint_event::peer_connected, endpoint_state::active, endpoint_action::begin},
    {endpoint_state::active, endpoint_event::peer_lost, base::ignored{"the data path goes on"}},
    {endpoint_state::active, endpoint_event::peer_dead, endpoint_state::rebuilding, endpoint_action::none},
    {endpoint_state::active, endpoint_event::rejected,
     base::ignored{"the attempt of its QP ends and is tried again"}},
    {endpoint_state::active, endpoint_event::attempt_failed,
     base::ignored{"it is tried again after its back-off"}},
    {endpoint_state::active, endpoint_event::drain, endpoint_state::draining, endpoint_action::drain_qps},
    {endpoint_state::active, endpoint_event::drained, base::ignored{"nothing drains"}},
    {endpoint_state::active, endpoint_event::deadline, base::ignored{"only draining has one"}},
    {endpoint_state::paused, endpoint_event::qp_usable, endpoint_state::active, endpoint_action::none},
    {endpoint_state::paused, endpoint_event::all_suspect, base::ignored{"it rests already"}},
    {endpoint_state::paused, endpoint_event::all_lost, endpoint_state::rebuilding, endpoint_action::begin},
    {endpoint_state::paused, endpoint_event::device_down, endpoint_state::paused, endpoint_action::hold_qps},
    {endpoint_state::paused, endpoint_event::device_up, endpoint_state::rebuilding,
     endpoint_action::release_qps},
    {endpoint_state::paused, endpoint_event::device_lost, endpoint_state::paused, endpoint_action::fence_qps},
    {endpoint_state::paused, endpoint_event::peer_connected,
     base::ignored{"attempts wait for the device or for the suspects to end"}},
    {endpoint_state::paused, endpoint_event::peer_lost, base::ignored{"attempts wait for the link"}},
    {endpoint_state::paused, endpoint_event::peer_dead, endpoint_state::rebuilding, endpoint_action::none},
    {endpoint_state::paused, endpoint_event::rejected,
     base::ignored{"the attempt of its QP ends and is tried again"}},
    {endpoint_state::paused, endpoint_event::attempt_failed,
     base::ignored{"it is tried again after its back-off"}},
    {endpoint_state::paused, endpoint_event::drain, endpoint_state::draining, endpoint_action::drain_qps},
    {endpoint_state::paused, endpoint_event::drained, base::ignored{"nothing drains"}},
    {endpoint_state::paused, endpoint_event::deadline, base::ignored{"suspicion has a deadline in every QP"}},
    {endpoint_state::draining, endpoint_event::qp_usable, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::all_suspect, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::all_lost, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::device_down, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::device_up, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::device_lost, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::peer_connected, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::peer_lost, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::peer_dead, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::rejected, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::attempt_failed, base::ignored{"it is going"}},
    {endpoint_state::draining, endpoint_event::drain, base::ignored{"it drains already"}},
    {endpoint_state::draining, endpoint_event::drained, endpoint_state::retired, endpoint_action::finish},
    {endpoint_state::draining, endpoint_event::deadline, endpoint_state::draining,
     endpoint_action::drain_qps},
    {endpoint_state::rebuilding, endpoint_event::qp_usable, endpoint_state::active, endpoint_action::none},
    {endpoint_state::rebuilding, endpoint_event::all_suspect, base::ignored{"no QP was usable"}},
    {endpoint_state::rebuilding, endpoint_event::all_lost, base::ignored{"no QP was usable"}},
    {endpoint_state::rebuilding, endpoint_event::device_down, endpoint_state::paused,
     endpoint_action::hold_qps},
    {endpoint_state::rebuilding, endpoint_event::device_up, endpoint_state::rebuilding,
     endpoint_action::begin},
    {endpoint_state::rebuilding, endpoint_event::device_lost, endpoint_state::paused,
     endpoint_action::fence_qps},
    {endpoint_state::rebuilding, endpoint_event::peer_connected, endpoint_state::rebuilding,
     endpoint_action::begin},
    {endpoint_state::rebuilding, endpoint_event::peer_lost, base::ignored{"attempts wait for the link"}},
    {endpoint_state::rebuilding, endpoint_event::peer_dead, base::ignored{"there is nothing to lose"}},
    {endpoint_state::rebuilding, endpoint_event::rejected,
     base::ignored{"the attempt of its QP ends and is tried again"}},
    {endpoint_state::rebuilding, endpoint_event::attempt_failed,
     base::ignored{"it is tried again after its back-off"}},
    {endpoint_state::rebuilding, endpoint_event::drain, endpoint_state::draining, endpoint_action::drain_qps},
    {endpoint_state::rebuilding, endpoint_event::drained, base::ignored{"nothing drains"}},
    {endpoint_state::rebuilding, endpoint_event::deadline,
     base::ignored{"attempts have deadlines of their own"}},
    {endpoint_state::retired, endpoint_event::qp_usable, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::all_suspect, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::all_lost, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::device_down, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::device_up, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::device_lost, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::peer_connected, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::peer_lost, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::peer_dead, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::rejected, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::attempt_failed, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::drain, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::drained, base::ignored{"it is over"}},
    {endpoint_state::retired, endpoint_event::deadline, base::ignored{"it is over"}},
};

} // namespace actor_rdma::actors
