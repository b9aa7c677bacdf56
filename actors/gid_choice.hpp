// SPDX-License-Identifier: Apache-2.0
// Which address of a port's GID table our QPs send from. A port has several: RoCE v1 and v2 of each IP
// address and of the link-local one, in an order that differs between vendors and moves when addresses come
// and go. A wrong choice shows late, as a connection that never comes up. An InfiniBand port has the GID of
// its subnet, and perhaps others. Pure: the table goes in, the choice and its reasons come out.
#pragma once

#include "base/error.hpp"
#include "bootstrap/messages.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace actor_rdma::actors {

/// One filled place of a port's GID table.
struct gid_candidate {
  std::uint32_t index = 0;
  bootstrap::gid_bytes gid{};
  std::uint8_t type = 0; ///< ibv_gid_type: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
  std::uint32_t interface_index = 0;
  bool interface_up = true;
  friend bool operator==(const gid_candidate&, const gid_candidate&) = default;
};

/// How far packets with such an address get.
enum class gid_scope : std::uint8_t {
  useless,    ///< zeros, loopback, multicast
  link_local, ///< fe80::/10, 169.254/16: not beyond the next router
  unique,     ///< fc00::/7
  global,     ///< any other IPv6
  ipv4,       ///< ::ffff:a.b.c.d, also private ones: 10/8 is routed wherever it is used
};
gid_scope scope_of(const bootstrap::gid_bytes& gid) noexcept;
const char* to_string(gid_scope scope) noexcept;
/// "::ffff:10.0.0.1", "fe80::1".
std::string gid_text(const bootstrap::gid_bytes& gid);

struct gid_address {
  bootstrap::gid_bytes gid{};
  std::uint8_t type = 0;
  friend bool operator==(const gid_address&, const gid_address&) = default;
};

struct gid_wish {
  std::optional<std::uint32_t> index; ///< the user's: honoured, or refused when the place is empty
  std::optional<gid_address> peer;    ///< whom it is to reach
  std::optional<gid_address> present; ///< ours until now: kept as long as no other is better
};

struct gid_choice {
  gid_candidate chosen;
  std::string reasons; ///< one line, for the log
};

/// Whether the two can exchange packets: the same RoCE version, the same family, both link-local or both
/// routable.
bool can_reach(const gid_candidate& ours, const gid_address& peer) noexcept;

/// By, in this order: the interface is up; the peer can be reached; RoCE v2; routable; the present one; IPv4
/// before global before unique local IPv6; the longest prefix in common with the peer; the lowest index. So
/// RoCE v1 is used if the peer has nothing else, if we have, or if the index is asked for. Of InfiniBand
/// addresses the one that names a LID for the routers of other subnets, then the present one, then the lowest
/// index. not_found when there is nothing to choose from.
base::expected<gid_choice> choose_gid(std::span<const gid_candidate> table, const gid_wish& wish);

/// Where in the table an address is now: its index moves.
std::optional<std::uint32_t> find_gid(std::span<const gid_candidate> table, const gid_address& what) noexcept;

} // namespace actor_rdma::actors
