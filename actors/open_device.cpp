// SPDX-License-Identifier: Apache-2.0
// Opening a device and closing it: verbs calls, which block and never run on a lane.
#include "actors/open_device.hpp"

#include "actors/device_port.hpp"
#include "actors/port_name.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

base::expected<void> open_device::check_gid_index(std::uint32_t index) const {
  const auto seen = device::port_reading::take(*this, 1, false);
  if (seen.failure.why != base::reason::none)
    return base::fail(seen.failure);
  gid_wish wish;
  wish.index = index;
  auto choice = choose_gid(seen.gids, wish);
  if (choice)
    return {};
  choice.error().device = recipe.name;
  return base::fail(choice.error());
}

base::expected<open_device> open_device::open(const verbs::provider& table, ibv_device* handle,
                                              std::shared_ptr<probe_page> probe, std::size_t number,
                                              std::size_t devices, std::uint32_t cq_capacity,
                                              std::uint8_t port, std::uint8_t link_layer) {
  open_device d;
  const auto failed = [&](const base::error& why) {
    d.ctx.mark_gone();
    (void)d.close(); // what refuses says so in its destructor
    return base::fail(why);
  };
  d.recipe = {&table,
              port_name{table.get_device_name(handle), port}.text(),
              std::move(probe),
              number,
              devices,
              cq_capacity,
              port,
              link_layer};
  auto ctx = verbs::context::open(table, handle);
  if (!ctx)
    return base::fail(ctx.error());
  d.ctx = std::move(*ctx);
  const auto limits = d.ctx.query_device();
  if (!limits)
    return failed(limits.error());
  if (port > limits->phys_port_cnt) {
    const base::error e{base::reason::not_found,
                        "device",
                        d.recipe.name,
                        {},
                        {},
                        fmt::format("{} has ports 1 to {}", d.ctx.name(), limits->phys_port_cnt)};
    return failed(e);
  }
  if (link_layer == 0) { // rails are made for it, so it is what it was when the device is opened again
    const auto state = d.ctx.query_port(port);
    if (!state)
      return failed(state.error());
    d.recipe.link_layer = device::port_reading::link_layer_of(*state);
  }
  d.max_region_bytes = limits->max_mr_size;
  if (limits->max_mr_size < sizeof(probe_page)) {
    base::error e;
    e.why = base::reason::unsupported;
    e.layer = "device";
    e.device = d.recipe.name;
    e.what = fmt::format("its memory regions have at most {} bytes (max_mr_size), probes need one of {}",
                         limits->max_mr_size, sizeof(probe_page));
    return failed(e);
  }
  d.max_read_depth = static_cast<std::uint32_t>(std::max(1, limits->max_qp_rd_atom));
  if (limits->max_qp_wr > 0)
    d.max_send_wrs = static_cast<std::uint32_t>(limits->max_qp_wr);
  if (limits->max_res_rd_atom > 0)
    d.max_served_reads = static_cast<std::uint32_t>(limits->max_res_rd_atom);
  auto pd = verbs::protection_domain::alloc(d.ctx);
  if (!pd)
    return failed(pd.error());
  d.pd = std::move(*pd);
  auto channel = verbs::completion_channel::create(d.ctx);
  if (!channel)
    return failed(channel.error());
  d.channel = std::move(*channel);
  const auto entries = std::min<std::int64_t>(cq_capacity, limits->max_cqe);
  auto cq = verbs::completion_queue::create(d.ctx, static_cast<int>(entries), d.channel);
  if (!cq)
    return failed(cq.error());
  d.cq = std::move(*cq);
  d.cq_asked = static_cast<std::uint32_t>(entries);
  d.cq_entries = static_cast<std::uint32_t>(d.cq.capacity());
  auto mr = verbs::memory_region::reg(d.pd, d.recipe.probe.get(), sizeof(probe_page),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  if (!mr)
    return failed(mr.error());
  d.probe_mr = std::move(*mr);
  d.probe_lkey = d.probe_mr.lkey();
  d.probe_rkey = d.probe_mr.rkey();
  return d;
}

base::expected<open_device> open_device::open(const device_recipe& recipe) {
  const auto list = recipe.table->list_devices();
  if (!list)
    return base::fail(list.error());
  for (auto* const handle : *list)
    if (parse_port_name(recipe.name).device == recipe.table->get_device_name(handle))
      return open(*recipe.table, handle, recipe.probe, recipe.number, recipe.devices, recipe.cq_capacity,
                  recipe.port, recipe.link_layer);
  base::error e{base::reason::local_device, "verbs", recipe.name, {}, {}, "there is no such device now"};
  return base::fail(std::move(e));
}

std::vector<std::string> open_device::close() {
  std::vector<std::string> left;
  const auto keep = [&](const base::expected<void>& outcome) {
    if (!outcome)
      left.push_back(outcome.error().to_string());
  };
  keep(probe_mr.destroy());
  keep(cq.destroy());
  keep(channel.destroy());
  // The context's end frees what was made of it: no call on a child may follow.
  if (left.empty())
    keep(pd.destroy());
  if (left.empty())
    keep(ctx.destroy());
  if (!left.empty() && ctx && ctx.is_gone()) {
    left.clear();
    keep(close_over());
  }
  if (probe_mr)
    new std::shared_ptr<probe_page>(recipe.probe); // still registered with the device: the pages must stay
  return left;
}

base::expected<void> open_device::close_over() {
  if (channel && !channel.destroy())
    channel.abandon();
  auto closed = ctx.destroy();
  if (closed) { // and what was made of it goes without a call
    (void)probe_mr.destroy();
    (void)cq.destroy();
    (void)pd.destroy();
  }
  return closed;
}

} // namespace actor_rdma::actors
