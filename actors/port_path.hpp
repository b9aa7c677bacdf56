// SPDX-License-Identifier: Apache-2.0
// The way between two ports: what goes into the address handle of a queue pair, and which ports of two nodes
// can be paired at all. RoCE has GIDs and nothing else. Over InfiniBand switches go by the LID, and a GRH is
// needed only to leave the subnet; both ends have to agree on it, because an adapter drops what comes
// otherwise than its queue pair's own address handle says. So it is computed from what both ends have told
// each other.
#pragma once

#include "bootstrap/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::actors {

/// IBV_LINK_LAYER_INFINIBAND or IBV_LINK_LAYER_ETHERNET. A port that does not say is an InfiniBand port if it
/// has a LID and its GID's type is no RoCE, as in peers of earlier builds.
std::uint8_t link_layer_of(const bootstrap::port_address& port) noexcept;
/// "InfiniBand", "Ethernet", "link layer 7".
std::string link_layer_text(std::uint8_t link_layer);

/// Whether packets between the two carry a GRH: over Ethernet always; over InfiniBand if they leave the
/// subnet or one of the ports asks for it. The same from either side.
bool needs_grh(const bootstrap::port_address& a, const bootstrap::port_address& b) noexcept;

/// Whether the two are in one InfiniBand subnet: by the prefixes of their GIDs, without the LID for routers
/// that a site-local one may hold.
bool same_subnet(const bootstrap::gid_bytes& a, const bootstrap::gid_bytes& b) noexcept;
/// The LID under which the routers of other subnets know a port, from its site-local GID; 0: none.
std::uint16_t router_lid(const bootstrap::gid_bytes& gid) noexcept;

/// For RTR at `ours`, port `port` of its device; `gid_index` is where our GID is in the port's table.
ibv_ah_attr address_handle(const bootstrap::port_address& ours, std::uint8_t port, std::uint32_t gid_index,
                           const bootstrap::port_address& peer) noexcept;

/// Our device and the peer's, by their numbers.
using rail = std::pair<std::size_t, std::size_t>;

/// The rails that are missing beside `have`, so that each device of both sides has one: the first with the
/// first of the same link layer, and so on, the shorter list from its beginning again. A device whose link
/// layer the other side does not have gets none.
std::vector<rail> missing_rails(std::span<const std::uint8_t> ours, std::span<const std::uint8_t> theirs,
                                std::span<const rail> have);

} // namespace actor_rdma::actors
