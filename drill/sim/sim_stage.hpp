// SPDX-License-Identifier: Apache-2.0
// The stage in the simulation: a cluster whose links, devices, control network and processes can be broken.
// It remembers what is broken, so that nobody expects traffic where there can be none.
#pragma once

#include "drill/fabric_faults.hpp"
#include "drill/scenario.hpp"
#include "drill/sim/cluster.hpp"
#include "drill/stage.hpp"

#include <functional>
#include <map>
#include <set>

namespace actor_rdma::drill {

class sim_stage final : public stage {
public:
  sim_stage(const scenario& what, std::uint64_t seed);

  device_faults& devices() override { return faults_; }
  process_state process_of(const std::string& host) const override;
  done revoke_memory(const std::string& traffic, bool on) override;
  done cut_control(const std::string& a, const std::string& b) override;
  done black_hole_control(const std::string& a, const std::string& b, bool on) override;
  done set_control_latency(const std::string& from, const std::string& to, base::duration by) override;
  base::duration usual_control_latency(const std::string& from, const std::string& to) const override;
  done refuse_dials(const std::string& host, bool on) override;
  done next_messages(const bootstrap::message_fault& what) override;
  std::optional<base::time_point> end_message_faults() override;
  done kill_host(const std::string& host) override;
  done restart_host(const std::string& host) override;
  done stop_host(const std::string& host) override;
  done fork_host(const std::string& host, base::duration lives) override;
  done limit_descriptors(const std::string& host, bool on) override;
  done freeze_host(const std::string& host, bool on) override;
  done churn_memory(const std::string& host) override;

  /// Whether every host started; if not there is nothing to play on.
  const done& opened() const noexcept { return opened_; }
  sim::cluster& cluster() noexcept { return cluster_; }
  sim::machine& host(const std::string& name) { return *machines_.at(name); }
  const std::map<std::string, sim::machine*>& hosts() const noexcept { return machines_; }
  /// Whether nothing that lasts keeps these two devices of these hosts from carrying traffic.
  bool can_carry(const std::string& from_device, const std::string& to_device) const;
  bool was_called_lost(const std::string& device) const { return faults_.was_called_lost(device); }
  /// How long the host was stopped after `since`.
  base::duration frozen_after(const std::string& host, base::time_point since) const;

  std::function<void(const sim::machine&)> killed;
  /// It was told to stop; and it has stopped, with what it could not release, a moment before it is gone.
  std::function<void(const sim::machine&)> stopping;
  std::function<void(const sim::machine&, const std::vector<std::string>& left)> stopped;
  std::function<void(const sim::machine&)> restarted;
  std::function<done(const std::string& traffic, bool on)> revoked;

private:
  struct freeze_span {
    base::time_point from;
    base::time_point to = base::time_never;
  };

  const scenario& what_;
  sim::cluster cluster_;
  fabric_faults faults_;
  done opened_;
  std::map<std::string, sim::machine*> machines_;
  std::set<std::pair<std::string, std::string>> holes_; ///< smaller name first
  std::set<std::string> refusing_;
  std::map<std::string, std::vector<freeze_span>> freezes_;
};

} // namespace actor_rdma::drill
