// SPDX-License-Identifier: Apache-2.0
// Opening a device and reading its port: the verbs calls of a device actor, which block and never run on a
// lane. And which address goes where, by what was read.
#include "actors/device_port.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

double lane_gbit_s(std::uint8_t active_speed) noexcept {
  switch (active_speed) {
  case 1: return 2.5;
  case 2: return 5;
  case 4:
  case 8: return 10;
  case 16: return 14;
  case 32: return 25;
  case 64: return 50;
  case 128: return 100;
  default: return 10;
  }
}

double lanes_of_width(std::uint8_t active_width) noexcept {
  switch (active_width) {
  case 2: return 4;
  case 4: return 8;
  case 8: return 12;
  case 16: return 2;
  default: return 1;
  }
}

} // namespace

device::port_reading device::port_reading::take(const open_device& dev, std::uint8_t read_depth) {
  port_reading r;
  const auto port = dev.ctx.query_port(open_device::port_number);
  if (!port) {
    r.failure = port.error();
    return r;
  }
  r.up = port->state == IBV_PORT_ACTIVE;
  r.bytes_per_second = lane_gbit_s(port->active_speed) * lanes_of_width(port->active_width) * 1e9 / 8;
  r.address.device = dev.ctx.name();
  r.address.lid = port->lid;
  r.address.mtu = 128u << static_cast<unsigned>(port->active_mtu);
  r.address.read_depth =
      static_cast<std::uint8_t>(std::min<std::uint32_t>(read_depth, std::max(1u, dev.max_read_depth)));
  const auto gids = dev.ctx.query_gids(open_device::port_number);
  if (!gids) {
    r.failure = gids.error();
    return r;
  }
  for (const auto& g : *gids) {
    gid_candidate c;
    c.index = g.index;
    std::memcpy(c.gid.data(), g.gid.raw, c.gid.size());
    c.type = static_cast<std::uint8_t>(g.type);
    c.interface_index = g.interface_index;
    c.interface_up = g.interface_up;
    r.gids.push_back(c);
  }
  return r;
}

bootstrap::port_address device::address_toward(const bootstrap::port_address& peer) const {
  gid_wish wish;
  wish.index = config_.gid_index;
  wish.peer = gid_address{peer.gid, peer.gid_type};
  wish.present = gid_address{address_.gid, address_.gid_type};
  auto ours = address_;
  if (const auto choice = choose_gid(gids_, wish)) {
    ours.gid = choice->chosen.gid;
    ours.gid_type = choice->chosen.type;
  }
  return ours;
}

std::optional<std::uint32_t> device::gid_index_of(const bootstrap::port_address& ours) const noexcept {
  if (ours.gid == address_.gid && ours.gid_type == address_.gid_type)
    return gid_index_; // a table may hold one address twice
  return find_gid(gids_, {ours.gid, ours.gid_type});
}

base::expected<void> open_device::check_gid_index(std::uint32_t index) const {
  const auto seen = device::port_reading::take(*this, 1);
  if (seen.failure.why != base::reason::none)
    return base::fail(seen.failure);
  gid_wish wish;
  wish.index = index;
  auto choice = choose_gid(seen.gids, wish);
  if (choice)
    return {};
  choice.error().device = ctx.name();
  return base::fail(choice.error());
}

base::expected<open_device> open_device::open(const verbs::provider& table, ibv_device* handle,
                                              std::shared_ptr<probe_page> probe, std::size_t number,
                                              std::size_t devices, std::uint32_t cq_capacity) {
  open_device d;
  auto ctx = verbs::context::open(table, handle);
  if (!ctx)
    return base::fail(ctx.error());
  d.ctx = std::move(*ctx);
  const auto limits = d.ctx.query_device();
  if (!limits)
    return base::fail(limits.error());
  d.max_region_bytes = limits->max_mr_size;
  if (limits->max_mr_size < sizeof(probe_page)) {
    base::error e;
    e.why = base::reason::unsupported;
    e.layer = "device";
    e.device = d.ctx.name();
    e.what = fmt::format("its memory regions have at most {} bytes (max_mr_size), probes need one of {}",
                         limits->max_mr_size, sizeof(probe_page));
    return base::fail(std::move(e));
  }
  d.max_read_depth = static_cast<std::uint32_t>(std::max(1, limits->max_qp_rd_atom));
  if (limits->max_qp_wr > 0)
    d.max_send_wrs = static_cast<std::uint32_t>(limits->max_qp_wr);
  if (limits->max_res_rd_atom > 0)
    d.max_served_reads = static_cast<std::uint32_t>(limits->max_res_rd_atom);
  auto pd = verbs::protection_domain::alloc(d.ctx);
  if (!pd)
    return base::fail(pd.error());
  d.pd = std::move(*pd);
  auto channel = verbs::completion_channel::create(d.ctx);
  if (!channel)
    return base::fail(channel.error());
  d.channel = std::move(*channel);
  const auto entries = std::min<std::int64_t>(cq_capacity, limits->max_cqe);
  auto cq = verbs::completion_queue::create(d.ctx, static_cast<int>(entries), d.channel);
  if (!cq)
    return base::fail(cq.error());
  d.cq = std::move(*cq);
  d.probe = std::move(probe);
  const auto share = probe_page::places / devices;
  d.landing = std::span(d.probe->landing).subspan(number * share, share);
  auto mr = verbs::memory_region::reg(d.pd, d.probe.get(), sizeof(probe_page),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  if (!mr)
    return base::fail(mr.error());
  d.probe_mr = std::move(*mr);
  return d;
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
  keep(pd.destroy());
  keep(ctx.destroy());
  if (probe_mr)
    new std::shared_ptr<probe_page>(probe); // still registered with the device: the pages must stay
  return left;
}

} // namespace actor_rdma::actors
