// SPDX-License-Identifier: Apache-2.0
// The limits of devices that are not ours.
#include "drill/kernel/suits_kernel.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace actor_rdma::drill {

namespace {

/// Faults that a network, a process or a control link can be given from outside.
constexpr std::array<std::string_view, 26> possible{"link_down",          "link_up",
                                                    "carrier_lost",       "address_lost",
                                                    "mac_changed",        "mtu",
                                                    "packets_lost",       "member_down",
                                                    "revoke_memory",      "control_cut",
                                                    "control_black_hole", "control_latency",
                                                    "control_refuse",     "control_drop",
                                                    "control_duplicate",  "control_truncate",
                                                    "control_delay",      "control_reorder",
                                                    "control_reject",     "host_kill",
                                                    "host_stop",          "host_fork",
                                                    "host_restart",       "host_freeze",
                                                    "host_thaw",          "churn_memory"};

bool is_possible(const std::string& kind) {
  return std::find(possible.begin(), possible.end(), kind) != possible.end();
}

/// Why the fault cannot be had; empty: it can.
std::string why_not(const fault_spec& f, const kernel_device* device) {
  if (!is_possible(f.kind))
    return fmt::format("kind: {} is done to the software NIC only, with --fabric verbs accepted are {}",
                       f.kind, fmt::join(possible, ", "));
  if (f.is_quiet)
    return "quiet: the kernel always tells of it, with --fabric verbs accepted is false";
  if (f.kind == "packets_lost" && !f.peer.empty())
    return "peer: a switch port loses packets of all, with --fabric verbs it has to be left out";
  if (f.kind == "packets_lost" && !f.direction.empty() && f.direction != "tx" && f.direction != "rx")
    return fmt::format("direction: is {}, with --fabric verbs accepted are tx, rx", f.direction);
  if (device == nullptr)
    return {};
  if ((f.kind == "carrier_lost" || f.kind == "packets_lost") && device->cable.empty() &&
      device->members.empty())
    return fmt::format("device: the devices file names no cable of {}", f.device);
  if (f.kind == "member_down" && f.member.value_or(0) >= device->members.size())
    return fmt::format("member: the devices file names {} members of {}", device->members.size(), f.device);
  if (f.kind == "address_lost" && device->addresses.empty())
    return fmt::format("device: the devices file names no addresses of {}", f.device);
  return {};
}

void check_host(const host_spec& h, const std::vector<kernel_device>& devices,
                std::vector<std::string>& wrong) {
  const verbs::soft::device_options usual;
  for (const auto& nic : h.nics()) {
    const auto name = h.name + "/" + nic.name;
    if (std::none_of(devices.begin(), devices.end(), [&](const auto& d) { return d.name == name; }))
      wrong.push_back(fmt::format("hosts: the devices file has no {}", name));
    if (nic.ports != usual.ports || nic.link_layer != usual.link_layer || nic.lid != usual.lid ||
        !nic.gids.empty())
      wrong.push_back(
          fmt::format("hosts: {}: ports, link_layer, lid and gids are said of the software NIC only, "
                      "with --fabric verbs they have to be left out",
                      name));
  }
}

} // namespace

std::vector<std::string> refuse_on_kernel(const scenario& what, const std::vector<kernel_device>& devices) {
  std::vector<std::string> wrong;
  for (const auto& h : what.hosts)
    check_host(h, devices, wrong);
  for (std::size_t i = 0; i < what.faults.size(); ++i) {
    const auto& f = what.faults[i];
    const auto device =
        std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d.name == f.device; });
    if (const auto why = why_not(f, device == devices.end() ? nullptr : &*device); !why.empty())
      wrong.push_back(fmt::format("faults[{}].{}", i, why));
  }
  for (std::size_t i = 0; i < what.expect.size(); ++i)
    if (what.expect[i].kind == "verdicts")
      wrong.push_back(
          fmt::format("expect[{}].kind: verdicts are of the software NIC's rules, and with --fabric "
                      "verbs there are none",
                      i));
  return wrong;
}

} // namespace actor_rdma::drill
