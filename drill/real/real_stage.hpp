// SPDX-License-Identifier: Apache-2.0
// The stage in real time: devices, one process for each host, and TCP proxies on
// those control connections that a fault of the scenario speaks of. It remembers what is broken.
#pragma once

#include "drill/real/event_loop.hpp"
#include "drill/real/real_devices.hpp"
#include "drill/real/real_host.hpp"
#include "drill/real/tcp_proxy.hpp"
#include "drill/scenario.hpp"
#include "drill/stage.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace actor_rdma::drill {

class real_stage final : public stage {
public:
  real_stage(const scenario& what, std::unique_ptr<real_devices> devices, event_loop& loop);
  /// Kills what still runs, then lets the devices go.
  ~real_stage() override;

  /// Opens the devices and starts a process for each host, which inherits these descriptors.
  done open(const std::function<std::vector<int>(const real_host&)>& descriptors);
  /// The first process of the host is ready: what stands before its address may be made.
  void is_listening(const real_host& host);
  /// Where `from` reaches `to`.
  std::string dial(const real_host& from, const real_host& to) const;
  /// "127.0.0.1:35479" becomes "b:35479", wherever that is b or leads to it, and devices have the names of
  /// the scenario: as the simulation says it.
  void use_names_of_scenario(std::string& text) const;

  device_faults& devices() override { return devices_->faults(); }
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

  /// Nothing that was broken stands between these two devices now.
  bool can_carry(const std::string& from_device, const std::string& to_device) const;
  real_devices& nics() noexcept { return *devices_; }
  const std::map<std::string, std::unique_ptr<real_host>>& hosts() const noexcept { return hosts_; }
  real_host& host(const std::string& name) const { return *hosts_.at(name); }

  std::function<void(const real_host&)> killed;
  /// It was told to stop; and it has stopped, with what it could not release.
  std::function<void(const real_host&)> stopping;
  std::function<void(const real_host&, const std::vector<std::string>& left)> stopped;
  std::function<done(const std::string& traffic, bool on)> revoked;

private:
  using pair = std::pair<std::string, std::string>;
  done start(real_host& host);
  tcp_proxy* proxy(const std::string& from, const std::string& to) const;
  void apply_latency(const std::string& from, const std::string& to);

  const scenario& what_;
  std::unique_ptr<real_devices> devices_;
  std::function<std::vector<int>(const real_host&)> descriptors_;
  std::map<std::string, std::unique_ptr<real_host>> hosts_;
  std::set<pair> proxied_;                             ///< who dials whom through a proxy
  std::map<pair, std::unique_ptr<tcp_proxy>> proxies_; ///< those that are there
  std::map<pair, base::duration> latency_;             ///< from whom to whom
  std::set<pair> holes_;                               ///< smaller name first
  std::set<std::string> refusing_;
  std::vector<std::shared_ptr<message_trap>> traps_;
};

} // namespace actor_rdma::drill
