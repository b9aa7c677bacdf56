// SPDX-License-Identifier: Apache-2.0
// One run of one scenario in real time, with the parts of the simulation's run: hosts come up and connect,
// traffic and faults take their course, every rail is tried, everything has to come to rest and is taken
// down. This is the conductor's side, on one thread. It records and never judges.
#pragma once

#include "base/random.hpp"
#include "base/sentinel.hpp"
#include "drill/facts.hpp"
#include "drill/fault_agenda.hpp"
#include "drill/real/event_loop.hpp"
#include "drill/real/memory_watch.hpp"
#include "drill/real/real_flow.hpp"
#include "drill/real/real_stage.hpp"
#include "drill/real/stop_signals.hpp"
#include "drill/runner.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class real_play {
public:
  real_play(const scenario& what, std::uint64_t seed, std::unique_ptr<real_devices> devices,
            const run_wishes& wishes, stop_signals& signals, run_facts& into);
  ~real_play();
  /// False when it could not come to its end; the facts say why.
  bool run();

private:
  struct rail {
    std::string from;
    std::string to;
    std::uint64_t sent_at_fault = 0;
    std::optional<base::time_point> carried;
  };
  using counters = std::vector<std::pair<std::string, std::uint64_t>>;

  base::duration now() const { return loop_.now() - zero_; }
  /// Transfers of the scenario.
  std::uint64_t ended() const {
    return std::accumulate(flows_.begin(), flows_.end(), std::uint64_t{0},
                           [](std::uint64_t n, const real_flow& f) { return n + f.ended(); });
  }
  bool give_up(std::string why);
  void fail(std::string why);
  /// False at `until`, and when the run has failed.
  bool turn_until(const std::function<bool()>& done, base::time_point until);
  void trace(base::duration at, const std::string& text);
  void look_at_log();
  void hear(const std::string& host, observe::event what);
  void made_qp(const std::string& device, base::time_point at);
  void each_flow(const std::function<void(real_flow&)>& what);

  void make_flows();
  void make_flow(const traffic_spec& spec, bool is_after_traffic);
  void make_rails(const traffic_spec& spec);
  void listen_to(real_host& host);
  std::size_t expected_qps() const;
  std::size_t usable_qps() const;
  bool come_up();
  void start_time();
  void plan();
  bool waits_for_process(const fault_spec& what, bool undo, base::time_point since,
                         std::function<void()> again);
  void begin_fault(const fault_spec& what, base::time_point since);
  void end_fault(const fault_spec& what, base::time_point since);
  void was_last_fault(base::duration at);
  void do_fault(const fault_spec& what, bool undo);
  void batch_ended();
  void sample_bytes(base::duration as_of);
  std::vector<real_devices::state> look_at_devices();
  counters count();
  bool main_part();
  void look_at_memory();
  void watch_rails();
  void look_at_rails();
  void end_message_faults();
  bool every_rail_carries();
  bool come_to_rest();
  void ask_actors();
  void ask_for_changes();
  bool take_down();

  const scenario& what_;
  run_facts& facts_;
  const bool traces_;
  const std::function<void(base::duration, std::uint64_t)> watcher_;
  stop_signals& signals_;
  event_loop loop_;
  real_stage stage_;
  base::rng random_;
  base::time_point zero_;
  std::deque<real_flow> flows_;       ///< of the scenario
  std::deque<real_flow> after_flows_; ///< of our own, one for each pair of hosts
  std::set<std::pair<std::string, std::string>> pairs_;
  std::map<std::string, std::set<std::string>> active_qps_; ///< by host
  std::vector<rail> rails_;
  fault_agenda agenda_;
  std::string failure_;
  bool shutting_down_ = false;
  counters at_start_;
  base::sentinel sentinel_;
  memory_watch memory_;
};

} // namespace actor_rdma::drill
