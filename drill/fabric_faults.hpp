// SPDX-License-Identifier: Apache-2.0
// Faults on devices of a fabric of the software NIC. They are remembered where the fabric does not say them,
// so that nobody expects traffic where there can be none.
#pragma once

#include "drill/device_faults.hpp"
#include "drill/scenario.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class fabric_faults final : public device_faults {
public:
  /// Both outlive it.
  fabric_faults(const scenario& what, verbs::soft::fabric& net) : what_(what), net_(net) {}

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
  double usual_host_memory(const std::string& host) const override;
  double usual_rate(const std::string& device) const override;
  done set_address(const std::string& device, bool present) override;
  done set_mac(const std::string& device, bool usual) override;
  done set_gid(const std::string& device, std::uint32_t index, const std::string& gid) override;
  done delete_gid(const std::string& device, std::uint32_t index) override;
  done move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) override;
  done set_mtu(const std::string& device, std::optional<std::uint32_t> bytes) override;
  done set_lid(const std::string& device, std::uint16_t lid) override;
  std::uint16_t usual_lid(const std::string& device) const override;
  done raise_event(const std::string& device, const std::string& event, std::uint32_t count) override;
  done add_rule(const std::string& text) override;
  done remove_rule(const std::string& text) override;

  /// "dev=a/soft0 peer=b dir=tx do=drop"; of all peers if none is named.
  static std::string rule_of_loss(const std::string& device, const std::string& direction,
                                  const std::string& peer);
  /// Whether a program was told that the device is lost though it is not: what it holds for released stays.
  bool was_called_lost(const std::string& device) const { return called_lost_.count(device) != 0; }

  /// Whether nothing that lasts is broken at either of them.
  bool can_carry(const std::string& from_device, const std::string& to_device) const;

private:
  struct rule_in_force {
    std::uint32_t id = 0;
    std::string text;
    verbs::soft::rule what;
  };
  bool is_ruled(const std::string& device) const;

  const scenario& what_;
  verbs::soft::fabric& net_;
  std::vector<rule_in_force> rules_;
  std::set<std::string> called_lost_;
  std::map<std::string, std::vector<verbs::soft::gid_row>> lost_addresses_;
  std::map<std::string, std::uint16_t> usual_lids_; ///< of devices whose LID was changed
};

} // namespace actor_rdma::drill
