// SPDX-License-Identifier: Apache-2.0
// One run of one scenario in the simulation, from nothing to nothing: hosts come up and connect, traffic and
// faults take their course, then every rail is tried, everything has to come to rest, and all of it is taken
// down again. It records and never judges.
#pragma once

#include "base/random.hpp"
#include "drill/facts.hpp"
#include "drill/fault_agenda.hpp"
#include "drill/runner.hpp"
#include "drill/sim/flow.hpp"
#include "drill/sim/sim_stage.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

namespace actor_rdma::drill {

class play {
public:
  play(const scenario& what, std::uint64_t seed, const run_wishes& wishes, run_facts& into);
  ~play();
  /// False when it could not come to its end; the facts say why.
  bool run();
  void log_line(std::string_view text) { facts_.log.push_back({now(), std::string{text}}); }

private:
  struct rail {
    std::string from;
    std::string to;
    std::uint64_t sent_at_fault = 0;
    std::optional<base::time_point> carried;
  };
  using counters = std::vector<std::pair<std::string, std::uint64_t>>;

  base::duration now() { return stage_.cluster().now() - zero_; }
  bool give_up(std::string why);
  /// Steps until `done`, with everything that has to be looked at on the way; false at `until`.
  bool step_until(const std::function<bool()>& done, base::time_point until);
  void look();
  void look_at_log();
  void look_at_pace();
  void hear(const std::string& host, const observe::event& what);

  void make_flows();
  std::size_t expected_qps() const;
  bool come_up();
  void plan();
  void begin_fault(const fault_spec& what);
  void was_last_fault(base::duration at);
  void do_fault(const fault_spec& what, bool undo);
  void batch_ended();
  void sample_bytes(base::duration as_of);
  counters count();
  bool main_part();
  void watch_rails();
  void look_at_rails();
  void end_message_faults();
  bool every_rail_carries();
  bool come_to_rest();
  bool take_down();

  const scenario& what_;
  run_facts& facts_;
  sim_stage stage_;
  base::rng random_;
  base::time_point zero_{};
  std::deque<flow> flows_;                                  ///< of the scenario
  std::deque<flow> after_flows_;                            ///< of our own, one for each pair of hosts
  std::map<std::string, std::set<std::string>> active_qps_; ///< of initiators, by host
  std::vector<rail> rails_;
  fault_agenda agenda_;
  std::string failure_; ///< of a fault
  bool shutting_down_ = false;
  std::uint64_t log_next_ = 0;
  base::time_point pace_since_{};
  std::uint64_t pace_steps_ = 0;
  std::uint64_t pace_ended_ = 0;
  counters at_start_;
};

} // namespace actor_rdma::drill
