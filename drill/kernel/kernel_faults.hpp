// SPDX-License-Identifier: Apache-2.0
// Faults on devices of the kernel: what can be done to their interfaces and to the network. What only the
// software NIC can do is refused, with what can be had (drill/kernel/suits_kernel.hpp says so before a run).
#pragma once

#include "drill/device_faults.hpp"
#include "drill/kernel/kernel_network.hpp"

#include <map>
#include <set>
#include <string>

namespace actor_rdma::drill {

class kernel_faults final : public device_faults {
public:
  /// It outlives us.
  explicit kernel_faults(kernel_network& net) : net_(net) {}

  done set_link(const std::string& device, bool up, bool quietly) override;
  done set_cable(const std::string& device, bool plugged) override;
  done lose_packets(const std::string& device, const std::string& direction, const std::string& peer,
                    bool on) override;
  done set_hang(const std::string& device, verbs::soft::hang_mode mode) override;
  done set_lost(const std::string& device, bool on) override;
  done set_delay(const std::string& device, base::duration by) override;
  done set_rate(const std::string& device, double gbit_s, std::optional<std::uint32_t> member) override;
  done set_member(const std::string& device, std::uint32_t member, bool up,
                  std::optional<base::duration> leaves_after) override;
  done set_width(const std::string& device, std::uint32_t lanes, double lane_gbit_s) override;
  done set_host_memory(const std::string& host, double gbit_s) override;
  double usual_host_memory(const std::string&) const override { return 0; }
  double usual_rate(const std::string&) const override { return 0; }
  done raise_event(const std::string& device, const std::string& event, std::uint32_t count) override;
  done add_rule(const std::string& text) override;
  done remove_rule(const std::string& text) override;
  done set_address(const std::string& device, bool present) override;
  done set_mac(const std::string& device, bool usual) override;
  done set_gid(const std::string& device, std::uint32_t index, const std::string& gid) override;
  done delete_gid(const std::string& device, std::uint32_t index) override;
  done move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) override;
  done set_mtu(const std::string& device, std::optional<std::uint32_t> bytes) override;
  done set_lid(const std::string& device, std::uint16_t lid) override;
  std::uint16_t usual_lid(const std::string&) const override { return 0; }

  /// Nothing that lasts keeps it from carrying traffic.
  bool can_carry(const std::string& device) const;

private:
  /// What it does with the outcome of a fault that lasts: remembers it.
  done remember(const std::string& device, const std::string& what, bool is_broken, done outcome);

  kernel_network& net_;
  std::map<std::string, std::set<std::string>> broken_; ///< what is, by device
  std::map<std::string, std::string> usual_mac_;
  std::map<std::string, std::uint32_t> usual_mtu_; ///< of the interface
};

} // namespace actor_rdma::drill
