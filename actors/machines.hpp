// SPDX-License-Identifier: Apache-2.0
// The machines of all actors, as the actors use them: a state that starts in the machine's first state,
// recorded transitions, and their part of a snapshot.
#pragma once

#include "actors/device_machine.hpp"
#include "actors/endpoint_machine.hpp"
#include "actors/qp_machine.hpp"
#include "actors/session_machine.hpp"
#include "base/state_table.hpp"
#include "observe/recorder.hpp"
#include "observe/snapshot.hpp"

namespace actor_rdma::actors {

/// A machine with its flight recorder.
template <const auto& Table>
class recorded_machine {
public:
  using machine_type = base::machine<Table>;
  using state_type = typename machine_type::state_type;
  using event_type = typename machine_type::event_type;

  recorded_machine(state_type initial, base::time_point now) noexcept : machine_(initial, now) {}

  auto apply(event_type event, base::time_point now) {
    const auto result = machine_.apply(event, now);
    recorder_.add(now, result.is_ignored() ? observe::entry_kind::ignored : observe::entry_kind::transition,
                  static_cast<std::uint8_t>(result.from), static_cast<std::uint8_t>(result.to),
                  static_cast<std::uint8_t>(event));
    return result;
  }
  state_type state() const noexcept { return machine_.state(); }
  observe::recorder& recorder() noexcept { return recorder_; }

  void fill(observe::actor_snapshot& s, base::time_point now) const {
    s.state = to_string(machine_.state());
    s.age = now - machine_.entered_at();
    s.ignored_events = machine_.ignored_total();
    recorder_.each([&](const observe::recorder_entry& e) {
      if (e.kind == observe::entry_kind::transition && e.from != e.to)
        s.last.push_back(
            {base::time_point{base::duration{e.at_ns}}, to_string(static_cast<state_type>(e.from)),
             to_string(static_cast<state_type>(e.to)), to_string(static_cast<event_type>(e.event))});
    });
  }

private:
  machine_type machine_;
  observe::recorder recorder_;
};

} // namespace actor_rdma::actors
