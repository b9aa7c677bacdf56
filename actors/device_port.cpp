// SPDX-License-Identifier: Apache-2.0
// Reading a device's port: verbs calls, which block and never run on a lane. And which address goes where, by
// what was read.
#include "actors/device_port.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

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

std::uint8_t device::port_reading::link_layer_of(const ibv_port_attr& port) noexcept {
  if (port.link_layer != IBV_LINK_LAYER_UNSPECIFIED)
    return port.link_layer;
  return port.lid != 0 ? std::uint8_t{IBV_LINK_LAYER_INFINIBAND} : std::uint8_t{IBV_LINK_LAYER_ETHERNET};
}

device::port_reading device::port_reading::take(const open_device& dev, std::uint8_t read_depth,
                                                bool ib_grh) {
  port_reading r;
  const auto port = dev.ctx.query_port(dev.recipe.port);
  if (!port) {
    r.failure = port.error();
    return r;
  }
  r.up = port->state == IBV_PORT_ACTIVE;
  r.bytes_per_second = lane_gbit_s(port->active_speed) * lanes_of_width(port->active_width) * 1e9 / 8;
  r.address.device = dev.recipe.name;
  r.address.lid = port->lid;
  r.address.link_layer = link_layer_of(*port);
  r.address.grh = r.address.link_layer != IBV_LINK_LAYER_INFINIBAND || ib_grh ||
                  (port->flags & IBV_QPF_GRH_REQUIRED) != 0;
  r.address.mtu = 128u << static_cast<unsigned>(port->active_mtu);
  r.address.read_depth =
      static_cast<std::uint8_t>(std::min<std::uint32_t>(read_depth, std::max(1u, dev.max_read_depth)));
  const auto gids = dev.ctx.query_gids(dev.recipe.port);
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

void device::take_port_rate(const port_reading& seen) {
  const auto before = std::exchange(port_rate_, seen.bytes_per_second);
  if (before == 0 || before == port_rate_)
    return;
  const auto gbit_s = [](double bytes_per_second) { return bytes_per_second * 8 / 1e9; };
  note(observe::event_kind::port_speed,
       fmt::format("{:g} Gbit/s became {:g} Gbit/s", gbit_s(before), gbit_s(port_rate_)),
       static_cast<std::uint64_t>(gbit_s(port_rate_) * 1000),
       port_rate_ < before ? base::level::warn : base::level::info);
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

bool device::may_blame_request() {
  look_at_port();
  if (machine_.state() != device_state::active || env().now() - blamed_at_ < config_.port_poll)
    return false;
  blamed_at_ = env().now();
  return true;
}

std::optional<std::uint32_t> device::gid_index_of(const bootstrap::port_address& ours) const noexcept {
  if (ours.gid == address_.gid && ours.gid_type == address_.gid_type)
    return gid_index_; // a table may hold one address twice
  return find_gid(gids_, {ours.gid, ours.gid_type});
}

} // namespace actor_rdma::actors
