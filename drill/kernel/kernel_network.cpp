// SPDX-License-Identifier: Apache-2.0
// Names of scenarios to interfaces; what is to come back.
#include "drill/kernel/kernel_network.hpp"

#include "drill/kernel/interfaces.hpp"

#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::drill {

/// Shared with its thread, which may outlive us.
struct kernel_network::removal {
  mutable std::mutex guard;
  std::optional<done> outcome;
};

namespace {

using done = kernel_network::done;

/// Each of the device's cables in turn; the first error.
template <class Each>
done each_cable(const kernel_device& d, const char* why, Each&& each) {
  std::vector<std::string> cables;
  if (!d.cable.empty())
    cables.push_back(d.cable);
  for (const auto& m : d.members)
    if (!m.cable.empty())
      cables.push_back(m.cable);
  if (cables.empty())
    return base::fail(
        base::reason::unsupported, "network",
        fmt::format("{} needs a switch, and the devices file names no cable of {}", why, d.name));
  for (const auto& c : cables)
    if (auto did = each(c); !did)
      return did;
  return {};
}

} // namespace

kernel_network::kernel_network(std::vector<kernel_device> devices) : devices_(std::move(devices)) {}
kernel_network::~kernel_network() = default;

base::expected<std::unique_ptr<kernel_network>> kernel_network::open(const std::string& devices_file) {
  auto devices = read_devices_file(devices_file);
  if (!devices)
    return base::fail(devices.error());
  std::unique_ptr<kernel_network> made(new kernel_network(std::move(*devices)));
  for (const auto& d : made->devices_) {
    const auto mac = interfaces::mac(d.netdev);
    const auto mtu = interfaces::mtu(d.netdev);
    if (!mac)
      return base::fail(mac.error());
    if (!mtu)
      return base::fail(mtu.error());
    made->usual_[d.name] = {*mac, *mtu};
  }
  return made;
}

const kernel_device* kernel_network::find(const std::string& name) const {
  for (const auto& d : devices_)
    if (d.name == name)
      return &d;
  return nullptr;
}

base::expected<const kernel_device*> kernel_network::named(const std::string& name) const {
  if (const auto* const found = find(name))
    return found;
  std::string all;
  for (const auto& d : devices_)
    all += (all.empty() ? "" : ", ") + d.name;
  return base::fail(base::reason::not_found, "network",
                    "the devices file has no \"" + name + "\", it has " + all);
}

done kernel_network::set_admin(const std::string& name, bool up) {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  if (auto did = interfaces::set_up((*d)->netdev, up); !did || !up)
    return did;
  for (const auto& a : (*d)->addresses) // an interface that goes down loses those of IPv6
    if (a.find(':') != std::string::npos)
      if (auto did = interfaces::set_address((*d)->netdev, a, true); !did && did.error().sys_errno != EEXIST)
        return did;
  return {};
}

done kernel_network::set_cable(const std::string& name, bool up) {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  return each_cable(**d, "loss of carrier", [&](const auto& c) { return interfaces::set_up(c, up); });
}

done kernel_network::set_member_cable(const std::string& name, std::size_t member, bool up) {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  if (member >= (*d)->members.size() || (*d)->members[member].cable.empty())
    return base::fail(base::reason::unsupported, "network",
                      fmt::format("the devices file names no cable of member {} of {}, which has {} members",
                                  member, name, (*d)->members.size()));
  return interfaces::set_up((*d)->members[member].cable, up);
}

done kernel_network::set_loss(const std::string& name, way which, bool on) {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  return each_cable(**d, "silent loss", [&](const auto& c) {
    return interfaces::set_dropping(c, which == way::from_device, on);
  });
}

done kernel_network::remove_address(const std::string& name, const std::string& address) {
  const auto d = named(name);
  return d ? interfaces::set_address((*d)->netdev, address, false) : base::fail(d.error());
}
done kernel_network::add_address(const std::string& name, const std::string& address) {
  const auto d = named(name);
  return d ? interfaces::set_address((*d)->netdev, address, true) : base::fail(d.error());
}
done kernel_network::set_mac(const std::string& name, const std::string& mac) {
  const auto d = named(name);
  return d ? interfaces::set_mac((*d)->netdev, mac) : base::fail(d.error());
}
base::expected<std::string> kernel_network::mac(const std::string& name) const {
  const auto d = named(name);
  return d ? interfaces::mac((*d)->netdev) : base::fail(d.error());
}
done kernel_network::set_netdev_mtu(const std::string& name, std::uint32_t bytes) {
  const auto d = named(name);
  return d ? interfaces::set_mtu((*d)->netdev, bytes) : base::fail(d.error());
}
base::expected<std::uint32_t> kernel_network::netdev_mtu(const std::string& name) const {
  const auto d = named(name);
  return d ? interfaces::mtu((*d)->netdev) : base::fail(d.error());
}

done kernel_network::delete_device(const std::string& name) {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  const auto there = is_there(name);
  if (!there)
    return base::fail(there.error());
  if (!*there)
    return base::fail(base::reason::not_found, "network", "there is no RDMA device " + (*d)->device, ENODEV);
  auto shared = removals_[name] = std::make_shared<removal>();
  std::thread([shared, device = (*d)->device] {
    auto outcome = interfaces::remove_rdma_link(device);
    const std::lock_guard hold(shared->guard);
    shared->outcome = std::move(outcome);
  }).detach();
  return {};
}

std::optional<done> kernel_network::deleted(const std::string& name) const {
  const auto found = removals_.find(name);
  if (found == removals_.end())
    return std::nullopt;
  const std::lock_guard hold(found->second->guard);
  return found->second->outcome;
}

done kernel_network::add_device(const std::string& name) {
  const auto d = named(name);
  return d ? interfaces::add_rxe((*d)->device, (*d)->netdev) : base::fail(d.error());
}

base::expected<bool> kernel_network::is_there(const std::string& name) const {
  const auto d = named(name);
  if (!d)
    return base::fail(d.error());
  const auto index = interfaces::rdma_index((*d)->device);
  if (!index)
    return base::fail(index.error());
  return index->has_value();
}

done kernel_network::restore() {
  done first;
  const auto keep = [&first](done did, int unless = 0) {
    if (!did && first && (unless == 0 || did.error().sys_errno != unless))
      first = std::move(did);
  };
  for (const auto& d : devices_) {
    const bool has_switch = !d.cable.empty() || !d.members.empty();
    if (has_switch) {
      keep(set_loss(d.name, way::to_device, false));
      keep(set_loss(d.name, way::from_device, false));
      keep(set_cable(d.name, true));
    }
    keep(set_mac(d.name, usual_.at(d.name).mac));
    keep(set_netdev_mtu(d.name, usual_.at(d.name).mtu));
    keep(set_admin(d.name, true));
    for (const auto& a : d.addresses)
      keep(add_address(d.name, a), EEXIST);
    if (const auto there = is_there(d.name); there && !*there)
      keep(add_device(d.name));
  }
  return first;
}

} // namespace actor_rdma::drill
