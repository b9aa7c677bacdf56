// SPDX-License-Identifier: Apache-2.0
// The ranking, attribute by attribute, so that the first one in which two addresses differ is the reason.
#include "actors/gid_choice.hpp"

#include "actors/port_path.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

constexpr std::uint8_t infiniband = 0;
constexpr std::uint8_t roce_v2 = 2;

bool is_mapped(const bootstrap::gid_bytes& g) noexcept {
  return std::all_of(g.begin(), g.begin() + 10, [](auto b) { return b == 0; }) && g[10] == 0xff &&
         g[11] == 0xff;
}

int common_prefix_bits(const bootstrap::gid_bytes& a, const bootstrap::gid_bytes& b) noexcept {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      return static_cast<int>(8 * i) + std::countl_zero(static_cast<std::uint8_t>(a[i] ^ b[i]));
  return 128;
}

const char* type_text(std::uint8_t type) noexcept {
  return type == 0 ? "InfiniBand" : type == 1 ? "RoCE v1" : "RoCE v2";
}

/// One attribute of the ranking: greater is better. `worse` says of the loser why.
struct attribute {
  int (*rank)(const gid_candidate&, const gid_wish&) noexcept;
  const char* worse;
};

constexpr std::array<attribute, 9> ranking{{
    {[](const gid_candidate& c, const gid_wish&) noexcept { return c.interface_up ? 1 : 0; },
     "its interface is down"},
    {[](const gid_candidate& c, const gid_wish& w) noexcept {
       return !w.peer || can_reach(c, *w.peer) ? 1 : 0;
     },
     "it cannot reach the peer's"},
    {[](const gid_candidate& c, const gid_wish&) noexcept { return c.type == roce_v2 ? 1 : 0; },
     "not RoCE v2"},
    {[](const gid_candidate& c, const gid_wish&) noexcept {
       return c.type == infiniband || scope_of(c.gid) > gid_scope::link_local ? 1 : 0;
     },
     "link-local"},
    {[](const gid_candidate& c, const gid_wish&) noexcept {
       return c.type == infiniband && router_lid(c.gid) != 0 ? 1 : 0;
     },
     "routers do not know it"},
    {[](const gid_candidate& c, const gid_wish& w) noexcept {
       return w.present && gid_address{c.gid, c.type} == *w.present ? 1 : 0;
     },
     "the present one is as good"},
    {[](const gid_candidate& c, const gid_wish&) noexcept {
       return c.type == infiniband ? 0 : static_cast<int>(scope_of(c.gid));
     },
     "IPv4 goes before global and unique local IPv6"},
    {[](const gid_candidate& c, const gid_wish& w) noexcept {
       return w.peer && c.type != infiniband ? common_prefix_bits(c.gid, w.peer->gid) : 0;
     },
     "its prefix is less like the peer's"},
    {[](const gid_candidate& c, const gid_wish&) noexcept { return -static_cast<int>(c.index); },
     "a higher index"},
}};

/// The attribute in which `a` and `b` differ first; indices are distinct, so there is one.
const attribute& first_difference(const gid_candidate& a, const gid_candidate& b,
                                  const gid_wish& w) noexcept {
  return *std::find_if(ranking.begin(), ranking.end() - 1,
                       [&](const attribute& x) { return x.rank(a, w) != x.rank(b, w); });
}

std::string describe(const gid_candidate& c, const gid_wish& w) {
  auto text = fmt::format("GID {} {}: {}", c.index, gid_text(c.gid), type_text(c.type));
  if (c.type != infiniband) // there the prefix is the subnet's, and link-local is what most have
    text += fmt::format(", {}", to_string(scope_of(c.gid)));
  if (c.interface_index != 0)
    text += fmt::format(", interface {} {}", c.interface_index, c.interface_up ? "up" : "down");
  if (w.peer)
    text += fmt::format(", {} the peer's {}", can_reach(c, *w.peer) ? "reaches" : "DOES NOT REACH",
                        gid_text(w.peer->gid));
  return text;
}

} // namespace

gid_scope scope_of(const bootstrap::gid_bytes& g) noexcept {
  if (is_mapped(g)) {
    if (g[12] == 169 && g[13] == 254)
      return gid_scope::link_local;
    return g[12] == 0 || g[12] == 127 || g[12] >= 224 ? gid_scope::useless : gid_scope::ipv4;
  }
  if (g[0] == 0xfe && (g[1] & 0xc0) == 0x80)
    return gid_scope::link_local;
  if (g[0] == 0xff || std::all_of(g.begin(), g.end() - 1, [](auto b) { return b == 0; }))
    return gid_scope::useless;
  return (g[0] & 0xfe) == 0xfc ? gid_scope::unique : gid_scope::global;
}

const char* to_string(gid_scope scope) noexcept {
  switch (scope) {
  case gid_scope::useless: return "useless";
  case gid_scope::link_local: return "link-local";
  case gid_scope::unique: return "routable (unique local)";
  case gid_scope::global: return "routable";
  case gid_scope::ipv4: return "routable (IPv4)";
  }
  return "?";
}

std::string gid_text(const bootstrap::gid_bytes& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  (void)::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

bool can_reach(const gid_candidate& ours, const gid_address& peer) noexcept {
  const auto mine = scope_of(ours.gid);
  const auto theirs = scope_of(peer.gid);
  if (ours.type != peer.type || mine == gid_scope::useless || theirs == gid_scope::useless)
    return false;
  if (ours.type == infiniband)
    return true; // the LID decides
  return is_mapped(ours.gid) == is_mapped(peer.gid) &&
         (mine == gid_scope::link_local) == (theirs == gid_scope::link_local);
}

base::expected<gid_choice> choose_gid(std::span<const gid_candidate> table, const gid_wish& wish) {
  if (wish.index) {
    const auto at =
        std::find_if(table.begin(), table.end(), [&](const auto& c) { return c.index == *wish.index; });
    if (at != table.end())
      return gid_choice{*at, describe(*at, wish) + "; gid_index asks for it"};
    std::string filled;
    for (const auto& c : table)
      filled += fmt::format("{}{} ({})", filled.empty() ? "" : ", ", c.index, gid_text(c.gid));
    return base::fail(base::reason::not_found, "GID choice",
                      fmt::format("gid_index {} is an empty place of the port's GID table; filled are: {}",
                                  *wish.index, filled.empty() ? "none" : filled));
  }
  const gid_candidate* best = nullptr;
  for (const auto& c : table) {
    if (scope_of(c.gid) == gid_scope::useless)
      continue;
    if (best != nullptr) {
      const auto& differs = first_difference(c, *best, wish);
      if (differs.rank(c, wish) < differs.rank(*best, wish))
        continue;
    }
    best = &c;
  }
  if (best == nullptr)
    return base::fail(base::reason::not_found, "GID choice", "the port's GID table has no usable address");
  gid_choice choice{*best, describe(*best, wish)};
  std::size_t told = 0;
  for (const auto& c : table) {
    if (c.index == best->index || told == 3)
      continue;
    const auto* why =
        scope_of(c.gid) == gid_scope::useless ? "useless" : first_difference(*best, c, wish).worse;
    choice.reasons += fmt::format("; not {} {}: {}", c.index, gid_text(c.gid), why);
    ++told;
  }
  return choice;
}

std::optional<std::uint32_t> find_gid(std::span<const gid_candidate> table,
                                      const gid_address& what) noexcept {
  for (const auto& c : table)
    if (gid_address{c.gid, c.type} == what)
      return c.index;
  return std::nullopt;
}

} // namespace actor_rdma::actors
