// SPDX-License-Identifier: Apache-2.0
//
// Finding who has an address.
#include "verbs/soft/routing.hpp"

#include "verbs/soft/addressing.hpp"
#include "verbs/soft/tables.hpp"

#include <cerrno>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::uint16_t first_multicast_lid = 0xc000;
constexpr int lid_shift = 11;
constexpr int type_shift = 27;
constexpr std::uint32_t grh_bit = 1U << 29;

bool has_gid_of_type(const layout::device_entry& device, const ibv_gid& gid, std::uint32_t type) noexcept {
  for (std::uint32_t i = 0; i < device.gids.size(); ++i)
    if (const auto row = read_gid(device, i); row && row->type == type && is_same_gid(row->value, gid))
      return true;
  return false;
}

std::uint64_t subnet_of(const layout::device_entry& device) noexcept {
  return device.subnet_prefix.load(std::memory_order_relaxed);
}

std::uint32_t word(std::uint32_t device, std::uint32_t lid, const route& way) noexcept {
  return (device & no_path_device) | lid << lid_shift | (way.gid_type & 3) << type_shift |
         (way.has_grh ? grh_bit : 0);
}

} // namespace

std::uint16_t router_lid(const ibv_gid& gid) noexcept {
  const bool is_site_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0xc0;
  return is_site_local ? static_cast<std::uint16_t>(gid.raw[4] << 8 | gid.raw[5]) : std::uint16_t{0};
}

bool is_infiniband(const layout::device_entry& device) noexcept {
  return device.link_layer.load(std::memory_order_relaxed) == IBV_LINK_LAYER_INFINIBAND;
}

/// A subnet is known by its prefix, without what a router LID adds to it.
bool route::leaves_subnet(const layout::tables& t) const noexcept {
  return is_infiniband && has_grh && subnet_prefix_of(destination) != subnet_of(t.devices[source]);
}

int check_address_handle(const layout::device_entry& device, const ibv_ah_attr& handle) noexcept {
  if (handle.port_num != device.port.load(std::memory_order_relaxed))
    return EINVAL;
  if (handle.is_global == 0) // RoCE has no other addresses than GIDs
    return !is_infiniband(device) || handle.dlid >= first_multicast_lid ? EINVAL : 0;
  if (handle.grh.sgid_index >= layout::gids_per_port ||
      (is_infiniband(device) && handle.dlid >= first_multicast_lid))
    return EINVAL;
  return read_gid(device, handle.grh.sgid_index) ? 0 : ENODATA;
}

route route_of(const layout::tables& t, std::uint32_t source, const ibv_ah_attr& handle) noexcept {
  const auto& device = t.devices[source];
  route way;
  way.is_infiniband = is_infiniband(device);
  way.has_grh = handle.is_global != 0;
  way.source = source;
  if (way.is_infiniband)
    way.dlid = handle.dlid;
  if (way.has_grh) {
    way.destination = handle.grh.dgid;
    way.source_index = handle.grh.sgid_index;
    const auto source_row = read_gid(device, way.source_index).value_or(gid_row{});
    way.source_gid = source_row.value;
    way.gid_type = source_row.type;
  }
  return way;
}

bool has_source(const layout::tables& t, const route& way) noexcept {
  if (!way.has_grh)
    return true;
  const auto row = read_gid(t.devices[way.source], way.source_index);
  return row && row->type == way.gid_type && is_same_gid(row->value, way.source_gid);
}

bool leads_to(const layout::tables& t, const route& way, std::uint32_t device) noexcept {
  const auto& d = t.devices[device];
  if (d.used.load(std::memory_order_acquire) == 0 || is_infiniband(d) != way.is_infiniband)
    return false;
  if (!way.is_infiniband)
    return has_gid_of_type(d, way.destination, way.gid_type);
  if (way.dlid == 0)
    return false;
  if (way.leaves_subnet(t))
    return way.dlid == router_lid(way.destination) && has_gid(d, way.destination);
  return subnet_of(d) == subnet_of(t.devices[way.source]) &&
         d.lid.load(std::memory_order_acquire) == way.dlid && (!way.has_grh || has_gid(d, way.destination));
}

std::optional<std::uint32_t> device_on(const layout::tables& t, const route& way) noexcept {
  const auto end = device_slots(t);
  // Addresses that nobody changed name their slot.
  const auto likely = std::uint32_t{way.destination.raw[14]} << 8 | way.destination.raw[15];
  if (way.has_grh && likely < end && leads_to(t, way, likely))
    return likely;
  for (std::uint32_t device = 0; device < end; ++device)
    if (leads_to(t, way, device))
      return device;
  return std::nullopt;
}

std::uint32_t path_to(const layout::tables& t, const route& way) noexcept {
  return word(device_on(t, way).value_or(no_path_device), way.leaves_subnet(t) ? 0 : way.dlid, way);
}

/// The other end's address handle names our LID, if it is in our subnet.
std::uint32_t path_from(const layout::tables& t, const route& way) noexcept {
  const auto own_lid = t.devices[way.source].lid.load(std::memory_order_acquire) & 0xffff;
  return word(way.source, way.is_infiniband && !way.leaves_subnet(t) ? own_lid : 0, way);
}

} // namespace actor_rdma::verbs::soft
