// SPDX-License-Identifier: Apache-2.0
//
// What the tests of many lanes stand on: a system whose actors are told to end before it is destroyed,
// however the test leaves, and two kinds of actor that write down what they see.
#pragma once

#include "actors/lane_actor.hpp"
#include "actors/lane_rig.hpp"
#include "actors/lane_scheduler.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/behavior.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

namespace actor_rdma::actors::testing {

inline lane_scheduler_options with_lanes(std::size_t count) {
  lane_scheduler_options result;
  result.lanes = count;
  return result;
}

class lane_system {
public:
  explicit lane_system(const lane_scheduler_options& options) {
    use_lanes(config_, options);
    system_ = std::make_unique<caf::actor_system>(config_);
  }
  ~lane_system() {
    for (auto& a : actors_)
      caf::anon_send_exit(a, caf::exit_reason::kill);
    actors_.clear();
  }
  lane_system(const lane_system&) = delete;
  lane_system& operator=(const lane_system&) = delete;

  caf::actor_system& get() { return *system_; }
  lane_scheduler& lanes() { return *lanes_of(*system_); }
  template <class Actor, class... Args>
  caf::actor spawn(std::size_t index, Args&&... args) {
    actors_.push_back(system_->spawn<Actor>(lanes().at(index), std::forward<Args>(args)...));
    return actors_.back();
  }

private:
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::vector<caf::actor> actors_;
};

/// What all actors of a test saw.
struct sightings {
  std::atomic<int> elsewhere{0}; ///< steps of an actor that were not on its lane
  std::atomic<int> handled{0};
  std::atomic<int> exits{0};
  std::atomic<int> destroyed{0};
  std::mutex mutex;
  std::set<std::pair<std::size_t, std::thread::id>> threads; ///< by lane
};

/// Counts numbers and passes them on as often as they say.
class relay final : public lane_actor {
public:
  relay(caf::actor_config& cfg, lane& home, sightings& seen)
      : lane_actor(cfg, home), home_(home), seen_(seen) {}
  ~relay() override { ++seen_.destroyed; }
  caf::behavior make_behavior() override {
    look();
    return {
        [this](caf::actor& next) {
          look();
          next_ = std::move(next);
        },
        [this](int hops) {
          look();
          ++seen_.handled;
          if (hops > 0)
            send(next_, hops - 1);
        },
    };
  }
  void on_exit() override {
    look();
    ++seen_.exits;
    next_ = nullptr;
  }

private:
  void look() {
    if (!home_.is_current())
      ++seen_.elsewhere;
    if (last_ == std::this_thread::get_id())
      return;
    last_ = std::this_thread::get_id();
    std::lock_guard lock{seen_.mutex};
    seen_.threads.emplace(home_.index(), last_);
  }
  lane& home_;
  sightings& seen_;
  caf::actor next_;
  std::thread::id last_;
};

/// Never has nothing to do.
class endless final : public lane_actor {
public:
  endless(caf::actor_config& cfg, lane_env& home, sightings& seen) : lane_actor(cfg, home), seen_(seen) {}
  ~endless() override { ++seen_.destroyed; }
  caf::behavior make_behavior() override {
    send(this, 0);
    return {[this](int n) {
      ++seen_.handled;
      send(this, n);
    }};
  }
  void on_exit() override { ++seen_.exits; }

private:
  sightings& seen_;
};

} // namespace actor_rdma::actors::testing
