// SPDX-License-Identifier: Apache-2.0
// What a device of the software NIC is made with: how it executes work, what it grants, and its port, which
// is one of Ethernet (RoCE) or of InfiniBand.
#pragma once

#include "base/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// How a device executes work. `immediate`: in the post (at most 256 KiB of copying per post, the rest at
/// later polls), for throughput figures. `paced`: rate and latency, so that WRs really are outstanding.
/// `null`: as immediate, but no payload of more than 8 bytes is moved, for overhead figures. (On the command
/// line: inline, paced, null.)
enum class nic_mode : std::uint8_t { immediate, paced, null, paced_null };
/// Rate and latency count.
constexpr bool is_paced(nic_mode m) noexcept {
  return m == nic_mode::paced || m == nic_mode::paced_null;
}
/// Payload is copied, of more than a word.
constexpr bool moves_payload(nic_mode m) noexcept {
  return m == nic_mode::immediate || m == nic_mode::paced;
}

/// What one device grants at most; reported by query_device and enforced. More objects than there may be are
/// ENOMEM, an object that is too large is EINVAL. Each may be made smaller than what stands here, not larger.
struct device_limits {
  std::uint32_t max_qp = 1U << 16;
  std::uint32_t max_qp_wr = 16384; ///< of a send queue, of a receive queue
  std::uint32_t max_sge = 4;
  std::uint32_t max_cq = 1U << 14;
  std::uint32_t max_cqe = 1U << 20;
  std::uint32_t max_srq = 1U << 14;
  std::uint32_t max_srq_wr = 16384;
  std::uint32_t max_mr = 1U << 15;
  std::uint64_t max_mr_size = UINT64_MAX >> 1; ///< bytes
  std::uint32_t max_qp_rd_atom = 16;           ///< READs and atomics of one queue pair, in each direction
  /// As a responder for all queue pairs together: max_dest_rd_atomic is taken from it when a queue pair goes
  /// to RTR (ENOMEM when it is used up), and given back when it is reset or destroyed.
  std::uint32_t max_res_rd_atom = 1U << 20;
};

/// One place of a port's GID table.
struct gid_row {
  std::uint32_t index = 0;
  union ibv_gid value {};
  std::uint32_t type = IBV_GID_TYPE_ROCE_V2; ///< ibv_gid_type
  std::uint32_t interface_index = 1;         ///< 24 bits
  bool interface_up = true;
};
/// "fe80::1", "::ffff:10.0.0.1" or "10.0.0.1".
std::optional<ibv_gid> parse_gid(const std::string& text);
std::string to_text(const ibv_gid& gid);

/// How a port is called in control calls, rules, logs and options: port 1 as its device, port 2 of soft0
/// "soft0:2".
std::string port_name(const std::string& device, std::uint32_t port);

/// "ethernet" or "infiniband", as option of programs and files; nothing else is one.
std::optional<std::uint8_t> parse_link_layer(std::string_view name) noexcept;
/// "Ethernet" or "InfiniBand", as in sysfs.
const char* link_layer_name(std::uint8_t link_layer) noexcept;
/// "fec0:0:0:2::", the upper half of an IPv6 address, the lower being zero; 0 is none.
std::optional<std::uint64_t> parse_subnet_prefix(const std::string& text);

/// LIDs of ports of an InfiniBand subnet: the subnet manager has the one before, and what follows them leads
/// to other subnets.
inline constexpr std::uint16_t least_lid = 2;
inline constexpr std::uint16_t greatest_lid = 0x7fff;
inline constexpr std::uint16_t subnet_manager_lid = 1;
inline constexpr std::uint64_t default_subnet_prefix = 0xfe80'0000'0000'0000;

/// What a port says of its width and its lanes' speed at first, whatever its rate.
inline constexpr std::uint32_t greatest_bond = 8; ///< members
inline constexpr std::uint32_t usual_lanes = 4;
inline constexpr double usual_lane_gbit_s = 25;

struct device_options {
  std::string name = "soft0";
  nic_mode mode = nic_mode::immediate;
  double rate_gbit_s = 25.0;      ///< paced only; each end's device is charged. Of a bond: of each member
  std::uint32_t bond_members = 1; ///< wires behind the port, 1 to 8; queue pairs use them in turn
  /// Paced only: what the memory of the host takes and gives, for all of its devices together, which name the
  /// same; 0: as much as comes.
  double host_memory_gbit_s = 0;
  base::duration latency = std::chrono::microseconds{5}; ///< paced only; one way
  std::uint32_t mtu = 4096; ///< of the port, bytes: 256, 512, 1024, 2048 or 4096. No path MTU may exceed it.
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET; ///< of the port; or IBV_LINK_LAYER_INFINIBAND
  std::uint16_t lid = 0; ///< InfiniBand: least_lid to greatest_lid, unique in its subnet; 0: a free one
  std::uint64_t subnet_prefix = default_subnet_prefix; ///< InfiniBand: upper half of its GIDs
  device_limits limits;
  std::vector<gid_row> gids; ///< of the port; empty: a table of its own
  /// Each with a wire, a link state, addresses and an MTU of its own; events of all come on the one
  /// descriptor of a context. Further ports are alike but for their addresses: `lid` and `gids` are of
  /// port 1. 1 to 8.
  std::uint32_t ports = 1;
  bool lost = false; ///< not there at first, see set_lost()
};

} // namespace actor_rdma::verbs::soft
