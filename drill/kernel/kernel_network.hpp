// SPDX-License-Identifier: Apache-2.0
// The network under RDMA devices of the kernel (rdma_rxe) as faults meet it: interfaces, cables, switch
// ports, addresses, the devices themselves. Everything is asked of the kernel by ioctl and netlink, in the
// network namespace of this process and with CAP_NET_ADMIN, and has happened when the call returns. Each call
// answers why it could not be done. One thread at a time.
//
// What loses packets silently is a filter on the switch port, never on the device's own interface: there
// the sender would be told.
#pragma once

#include "base/error.hpp"
#include "drill/kernel/devices_file.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class kernel_network {
public:
  using done = base::expected<void>;
  enum class way : std::uint8_t {
    to_device,   ///< what the network sends to it
    from_device, ///< what it sends
  };

  /// Reads the devices file and what the interfaces are like now, which is what restore() comes back to.
  static base::expected<std::unique_ptr<kernel_network>> open(const std::string& devices_file);
  /// Waits for nothing: a device's removal that is still under way goes on.
  ~kernel_network();
  kernel_network(const kernel_network&) = delete;
  kernel_network& operator=(const kernel_network&) = delete;

  const std::vector<kernel_device>& devices() const noexcept { return devices_; }
  /// nullptr: the file does not name it.
  const kernel_device* find(const std::string& name) const;

  /// `ip link set NETDEV up|down` of the device's own interface.
  done set_admin(const std::string& name, bool up);
  /// The switch's end of its cable, of a bond those of all members: down is loss of carrier at the device.
  done set_cable(const std::string& name, bool up);
  done set_member_cable(const std::string& name, std::size_t member, bool up);
  /// Loses all packets of one way at the switch port(s), silently: carrier and states stay.
  done set_loss(const std::string& name, way which, bool on);

  /// Takes "10.7.0.1/24", or "fd00::1/64", from the interface, or gives it.
  done remove_address(const std::string& name, const std::string& address);
  done add_address(const std::string& name, const std::string& address);
  /// "02:00:00:00:00:01"
  done set_mac(const std::string& name, const std::string& mac);
  base::expected<std::string> mac(const std::string& name) const;
  /// Of the interface: the device's MTU is the next smaller one of 256 to 4096 that fits with its headers.
  done set_netdev_mtu(const std::string& name, std::uint32_t bytes);
  base::expected<std::uint32_t> netdev_mtu(const std::string& name) const;
  /// What the interface needs for a path MTU of RoCE v2, its headers included.
  static std::uint32_t netdev_mtu_for(std::uint32_t path_mtu) noexcept { return path_mtu + 96; }

  /// `rdma link delete`, on a thread of its own because the kernel does not come back from it before every
  /// program has closed the device.
  done delete_device(const std::string& name);
  /// How that ended; nothing while it lasts.
  std::optional<done> deleted(const std::string& name) const;
  /// `rdma link add`, under the name it had.
  done add_device(const std::string& name);
  /// Whether the kernel lists it.
  base::expected<bool> is_there(const std::string& name) const;

  /// As it was when it was opened: nothing lost, all up, MAC, MTU and addresses back, devices there. Goes
  /// on after an error and answers with the first one.
  done restore();

private:
  struct usual {
    std::string mac;
    std::uint32_t mtu = 0;
  };
  struct removal;

  explicit kernel_network(std::vector<kernel_device> devices);
  base::expected<const kernel_device*> named(const std::string& name) const;

  std::vector<kernel_device> devices_;
  std::map<std::string, usual> usual_;
  std::map<std::string, std::shared_ptr<removal>> removals_;
};

} // namespace actor_rdma::drill
