// SPDX-License-Identifier: Apache-2.0
//
// Addresses in the shared tables: the GID table of each device's port, and the LIDs of InfiniBand subnets.
// Tables change while traffic runs. Who has an address is in routing.hpp.
#pragma once

#include "verbs/soft/fabric.hpp"
#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// The default table over Ethernet: link-local and IPv4-mapped, each as RoCE v1 and v2, like common hardware.
inline constexpr std::uint32_t default_gids = 4;
[[nodiscard]] ibv_gid make_gid(std::uint32_t device, std::uint32_t gid_index) noexcept;
[[nodiscard]] std::vector<gid_row> default_gid_table(std::uint32_t device);
/// Over InfiniBand: the subnet's prefix with the port's GUID; in a site-local subnet (fec0::/10) also the
/// same with the LID by which routers know the port.
[[nodiscard]] std::vector<gid_row> default_infiniband_gids(std::uint32_t device, std::uint64_t subnet_prefix);
/// Its upper half, without a router's LID in it.
[[nodiscard]] std::uint64_t subnet_prefix_of(const ibv_gid& gid) noexcept;
/// Whether no other port of the subnet has it. The caller holds the segment's lock.
[[nodiscard]] bool is_free_lid(const layout::tables& t, std::uint32_t device, std::uint32_t lid) noexcept;
/// The caller holds the segment's lock.
[[nodiscard]] std::optional<std::uint16_t> choose_lid(const layout::tables& t, std::uint32_t device) noexcept;

/// Nothing for an empty place or an index outside of the table.
[[nodiscard]] std::optional<gid_row> read_gid(const layout::device_entry& device,
                                              std::uint32_t index) noexcept;
/// The caller holds the segment's lock, and counts the epoch when the table is as it should be.
void write_gid(layout::device_entry& device, std::uint32_t index, const std::optional<gid_row>& row) noexcept;
[[nodiscard]] bool has_gid(const layout::device_entry& device, const ibv_gid& gid) noexcept;

[[nodiscard]] bool is_same_gid(const ibv_gid& a, const ibv_gid& b) noexcept;
/// 256, 512, 1024, 2048 and 4096.
[[nodiscard]] bool is_mtu(std::uint32_t bytes) noexcept;
[[nodiscard]] ibv_mtu mtu_value(std::uint32_t bytes) noexcept;

} // namespace actor_rdma::verbs::soft
