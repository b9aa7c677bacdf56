// SPDX-License-Identifier: Apache-2.0
// Address handles and pairs.
#include "actors/port_path.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

constexpr std::uint8_t hop_limit = 64;

std::vector<std::size_t> of_layer(std::span<const std::uint8_t> all, std::uint8_t layer) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] == layer)
      found.push_back(i);
  return found;
}

/// Which of `others` device `i` of `side` is paired with: it is the n-th of its link layer.
std::size_t partner(std::size_t i, std::span<const std::uint8_t> side,
                    const std::vector<std::size_t>& others) {
  const auto n = std::count(side.begin(), side.begin() + static_cast<std::ptrdiff_t>(i), side[i]);
  return others[static_cast<std::size_t>(n) % others.size()];
}

} // namespace

std::uint8_t link_layer_of(const bootstrap::port_address& port) noexcept {
  if (port.link_layer != IBV_LINK_LAYER_UNSPECIFIED)
    return port.link_layer;
  return port.lid != 0 && port.gid_type == IBV_GID_TYPE_IB ? std::uint8_t{IBV_LINK_LAYER_INFINIBAND}
                                                           : std::uint8_t{IBV_LINK_LAYER_ETHERNET};
}

std::string link_layer_text(std::uint8_t link_layer) {
  return link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
         : link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
                                                 : fmt::format("link layer {}", link_layer);
}

std::uint16_t router_lid(const bootstrap::gid_bytes& gid) noexcept {
  const bool is_site_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0xc0;
  return is_site_local ? static_cast<std::uint16_t>(gid[4] << 8 | gid[5]) : std::uint16_t{0};
}

bool same_subnet(const bootstrap::gid_bytes& a, const bootstrap::gid_bytes& b) noexcept {
  const auto prefix = [](bootstrap::gid_bytes gid) {
    if (router_lid(gid) != 0)
      gid[4] = gid[5] = 0;
    return gid;
  };
  return std::memcmp(prefix(a).data(), prefix(b).data(), 8) == 0;
}

bool needs_grh(const bootstrap::port_address& a, const bootstrap::port_address& b) noexcept {
  return link_layer_of(a) != IBV_LINK_LAYER_INFINIBAND || a.grh || b.grh || !same_subnet(a.gid, b.gid);
}

ibv_ah_attr address_handle(const bootstrap::port_address& ours, std::uint8_t port, std::uint32_t gid_index,
                           const bootstrap::port_address& peer) noexcept {
  ibv_ah_attr handle{};
  handle.port_num = port;
  handle.dlid = peer.lid;
  if (link_layer_of(ours) == IBV_LINK_LAYER_INFINIBAND && !same_subnet(ours.gid, peer.gid))
    if (const auto lid = router_lid(peer.gid); lid != 0)
      handle.dlid = lid;
  if (!needs_grh(ours, peer))
    return handle;
  handle.is_global = 1;
  std::memcpy(&handle.grh.dgid, peer.gid.data(), peer.gid.size());
  handle.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  handle.grh.hop_limit = hop_limit;
  return handle;
}

std::vector<rail> missing_rails(std::span<const std::uint8_t> ours, std::span<const std::uint8_t> theirs,
                                std::span<const rail> have) {
  std::vector<rail> all(have.begin(), have.end());
  const auto has = [&](auto which, std::size_t device) {
    return std::any_of(all.begin(), all.end(), [&](const rail& r) { return r.*which == device; });
  };
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (!has(&rail::first, i))
      if (const auto others = of_layer(theirs, ours[i]); !others.empty())
        all.emplace_back(i, partner(i, ours, others));
  for (std::size_t i = 0; i < theirs.size(); ++i)
    if (!has(&rail::second, i))
      if (const auto others = of_layer(ours, theirs[i]); !others.empty())
        all.emplace_back(partner(i, theirs, others), i);
  return {all.begin() + static_cast<std::ptrdiff_t>(have.size()), all.end()};
}

} // namespace actor_rdma::actors
