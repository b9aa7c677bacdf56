// SPDX-License-Identifier: Apache-2.0
// What a scenario's parts answer.
#include "drill/scenario.hpp"

#include "drill/sim/memory_pool.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

std::vector<verbs::soft::device_options> host_spec::nics() const {
  std::vector<verbs::soft::device_options> all;
  for (const auto& group : devices)
    for (std::uint64_t i = 0; i < group.count; ++i) {
      all.push_back(group.nic);
      all.back().name = fmt::format("soft{}", all.size() - 1);
      all.back().host_memory_gbit_s = memory_gbit_s;
      if (group.nic.link_layer == IBV_LINK_LAYER_INFINIBAND)
        for (auto& row : all.back().gids)
          row.type = IBV_GID_TYPE_IB;
    }
  return all;
}

std::vector<verbs::soft::device_options> host_spec::ports() const {
  std::vector<verbs::soft::device_options> all;
  for (const auto& nic : nics())
    for (std::uint32_t port = 1; port <= nic.ports; ++port) {
      all.push_back(nic);
      all.back().name = verbs::soft::port_name(nic.name, port);
    }
  return all;
}

bool host_spec::moves_payload() const {
  return std::any_of(devices.begin(), devices.end(),
                     [](const device_group& g) { return verbs::soft::moves_payload(g.nic.mode); });
}

std::uint64_t traffic_spec::slots(bool at_to) const {
  const auto open = depth * batch;
  return at_to ? open + open / 2 + 2
               : open + open / 4 + 1; // they differ, so that slots are paired anew again and again
}

std::uint64_t traffic_spec::slot_bytes() const {
  return memory_pool::rounded(*std::max_element(sizes.begin(), sizes.end()));
}

std::string host_of(const std::string& device) {
  return device.substr(0, device.find('/'));
}

std::string device_of(const std::string& port) {
  return port.substr(0, port.find(':'));
}

verbs::soft::device_options scenario::nic(const std::string& device) const {
  const auto name = host_of(device);
  if (const auto* of = host(name); of != nullptr)
    for (const auto& nic : of->ports())
      if (device == name + "/" + nic.name)
        return nic;
  return {};
}

const host_spec* scenario::host(const std::string& name) const {
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == name; });
  return found == hosts.end() ? nullptr : &*found;
}

std::vector<std::string> scenario::warnings() const {
  if (traffic.empty())
    return {"it has no traffic, so that hosts do not connect and next to nothing is checked"};
  return {};
}

} // namespace actor_rdma::drill
