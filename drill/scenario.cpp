// SPDX-License-Identifier: Apache-2.0
// What a scenario's parts answer.
#include "drill/scenario.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

std::vector<verbs::soft::device_options> host_spec::nics() const {
  std::vector<verbs::soft::device_options> all;
  for (const auto& group : devices)
    for (std::uint64_t i = 0; i < group.count; ++i) {
      all.push_back(group.nic);
      all.back().name = fmt::format("soft{}", all.size() - 1);
    }
  return all;
}

bool host_spec::moves_payload() const {
  return std::any_of(devices.begin(), devices.end(),
                     [](const device_group& g) { return verbs::soft::moves_payload(g.nic.mode); });
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
