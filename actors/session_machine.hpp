// SPDX-License-Identifier: Apache-2.0
// The machine of the control link to a peer that we dialled. It never gives up by itself: what ends it is
// stop.
#pragma once

#include "base/state_table.hpp"

#include <cstdint>

namespace actor_rdma::actors {

enum class session_state : std::uint8_t {
  idle,     ///< nobody has asked for the peer
  dialling, ///< no link: dialling, or waiting to dial again
  greeting, ///< link up, hello sent
  ready,    ///< the peer has said who it is
  stopped,  ///< over
  count
};

enum class session_event : std::uint8_t {
  want,      ///< an import asks for the peer
  linked,    ///< the dialled link is up
  same_peer, ///< the incarnation that we know said hello
  new_peer,  ///< another incarnation said hello
  refused,   ///< nobody listens there, another process does, or the peer said goodbye
  closed,    ///< the link ended in another way, or the process that we know does not take it
  retry,     ///< time to dial again, or hello did not come in time
  stop,      ///< it is not needed any more
  count
};

enum class session_action : std::uint8_t {
  none,
  dial,
  redial_later,
  greet,
  resume,
  link_down,
  give_up,
  finish,
  count
};

const char* to_string(session_state s) noexcept;
const char* to_string(session_event e) noexcept;
const char* to_string(session_action a) noexcept;

using session_table = base::state_table<session_state, session_event, session_action>;

inline constexpr session_table session_machine{
    {session_state::idle, session_event::want, session_state::dialling, session_action::dial},
    {session_state::idle, session_event::linked, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::same_peer, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::new_peer, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::refused, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::closed, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::retry, base::ignored{"nothing was dialled"}},
    {session_state::idle, session_event::stop, session_state::stopped, session_action::finish},
    {session_state::dialling, session_event::want, base::ignored{"it is being dialled"}},
    {session_state::dialling, session_event::linked, session_state::greeting, session_action::greet},
    {session_state::dialling, session_event::same_peer, base::ignored{"hello comes after the link"}},
    {session_state::dialling, session_event::new_peer, base::ignored{"hello comes after the link"}},
    {session_state::dialling, session_event::refused, session_state::dialling, session_action::give_up},
    {session_state::dialling, session_event::closed, session_state::dialling, session_action::redial_later},
    {session_state::dialling, session_event::retry, session_state::dialling, session_action::dial},
    {session_state::dialling, session_event::stop, session_state::stopped, session_action::finish},
    {session_state::greeting, session_event::want, base::ignored{"it is being greeted"}},
    {session_state::greeting, session_event::linked, base::ignored{"it is linked"}},
    {session_state::greeting, session_event::same_peer, session_state::ready, session_action::resume},
    {session_state::greeting, session_event::new_peer, session_state::ready, session_action::resume},
    {session_state::greeting, session_event::refused, session_state::dialling, session_action::give_up},
    {session_state::greeting, session_event::closed, session_state::dialling, session_action::redial_later},
    {session_state::greeting, session_event::retry, session_state::dialling, session_action::dial},
    {session_state::greeting, session_event::stop, session_state::stopped, session_action::finish},
    {session_state::ready, session_event::want, base::ignored{"it is connected, its memory is on the way"}},
    {session_state::ready, session_event::linked, base::ignored{"it is linked"}},
    {session_state::ready, session_event::same_peer, base::ignored{"hello comes once"}},
    {session_state::ready, session_event::new_peer, base::ignored{"hello comes once"}},
    {session_state::ready, session_event::refused, session_state::dialling, session_action::give_up},
    {session_state::ready, session_event::closed, session_state::dialling, session_action::link_down},
    {session_state::ready, session_event::retry, base::ignored{"nothing waits"}},
    {session_state::ready, session_event::stop, session_state::stopped, session_action::finish},
    {session_state::stopped, session_event::want, base::ignored{"it is over"}},
    {session_state::stopped, session_event::linked, base::ignored{"it is over"}},
    {session_state::stopped, session_event::same_peer, base::ignored{"it is over"}},
    {session_state::stopped, session_event::new_peer, base::ignored{"it is over"}},
    {session_state::stopped, session_event::refused, base::ignored{"it is over"}},
    {session_state::stopped, session_event::closed, base::ignored{"it is over"}},
    {session_state::stopped, session_event::retry, base::ignored{"it is over"}},
    {session_state::stopped, session_event::stop, base::ignored{"it is over"}},
};

} // namespace actor_rdma::actors
