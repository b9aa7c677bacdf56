// SPDX-License-Identifier: Apache-2.0
// The stage in the simulation: a cluster whose links, devices, control network and processes can be broken.
// It remembers what is broken, so that nobody expects traffic where there can be none.
#pragma once

#include "drill/scenario.hpp"
#include "drill/sim/cluster.hpp"
#include "drill/stage.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <functional>
#include <map>
#include <set>

namespace actor_rdma::drill {

class sim_stage final : public stage {
public:
  sim_stage(const scenario& what, std::uint64_t seed);

  done set_link(const std::string& device, bool up, bool quietly) override;
  done set_hang(const std::string& device, verbs::soft::hang_mode mode) override;
  done set_delay(const std::string& device, base::duration by) override;
  done set_rate(const std::string& device, double gbit_s) override;
  double usual_rate(const std::string& device) const override;
  done set_gid(const std::string& device, std::uint32_t index, const std::string& gid) override;
  done delete_gid(const std::string& device, std::uint32_t index) override;
  done move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) override;
  done set_mtu(const std::string& device, std::uint32_t bytes) override;
  std::uint32_t usual_mtu(const std::string& device) const override;
  done revoke_memory(const std::string& traffic, bool on) override;
  done raise_event(const std::string& device, const std::string& event, std::uint32_t count) override;
  done add_rule(const std::string& text) override;
  done remove_rule(const std::string& text) override;
  done cut_control(const std::string& a, const std::string& b) override;
  done black_hole_control(const std::string& a, const std::string& b, bool on) override;
  done set_control_latency(const std::string& from, const std::string& to, base::duration by) override;
  base::duration usual_control_latency(const std::string& from, const std::string& to) const override;
  done refuse_dials(const std::string& host, bool on) override;
  done next_messages(const bootstrap::message_fault& what) override;
  done kill_host(const std::string& host) override;
  done restart_host(const std::string& host) override;
  done freeze_host(const std::string& host, bool on) override;
  done churn_memory(const std::string& host) override;

  sim::cluster& cluster() noexcept { return cluster_; }
  sim::machine& host(const std::string& name) { return *machines_.at(name); }
  const std::map<std::string, sim::machine*>& hosts() const noexcept { return machines_; }
  /// Whether nothing that lasts keeps these two devices of these hosts from carrying traffic.
  bool can_carry(const std::string& from_device, const std::string& to_device) const;
  /// Whether the device was said to be lost: a program need not use it again, and cannot release anything.
  bool is_lost(const std::string& device) const { return lost_.count(device) != 0; }
  /// How long the host was stopped after `since`.
  base::duration frozen_after(const std::string& host, base::time_point since) const;

  std::function<void(const sim::machine&)> killed;
  std::function<void(const sim::machine&)> restarted;
  std::function<done(const std::string& traffic, bool on)> revoked;

private:
  struct rule_in_force {
    std::uint32_t id = 0;
    std::string text;
    verbs::soft::rule what;
  };
  bool is_ruled(const std::string& device) const;

  struct freeze_span {
    base::time_point from;
    base::time_point to = base::time_never;
  };

  const scenario& what_;
  sim::cluster cluster_;
  std::map<std::string, sim::machine*> machines_;
  std::set<std::pair<std::string, std::string>> holes_; ///< smaller name first
  std::set<std::string> refusing_;
  std::vector<rule_in_force> rules_;
  std::set<std::string> lost_;
  std::map<std::string, std::vector<freeze_span>> freezes_;
};

} // namespace actor_rdma::drill
