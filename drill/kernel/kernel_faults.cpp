// SPDX-License-Identifier: Apache-2.0
// From the words of scenarios to those of a network.
#include "drill/kernel/kernel_faults.hpp"

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using done = device_faults::done;

done only_soft(const char* what) {
  return base::fail(base::reason::unsupported, "drill",
                    fmt::format("{} can be done to the software NIC only, not with --fabric verbs", what));
}

/// Of the local kind; the last digits tell whose it was.
std::string other_mac(std::string mac) {
  mac[0] = '0';
  mac[1] = mac[1] == '2' ? '6' : '2';
  return mac;
}

} // namespace

done kernel_faults::remember(const std::string& device, const std::string& what, bool is_broken,
                             done outcome) {
  if (!outcome)
    return outcome;
  if (is_broken)
    broken_[device].insert(what);
  else
    broken_[device].erase(what);
  return outcome;
}

bool kernel_faults::can_carry(const std::string& device) const {
  const auto found = broken_.find(device);
  return found == broken_.end() || found->second.empty();
}

done kernel_faults::set_link(const std::string& device, bool up, bool quietly) {
  return quietly ? only_soft("a link that goes down without an event")
                 : remember(device, "link", !up, net_.set_admin(device, up));
}
done kernel_faults::set_cable(const std::string& device, bool plugged) {
  return remember(device, "cable", !plugged, net_.set_cable(device, plugged));
}
done kernel_faults::lose_packets(const std::string& device, const std::string& direction,
                                 const std::string& peer, bool on) {
  if (!peer.empty() || (direction != "tx" && direction != "rx"))
    return only_soft("the loss of one peer's packets, or of requests or acknowledgements alone,");
  const auto way = direction == "tx" ? kernel_network::way::from_device : kernel_network::way::to_device;
  return remember(device, direction, on, net_.set_loss(device, way, on));
}
/// A bond's slave; what becomes of its QPs is the bond's affair, and so is the time that it takes.
done kernel_faults::set_member(const std::string& device, std::uint32_t member, bool up,
                               std::optional<base::duration>) {
  return net_.set_member_cable(device, member, up);
}
done kernel_faults::set_address(const std::string& device, bool present) {
  const auto* const d = net_.find(device);
  if (d == nullptr || d->addresses.empty())
    return base::fail(base::reason::not_found, "drill", "the devices file names no address of " + device);
  for (const auto& a : d->addresses)
    if (auto did = present ? net_.add_address(device, a) : net_.remove_address(device, a); !did)
      return did;
  return remember(device, "address", !present, {});
}
done kernel_faults::set_mac(const std::string& device, bool usual) {
  if (usual_mac_.count(device) == 0) {
    const auto is = net_.mac(device);
    if (!is)
      return base::fail(is.error());
    usual_mac_[device] = *is;
  }
  return net_.set_mac(device, usual ? usual_mac_[device] : other_mac(usual_mac_[device]));
}
done kernel_faults::set_mtu(const std::string& device, std::optional<std::uint32_t> bytes) {
  if (usual_mtu_.count(device) == 0) {
    const auto is = net_.netdev_mtu(device);
    if (!is)
      return base::fail(is.error());
    usual_mtu_[device] = *is;
  }
  return net_.set_netdev_mtu(device, bytes ? kernel_network::netdev_mtu_for(*bytes) : usual_mtu_[device]);
}

done kernel_faults::set_hang(const std::string&, verbs::soft::hang_mode) {
  return only_soft("a hang");
}
done kernel_faults::set_lost(const std::string&, bool) {
  return only_soft("the loss of a device");
}
done kernel_faults::set_delay(const std::string&, base::duration) {
  return only_soft("a delay");
}
done kernel_faults::set_rate(const std::string&, double, std::optional<std::uint32_t>) {
  return only_soft("another rate");
}
done kernel_faults::set_width(const std::string&, std::uint32_t, double) {
  return only_soft("another width");
}
done kernel_faults::set_host_memory(const std::string&, double) {
  return only_soft("a slow memory");
}
done kernel_faults::raise_event(const std::string&, const std::string&, std::uint32_t) {
  return only_soft("an event without a cause");
}
done kernel_faults::add_rule(const std::string&) {
  return only_soft("a rule");
}
done kernel_faults::remove_rule(const std::string&) {
  return only_soft("a rule");
}
done kernel_faults::set_gid(const std::string&, std::uint32_t, const std::string&) {
  return only_soft("a GID at a chosen index");
}
done kernel_faults::delete_gid(const std::string&, std::uint32_t) {
  return only_soft("the deletion of one GID");
}
done kernel_faults::move_gid(const std::string&, std::uint32_t, std::uint32_t) {
  return only_soft("a GID at a chosen index");
}
done kernel_faults::set_lid(const std::string&, std::uint16_t) {
  return only_soft("another LID");
}

} // namespace actor_rdma::drill
