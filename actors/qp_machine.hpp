// SPDX-License-Identifier: Apache-2.0
// The machine of one queue pair. ACTIVE and PAUSED are RTS, DRAINING is ERR; REBUILDING is a new ibv_qp on
// its way from RESET to RTS (ibv_modify_qp(3)). WRs are out only in ACTIVE, PAUSED and DRAINING, and their
// clock runs in all three.
#pragma once

#include "base/state_table.hpp"

#include <cstdint>

namespace actor_rdma::actors {

enum class qp_state : std::uint8_t {
  active,     ///< RTS, takes work
  paused,     ///< RTS, takes no work: suspect, or held by its rail
  draining,   ///< ERR, flushing; destroyed at its deadline
  rebuilding, ///< no QP, or a new one below RTS, or one that has not answered its probe
  retired,    ///< gone
  count
};

enum class qp_event : std::uint8_t {
  ready,           ///< connected and, at the initiator, probed
  attempt_failed,  ///< the attempt is over and nothing of it is left here
  stall,           ///< no completion for the stall limit
  hold,            ///< its rail rests
  resume,          ///< it made progress, or answered a probe
  fence,           ///< somebody decided that it must be fenced
  wr_error,        ///< a WR ended with an error: the device moved the QP to ERR
  fenced,          ///< the local fence is proven
  fenced_for_good, ///< the same, and it is not needed any more
  retire,          ///< it is not needed any more
  deadline,        ///< the attempt, the suspicion or the drain took too long
  count
};

enum class qp_action : std::uint8_t {
  none,
  offer,
  suspect,
  withhold,
  drain,
  destroy,
  abandon,
  report_failed,
  report_fenced,
  finish,
  count
};

const char* to_string(qp_state s) noexcept;
const char* to_string(qp_event e) noexcept;
const char* to_string(qp_action a) noexcept;

using qp_table = base::state_table<qp_state, qp_event, qp_action>;

inline constexpr qp_table qp_machine{
    {qp_state::active, qp_event::ready, base::ignored{"it is"}},
    {qp_state::active, qp_event::attempt_failed, base::ignored{"no attempt is under way"}},
    {qp_state::active, qp_event::stall, qp_state::paused, qp_action::suspect},
    {qp_state::active, qp_event::hold, qp_state::paused, qp_action::withhold},
    {qp_state::active, qp_event::resume, base::ignored{"it takes work"}},
    {qp_state::active, qp_event::fence, qp_state::draining, qp_action::drain},
    {qp_state::active, qp_event::wr_error, qp_state::draining, qp_action::drain},
    {qp_state::active, qp_event::fenced, base::ignored{"nothing drains"}},
    {qp_state::active, qp_event::fenced_for_good, base::ignored{"nothing drains"}},
    {qp_state::active, qp_event::retire, qp_state::draining, qp_action::drain},
    {qp_state::active, qp_event::deadline, base::ignored{"ACTIVE has none but the stall clock"}},
    {qp_state::paused, qp_event::ready, base::ignored{"it is connected already"}},
    {qp_state::paused, qp_event::attempt_failed, base::ignored{"no attempt is under way"}},
    {qp_state::paused, qp_event::stall, qp_state::paused, qp_action::suspect},
    {qp_state::paused, qp_event::hold, qp_state::paused, qp_action::withhold},
    {qp_state::paused, qp_event::resume, qp_state::active, qp_action::offer},
    {qp_state::paused, qp_event::fence, qp_state::draining, qp_action::drain},
    {qp_state::paused, qp_event::wr_error, qp_state::draining, qp_action::drain},
    {qp_state::paused, qp_event::fenced, base::ignored{"nothing drains"}},
    {qp_state::paused, qp_event::fenced_for_good, base::ignored{"nothing drains"}},
    {qp_state::paused, qp_event::retire, qp_state::draining, qp_action::drain},
    {qp_state::paused, qp_event::deadline, qp_state::draining, qp_action::drain},
    {qp_state::draining, qp_event::ready, base::ignored{"it is going"}},
    {qp_state::draining, qp_event::attempt_failed, base::ignored{"no attempt is under way"}},
    {qp_state::draining, qp_event::stall, base::ignored{"the drain has a deadline"}},
    {qp_state::draining, qp_event::hold, base::ignored{"it takes no work"}},
    {qp_state::draining, qp_event::resume, base::ignored{"it is going"}},
    {qp_state::draining, qp_event::fence, base::ignored{"it drains already"}},
    {qp_state::draining, qp_event::wr_error, base::ignored{"flushes are expected"}},
    {qp_state::draining, qp_event::fenced, qp_state::rebuilding, qp_action::report_fenced},
    {qp_state::draining, qp_event::fenced_for_good, qp_state::retired, qp_action::finish},
    {qp_state::draining, qp_event::retire, base::ignored{"it drains already, and goes for good then"}},
    {qp_state::draining, qp_event::deadline, qp_state::draining, qp_action::destroy},
    {qp_state::rebuilding, qp_event::ready, qp_state::active, qp_action::offer},
    {qp_state::rebuilding, qp_event::attempt_failed, qp_state::rebuilding, qp_action::report_failed},
    {qp_state::rebuilding, qp_event::stall,
     base::ignored{"nothing but the probe is posted, which has its own deadline"}},
    {qp_state::rebuilding, qp_event::hold, base::ignored{"attempts wait for the endpoint"}},
    {qp_state::rebuilding, qp_event::resume, base::ignored{"attempts wait for the endpoint"}},
    {qp_state::rebuilding, qp_event::fence, qp_state::rebuilding, qp_action::abandon},
    {qp_state::rebuilding, qp_event::wr_error, qp_state::rebuilding, qp_action::abandon},
    {qp_state::rebuilding, qp_event::fenced, base::ignored{"nothing drains"}},
    {qp_state::rebuilding, qp_event::fenced_for_good, base::ignored{"nothing drains"}},
    {qp_state::rebuilding, qp_event::retire, qp_state::draining, qp_action::destroy},
    {qp_state::rebuilding, qp_event::deadline, qp_state::rebuilding, qp_action::abandon},
    {qp_state::retired, qp_event::ready, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::attempt_failed, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::stall, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::hold, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::resume, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::fence, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::wr_error, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::fenced, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::fenced_for_good, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::retire, base::ignored{"it is over"}},
    {qp_state::retired, qp_event::deadline, base::ignored{"it is over"}},
};

} // namespace actor_rdma::actors
