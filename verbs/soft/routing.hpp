// SPDX-License-Identifier: Apache-2.0
//
// The way of a packet, by what an address handle says: over Ethernet by the GID and its type, over InfiniBand
// by the LID within the sender's subnet, and beyond it by the GID and the LID that the subnet's router
// answers to. A connected queue pair takes packets only of the path that its own address handle names.
// Whoever remembers a way also remembers the address epochs of both ends.
#pragma once

#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <optional>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// What a packet carries for the switches, and what the responder's queue pair checks of it.
struct route {
  bool is_infiniband = false;
  bool has_grh = true;
  std::uint8_t source_index = 0; ///< with a GRH: where in the sender's GID table
  std::uint16_t dlid = 0;        ///< InfiniBand
  std::uint32_t gid_type = 0;    ///< of the source's address; Ethernet
  std::uint32_t source = 0;      ///< the sender's device
  ibv_gid source_gid{};          ///< with a GRH: what was at its index
  ibv_gid destination{};         ///< with a GRH
  [[nodiscard]] bool leaves_subnet(const layout::tables& t) const noexcept;
};

[[nodiscard]] bool is_infiniband(const layout::device_entry& device) noexcept;
/// As the kernel checks one for a port, 0 or errno: EINVAL for RoCE without a GRH, a multicast LID or another
/// port; ENODATA for an empty place of the GID table.
[[nodiscard]] int check_address_handle(const layout::device_entry& device,
                                       const ibv_ah_attr& handle) noexcept;
/// The handle has been checked.
[[nodiscard]] route route_of(const layout::tables& t, std::uint32_t source,
                             const ibv_ah_attr& handle) noexcept;

/// The device whose port takes such packets now.
[[nodiscard]] std::optional<std::uint32_t> device_on(const layout::tables& t, const route& way) noexcept;
/// Whether the address that packets with a GRH come from is still at its index.
[[nodiscard]] bool has_source(const layout::tables& t, const route& way) noexcept;
[[nodiscard]] bool leads_to(const layout::tables& t, const route& way, std::uint32_t device) noexcept;

/// Changes with each change of the device's GIDs or LID.
[[nodiscard]] inline std::uint32_t address_epoch(const layout::device_entry& device,
                                                 std::memory_order order) noexcept {
  return device.gid_epoch.load(order) + device.lid_epoch.load(order);
}

/// What a queue pair's entry says of its peer, in one word: device (11 bits), LID (16), GID type (2), GRH
/// (1). A packet fits if the word that its sender makes of itself is the same.
inline constexpr std::uint32_t no_path_device = 0x7ff;
static_assert(layout::max_devices <= no_path_device);
[[nodiscard]] std::uint32_t path_to(const layout::tables& t, const route& way) noexcept;
[[nodiscard]] std::uint32_t path_from(const layout::tables& t, const route& way) noexcept;
/// UINT32_MAX: nobody had the address.
[[nodiscard]] constexpr std::uint32_t device_of_path(std::uint32_t path) noexcept {
  return (path & no_path_device) == no_path_device ? UINT32_MAX : path & no_path_device;
}

/// The LID by which other subnets reach the port that has this GID: its routers know it, as bytes 4 and 5 of
/// a site-local GID. 0: none.
[[nodiscard]] std::uint16_t router_lid(const ibv_gid& gid) noexcept;

} // namespace actor_rdma::verbs::soft
