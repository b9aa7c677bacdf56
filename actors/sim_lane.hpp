// SPDX-License-Identifier: Apache-2.0
// One simulated lane: what a real lane does in its turn, cut into jobs that the world chooses among. Internal
// to the simulation.
#pragma once

#include "actors/sim_world.hpp"

#include <deque>
#include <map>
#include <optional>

#include <caf/actor.hpp>

namespace actor_rdma::actors {

class sim_lane final : public lane_env {
public:
  sim_lane(sim_world& world, std::string name, std::uint64_t seed);

  base::time_point now() const noexcept override { return world_.now(); }
  base::duration lost_time() const noexcept override { return lost_; }
  deadline_id arm(base::time_point when, deadline_sink& sink, std::uint64_t token) override;
  bool cancel(deadline_id id) override;
  void cancel_all(const deadline_sink& sink) override;
  void watch_cq(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink) override;
  void unwatch_cq(ibv_cq* cq) override;
  void watch_fd(int fd, fd_sink& sink) override;
  void unwatch_fd(int fd) override;
  void run_slow(std::uint32_t queue, std::function<void()> work, std::function<void()> done) override;
  void post(std::function<void()> job) override { ring_.push_back(std::move(job)); }
  std::uint64_t random() override { return random_.next(); }
  caf::actor_system& system() override { return world_.system(); }
  void launched(const caf::actor& who) override { actors_.push_back(who); }
  void handling(const std::type_info& message) override {
    if (world_.handling)
      world_.handling(name_, message);
  }
  caf::execution_unit* unit() noexcept override { return nullptr; }

  /// Jobs that could run now; job `k` < jobs() is run by run(k).
  std::size_t jobs();
  void run(std::size_t k);
  std::optional<base::time_point> next_time() const;
  void may_have_changed() noexcept {
    if (!arrivals_)
      look_at_everything();
  }
  void look_when(std::function<std::uint64_t()> arrivals) { arrivals_ = std::move(arrivals); }
  void end_actors();
  /// Its actors are gone, and nothing that they watched is looked at any more.
  void forget() noexcept {
    cqs_.clear();
    fds_.clear();
    arrivals_ = nullptr;
  }
  bool has_actors() const noexcept { return !actors_.empty(); }
  /// A frozen lane runs nothing, as a stopped process; afterwards the time counts as lost.
  void set_frozen(bool on);
  bool is_frozen() const noexcept { return frozen_since_.has_value(); }
  const std::string& name() const noexcept { return name_; }

private:
  struct armed {
    deadline_sink* sink;
    std::uint64_t token;
  };
  struct watched_cq {
    ibv_cq* cq;
    cq_sink* sink;
    bool look;
  };
  struct watched_fd {
    int fd;
    fd_sink* sink;
    bool look;
  };
  struct slow_call {
    base::time_point starts;
    std::function<void()> work;
    std::function<void()> done;
  };
  using timer_key = std::pair<base::time_point, std::uint64_t>;

  void look_at_everything() noexcept;
  void poll(watched_cq& w);
  base::duration take_slow_time() const;

  sim_world& world_;
  std::string name_;
  base::rng random_;
  std::map<timer_key, armed> timers_;
  std::map<std::uint64_t, base::time_point> armed_at_;
  std::uint64_t next_timer_ = 1;
  std::vector<watched_cq> cqs_;
  std::vector<watched_fd> fds_;
  std::function<std::uint64_t()> arrivals_;
  std::uint64_t arrivals_seen_ = 0;
  std::deque<std::function<void()>> ring_;
  std::map<std::uint32_t, std::deque<slow_call>> slow_;
  std::vector<caf::actor> actors_;
  std::optional<base::time_point> frozen_since_;
  base::duration lost_{};
};

} // namespace actor_rdma::actors
