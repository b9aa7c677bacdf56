// SPDX-License-Identifier: Apache-2.0
// The part of a stage that is the software NIC's: whatever carries the hosts, their devices are those of one
// fabric. It remembers rules and devices that were called lost, so that nobody expects traffic where there
// can be none.
#pragma once

#include "drill/scenario.hpp"
#include "drill/stage.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class fabric_stage : public stage {
public:
  done set_link(const std::string& device, bool up, bool quietly) override;
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
  done set_gid(const std::string& device, std::uint32_t index, const std::string& gid) override;
  done delete_gid(const std::string& device, std::uint32_t index) override;
  done move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) override;
  done set_mtu(const std::string& device, std::uint32_t bytes) override;
  std::uint32_t usual_mtu(const std::string& device) const override;
  done set_lid(const std::string& device, std::uint16_t lid) override;
  std::uint16_t usual_lid(const std::string& device) const override;
  done raise_event(const std::string& device, const std::string& event, std::uint32_t count) override;
  done add_rule(const std::string& text) override;
  done remove_rule(const std::string& text) override;

  /// Whether a program was told that the device is lost though it is not: what it holds for released stays.
  bool was_called_lost(const std::string& device) const { return called_lost_.count(device) != 0; }

protected:
  explicit fabric_stage(const scenario& what) : what_(what) {}
  /// Whether nothing that lasts is broken at either of them.
  bool devices_can_carry(const std::string& from_device, const std::string& to_device) const;

  const scenario& what_;
  verbs::soft::fabric* net_ = nullptr; ///< set by who has it, before any fault

private:
  struct rule_in_force {
    std::uint32_t id = 0;
    std::string text;
    verbs::soft::rule what;
  };
  bool is_ruled(const std::string& device) const;

  std::vector<rule_in_force> rules_;
  std::set<std::string> called_lost_;
  std::map<std::string, std::uint16_t> usual_lids_; ///< of devices whose LID was changed
};

} // namespace actor_rdma::drill
