// SPDX-License-Identifier: Apache-2.0
// What the options accept.
#include "transport/options.hpp"

#include <fmt/format.h>

namespace actor_rdma {

namespace {

using namespace std::chrono_literals;

base::expected<void> refuse(const char* name, const std::string& got, const std::string& accepted) {
  return base::fail(base::reason::invalid_argument, "options",
                    fmt::format("{} is {}, accepted is {}", name, got, accepted));
}

template <class T>
base::expected<void> within(const char* name, T value, T low, T high) {
  if (value < low || value > high)
    return refuse(name, fmt::format("{}", value), fmt::format("{} to {}", low, high));
  return {};
}

base::expected<void> within_ms(const char* name, base::duration value, base::duration low,
                               base::duration high) {
  const auto ms = [](base::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  if (value < low || value > high)
    return refuse(name, fmt::format("{} ms", ms(value)), fmt::format("{} to {} ms", ms(low), ms(high)));
  return {};
}

} // namespace

base::expected<void> validate(const options& o) {
  if (o.name.empty() || o.name.size() > 255)
    return refuse("name", fmt::format("{} characters long", o.name.size()), "1 to 255 characters");
  if (o.fabric == fabric_kind::soft && o.soft.mode != "inline" && o.soft.mode != "paced" &&
      o.soft.mode != "null")
    return refuse("soft.mode", o.soft.mode, "inline, paced or null");
  if (o.fabric == fabric_kind::soft && o.soft.link_layer != "ethernet" && o.soft.link_layer != "infiniband")
    return refuse("soft.link_layer", o.soft.link_layer, "ethernet or infiniband");
  if ((o.send_queue_depth & (o.send_queue_depth - 1)) != 0)
    return refuse("send_queue_depth", fmt::format("{}", o.send_queue_depth), "a power of two, 1 to 16384");
  for (const auto& outcome : {
           within<std::uint32_t>("soft.devices", o.soft.devices, 1, 64),
           within("soft.rate_gbit_s", o.soft.rate_gbit_s, 0.001, 10'000.0),
           within_ms("soft.latency_ms", o.soft.latency, 0ns, 10s),
           within<std::uint32_t>("lanes", o.lanes, 0, 64),
           within_ms("lane_spin_ms", o.lane_spin, 0ns, 1s),
           within<std::uint32_t>("qps_per_endpoint", o.qps_per_endpoint, 1, 64),
           within<std::uint32_t>("send_queue_depth", o.send_queue_depth, 1, 16384),
           within<std::uint32_t>("cq_entries", o.cq_entries, 1024, 1u << 22),
           within<std::uint32_t>("slice_bytes", o.slice_bytes, 256, 1u << 30),
           within<std::uint32_t>("max_open_batches", o.max_open_batches, 1, 1u << 20),
           within<std::uint32_t>("notice_inbox", o.notice_inbox, 1, 1u << 20),
           within_ms("default_deadline_ms", o.default_deadline, 1ms, base::duration::max()),
           within_ms("stall_floor_ms", o.stall_floor, 1ms, 60s),
           within_ms("path_fence_ms", o.path_fence, 1ms, 60s),
           within_ms("breaker_hold_ms", o.breaker_hold, 0ms, 2s),
           within_ms("fence_grace_ms", o.fence_grace, 0ms, 60s),
           within_ms("drain_deadline_ms", o.drain_deadline, 1ms, 60s),
           within_ms("remote_fence_timeout_ms", o.remote_fence_timeout, 1ms, 600s),
           within_ms("port_poll_ms", o.port_poll, 1ms, 60s),
           within_ms("device_poll_ms", o.device_poll, 10ms, 3600s),
           within_ms("rebuild_backoff_max_ms", o.rebuild_backoff_max, 1ms, 600s),
           within_ms("reach_retry_ms", o.reach_retry, 1ms, 600s),
           within_ms("reach_retry_max_ms", o.reach_retry_max, 1ms, 3600s),
           within_ms("register_wait_ms", o.register_wait, 0ms, 3600s),
           within_ms("connect_deadline_ms", o.connect_deadline, 10ms, 600s),
           within_ms("reconnect_window_ms", o.reconnect_window, 1ms, 600s),
           within_ms("stuck_after_ms", o.stuck_after, 1ms, base::duration::max()),
           within_ms("shutdown_timeout_ms", o.shutdown_timeout, 1ms, 600s),
           within<unsigned>("qp_timeout", o.qp_timeout, 0, 31),
           within<unsigned>("retry_count", o.retry_count, 0, 7),
           within<unsigned>("read_depth", o.read_depth, 1, 255),
           within<std::uint32_t>("gid_index", o.gid_index.value_or(0), 0, 255),
       })
    if (!outcome)
      return outcome;
  return {};
}

} // namespace actor_rdma
