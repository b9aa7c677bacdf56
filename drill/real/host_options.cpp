// SPDX-License-Identifier: Apache-2.0
// Each setting of a scenario by the name that it has among the transport's options.
#include "drill/real/host_options.hpp"

#include "drill/kernel/devices_file.hpp"
#include "verbs/soft/fabric.hpp"

#include <algorithm>
#include <vector>

namespace actor_rdma::drill {

namespace {

/// Devices of the kernel stand for those of the scenario.
base::expected<void> use_kernel_devices(const std::string& file, const host_spec& h, options& o) {
  const auto all = read_devices_file(file);
  if (!all)
    return base::fail(all.error());
  o.fabric = fabric_kind::verbs;
  for (const auto& nic : h.nics()) {
    const auto found = std::find_if(
        all->begin(), all->end(), [&](const kernel_device& d) { return d.name == h.name + "/" + nic.name; });
    if (found == all->end())
      return base::fail(base::reason::not_found, "drill",
                        file + " names no device for " + h.name + "/" + nic.name);
    o.devices.push_back(found->device);
    auto& spare = o.spare_devices;
    std::replace(spare.begin(), spare.end(), nic.name, found->device);
  }
  return {};
}

} // namespace

base::expected<options> options_of(const host_wishes& w, const host_spec& h,
                                   const std::shared_ptr<host_outbox>& out) {
  options o;
  const auto& c = h.config;
  o.name = h.name;
  o.soft.fabric = w.fabric;
  o.soft.host = h.name;
  o.soft.nics = std::make_shared<const std::vector<verbs::soft::device_options>>(h.nics());
  if (const auto ports = h.ports(); ports.size() > h.nics().size()) // without names, port 1 of each
    for (const auto& port : ports)
      o.devices.push_back(port.name);
  o.listen = w.listen;
  o.qps_per_endpoint = c.qps_per_endpoint;
  o.send_queue_depth = c.send_queue_depth;
  o.slice_bytes = c.slice_bytes;
  o.max_open_batches = 1u << 20;
  o.stall_floor = c.stall_floor;
  o.path_fence = c.path_fence;
  o.breaker_hold = c.breaker_hold;
  o.fence_grace = c.fence_grace;
  o.drain_deadline = c.drain_deadline;
  o.remote_fence = c.remote_fence;
  o.remote_fence_timeout = c.remote_fence_timeout;
  o.port_poll = c.port_poll;
  o.device_poll = c.device_poll;
  o.spare_devices = c.spare_devices;
  o.rebuild_backoff_max = c.rebuild_backoff_max;
  o.reach_retry = c.reach_retry;
  o.reach_retry_max = c.reach_retry_max;
  o.register_wait = c.register_wait;
  o.connect_deadline = c.connect_deadline;
  o.reconnect_window = c.reconnect_window;
  o.stuck_after = c.stuck_after;
  o.qp_timeout = c.qp_timeout;
  o.retry_count = c.retry_count;
  o.read_depth = c.read_depth;
  o.gid_index = c.gid_index;
  o.ib_grh = c.ib_grh;
  o.events = std::make_shared<event_reporter>(out);
  if (!w.devices.empty())
    if (const auto used = use_kernel_devices(w.devices, h, o); !used)
      return base::fail(used.error());
  return o;
}

} // namespace actor_rdma::drill
