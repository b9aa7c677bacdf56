// SPDX-License-Identifier: Apache-2.0
// The simulated implementation of lane_env: any number of lanes, of any number of nodes, in one process, one
// thread and virtual time. CAF actors run on CAF's test coordinator; ring entries, CQ polls, descriptors,
// deadlines and slow calls are jobs beside them, and which of the runnable jobs goes next is drawn from the
// seed. The same seed gives the same run, step by step, and the trace says so: it has names and times, never
// addresses.
#pragma once

#include "actors/lane_env.hpp"
#include "base/random.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

namespace caf::scheduler {
class test_coordinator;
}

namespace actor_rdma::actors {

class sim_lane;

/// Something outside the actors that has its own events: the software NIC's fabric, the control network.
class sim_source {
public:
  virtual ~sim_source() = default;
  virtual std::optional<base::time_point> next_event() const = 0;
  /// Makes one thing happen that is due at `now`; false if nothing is. What it did, for the trace, goes to
  /// `trace`.
  virtual bool happen(base::time_point now, std::string& trace) = 0;
};

class sim_world {
public:
  /// What the world runs at this moment. The two in the middle are what must not block on a real lane.
  enum class job : std::uint8_t { none, actor, lane, slow_call, source };

  explicit sim_world(std::uint64_t seed);
  ~sim_world();
  sim_world(const sim_world&) = delete;
  sim_world& operator=(const sim_world&) = delete;

  /// Ends every actor that is left, so that a failed check never leaves an actor system waiting for its
  /// actors. What the actors refer to may go after this, and handles of actors must go before the world does.
  void end();
  base::manual_clock& clock() noexcept { return clock_; }
  base::time_point now() const noexcept { return clock_.now(); }
  caf::actor_system& system() noexcept { return *system_; }
  lane_env& make_lane(const std::string& name);
  /// The lane looks at what it watches only when `arrivals` gives another number than before, not after
  /// whatever anybody did: for its device to say. What is asked has to live as long as the lane's actors.
  void look_when(const lane_env& lane, std::function<std::uint64_t()> arrivals);
  /// A stopped process: nothing of the lane runs, its actors included, until it is thawed.
  void freeze(const lane_env& lane, bool on);
  /// A killed process: the lane's actors end at once, without a word to anybody; what they own is the
  /// caller's to destroy.
  void kill(const lane_env& lane);
  job running() const noexcept { return running_; }
  /// Of the lane whose job is running; empty if none is.
  const std::string& running_on() const noexcept;
  /// How much longer than usual the slow call that has just run would take, asked once before and once after
  /// it; none if it is not set. Its end comes so much later, and what is behind it on its queue begins then.
  std::function<base::duration()> take_slow_time;
  /// Called before each deadline is armed, if it is set; what it throws leaves arm().
  std::function<void()> arming;
  /// Called before each message is handled, with the lane's name, if it is set; what it throws leaves the
  /// handler.
  std::function<void(const std::string& lane, const std::type_info& message)> handling;
  void add_source(std::shared_ptr<sim_source> source) { sources_.push_back(std::move(source)); }
  /// Runs `action` at virtual time `at`: faults, submissions.
  void at(base::time_point at, std::function<void()> action);

  /// One job, or one jump of the clock to the next event. False when nothing is left to happen.
  bool step();
  /// Steps until `done` says so; false if `until` comes first or nothing is left to happen.
  bool run_until(const std::function<bool()>& done, base::time_point until);
  void run_for(base::duration span);

  void trace(const std::string& line);
  /// Only about so many of the last lines are kept; 0: all.
  void keep_lines(std::size_t about) noexcept { keep_lines_ = about; }
  const std::vector<std::string>& lines() const noexcept { return trace_; }
  /// Of every choice and every line.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  std::uint64_t steps() const noexcept { return steps_; }

private:
  friend class sim_lane;
  struct choice {
    enum class kind : std::uint8_t { actor, lane, source } what;
    std::size_t index;
    std::size_t detail;
  };
  struct planned {
    base::time_point at;
    std::uint64_t order;
    std::function<void()> action;
  };

  void mix(std::uint64_t value) noexcept;
  bool run_planned();
  std::optional<base::time_point> next_time() const;
  void run_actor(std::size_t index);
  void set_running(job what, const sim_lane* where) noexcept {
    running_ = what;
    running_on_ = where;
  }
  bool may_run(std::size_t actor_job) const;
  sim_lane& known(const lane_env& lane) const;
  void everything_may_have_changed() noexcept;

  base::manual_clock clock_;
  base::rng random_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* jobs_ = nullptr;
  std::vector<std::unique_ptr<sim_lane>> lanes_;
  std::vector<std::shared_ptr<sim_source>> sources_;
  std::vector<planned> plan_; ///< sorted by time, then order
  std::uint64_t next_order_ = 0;
  std::size_t frozen_ = 0; ///< lanes
  std::size_t keep_lines_ = 0;
  job running_ = job::none;
  const sim_lane* running_on_ = nullptr;
  std::vector<std::string> trace_;
  std::uint64_t fingerprint_ = 14695981039346656037ull;
  std::uint64_t steps_ = 0;
};

} // namespace actor_rdma::actors
