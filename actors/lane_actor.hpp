// SPDX-License-Identifier: Apache-2.0
// Base of every data-path actor: an event-based CAF actor that is bound to one lane for life. CAF cannot know
// an actor's lane, so enqueue and launch pass it on as the execution unit. In the simulation there is no lane
// and CAF's test coordinator runs the actor like any other, so that the same class works in virtual time.
#pragma once

#include "actors/lane_env.hpp"

#include <utility>

#include <caf/event_based_actor.hpp>

namespace actor_rdma::actors {

class lane_actor : public caf::event_based_actor {
public:
  lane_actor(caf::actor_config& cfg, lane_env& env) : event_based_actor(cfg), env_(env), unit_(env.unit()) {}

  using caf::event_based_actor::enqueue;
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* from) override {
    event_based_actor::enqueue(std::move(what), unit_ != nullptr ? unit_ : from);
  }
  void launch(caf::execution_unit* from, bool lazy, bool hide) override {
    event_based_actor::launch(unit_ != nullptr ? unit_ : from, lazy, hide);
  }

  const lane_env& own_lane() const noexcept { return env_; }

protected:
  lane_env& env() const noexcept { return env_; }

private:
  lane_env& env_;
  caf::execution_unit* unit_; // a copy, because enqueue comes from any thread
};

} // namespace actor_rdma::actors
