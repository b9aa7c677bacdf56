// SPDX-License-Identifier: Apache-2.0
// What a fault can do to RDMA devices and the network between them. Whose devices they are is known to who
// implements it: those of a fabric of the software NIC (drill/fabric_faults.hpp), or the kernel's
// (drill/kernel/kernel_faults.hpp), which do a part of this only. A call answers why it could not be done.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace actor_rdma::drill {

class device_faults {
public:
  virtual ~device_faults() = default;
  using done = base::expected<void>;

  virtual done set_link(const std::string& device, bool up, bool quietly) = 0;
  /// The other end of its cable, at the switch.
  virtual done set_cable(const std::string& device, bool plugged) = 0;
  /// Packets of a direction ("tx", "rx", "request", "ack") get lost, of all peers if none is named.
  virtual done lose_packets(const std::string& device, const std::string& direction, const std::string& peer,
                            bool on) = 0;
  virtual done set_hang(const std::string& device, verbs::soft::hang_mode mode) = 0;
  virtual done set_lost(const std::string& device, bool on) = 0;
  virtual done set_delay(const std::string& device, base::duration by) = 0;
  /// `member`: nothing is all of a bond.
  virtual done set_rate(const std::string& device, double gbit_s, std::optional<std::uint32_t> member) = 0;
  virtual done set_member(const std::string& device, std::uint32_t member, bool up,
                          std::optional<base::duration> leaves_after) = 0;
  virtual done set_width(const std::string& device, std::uint32_t lanes, double lane_gbit_s) = 0;
  /// 0: as much as comes.
  virtual done set_host_memory(const std::string& host, double gbit_s) = 0;
  virtual double usual_host_memory(const std::string& host) const = 0;
  /// What the scenario says the device's rate is.
  virtual double usual_rate(const std::string& device) const = 0;
  virtual done raise_event(const std::string& device, const std::string& event, std::uint32_t count) = 0;
  /// A rule holds until the same text is removed; a text that was added twice has to be removed twice.
  virtual done add_rule(const std::string& text) = 0;
  virtual done remove_rule(const std::string& text) = 0;

  /// The address that the device is reached by goes, or comes back: then at another place of the GID table.
  virtual done set_address(const std::string& device, bool present) = 0;
  /// The interface gets another MAC address, or its own again; its other addresses stay, at other places.
  virtual done set_mac(const std::string& device, bool usual) = 0;
  virtual done set_gid(const std::string& device, std::uint32_t index, const std::string& gid) = 0;
  virtual done delete_gid(const std::string& device, std::uint32_t index) = 0;
  virtual done move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) = 0;
  /// Nothing: the one that it had.
  virtual done set_mtu(const std::string& device, std::optional<std::uint32_t> bytes) = 0;
  virtual done set_lid(const std::string& device, std::uint16_t lid) = 0;
  /// The one that the device had before the first change.
  virtual std::uint16_t usual_lid(const std::string& device) const = 0;
};

} // namespace actor_rdma::drill
