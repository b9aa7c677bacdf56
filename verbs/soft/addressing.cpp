// SPDX-License-Identifier: Apache-2.0
//
// Reading, writing and searching GID tables.
#include "verbs/soft/addressing.hpp"

#include "verbs/soft/routing.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>
#include <endian.h>

namespace actor_rdma::verbs::soft {

namespace {

// The parts of gid_place::meta. The upper half counts writes, so that a reader sees that one came between.
constexpr std::uint64_t second_value = 1;
constexpr std::uint64_t present = 2;
constexpr int type_shift = 2; // two bits
constexpr std::uint64_t interface_is_up = 16;
constexpr int interface_shift = 8; // 24 bits
constexpr std::uint64_t one_write = std::uint64_t{1} << 32;

ibv_gid gid_of(const std::uint8_t (&raw)[16]) noexcept {
  ibv_gid gid{};
  std::memcpy(gid.raw, raw, sizeof raw);
  return gid;
}

} // namespace

ibv_gid make_gid(std::uint32_t device, std::uint32_t gid_index) noexcept {
  const auto high = static_cast<std::uint8_t>(device >> 8);
  const auto low = static_cast<std::uint8_t>(device);
  if (gid_index < 2) // fe80::52:41ff:fe4d:<device>, as derived from a locally administered MAC address
    return gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x52, 0x41, 0xff, 0xfe, 0x4d, high, low});
  return gid_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, high, low}); // ::ffff:10.77.<device>
}

std::vector<gid_row> default_gid_table(std::uint32_t device) {
  std::vector<gid_row> rows;
  for (std::uint32_t i = 0; i < default_gids; ++i)
    rows.push_back({i, make_gid(device, i),
                    i % 2 == 0 ? std::uint32_t{IBV_GID_TYPE_ROCE_V1} : std::uint32_t{IBV_GID_TYPE_ROCE_V2},
                    device + 1, true});
  return rows;
}

std::vector<gid_row> default_infiniband_gids(std::uint32_t device, std::uint64_t subnet_prefix) {
  constexpr std::uint32_t first_router_lid = 0x8000; // no port has it as its own
  static_assert(first_router_lid > greatest_lid && first_router_lid + layout::max_devices < 0xc000);
  auto gid = make_gid(device, 0);
  const auto set_prefix = [&](std::uint64_t prefix) {
    const auto words = htobe64(prefix);
    std::memcpy(gid.raw, &words, sizeof words);
  };
  set_prefix(subnet_prefix);
  std::vector<gid_row> rows{{0, gid, IBV_GID_TYPE_IB, 0, true}};
  if (subnet_prefix >> 54 == 0xfec0 >> 6) {
    set_prefix(subnet_prefix | std::uint64_t{first_router_lid + device} << 16);
    rows.push_back({1, gid, IBV_GID_TYPE_IB, 0, true});
  }
  return rows;
}

std::uint64_t subnet_prefix_of(const ibv_gid& gid) noexcept {
  std::uint64_t words = 0;
  std::memcpy(&words, gid.raw, sizeof words);
  return be64toh(words) & (router_lid(gid) != 0 ? ~(std::uint64_t{0xffff} << 16) : ~std::uint64_t{0});
}

bool is_free_lid(const layout::tables& t, std::uint32_t device, std::uint32_t lid) noexcept {
  const auto subnet = t.devices[device].subnet_prefix.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < device_slots(t); ++i) {
    const auto& other = t.devices[i];
    if (i != device && other.used.load(std::memory_order_acquire) != 0 && is_infiniband(other) &&
        other.subnet_prefix.load(std::memory_order_relaxed) == subnet &&
        other.lid.load(std::memory_order_relaxed) == lid)
      return false;
  }
  return true;
}

std::optional<std::uint16_t> choose_lid(const layout::tables& t, std::uint32_t device) noexcept {
  constexpr std::uint32_t all = greatest_lid - least_lid + 1;
  for (std::uint32_t i = 0; i < all; ++i) {
    const auto lid = least_lid + (device + i) % all;
    if (is_free_lid(t, device, lid))
      return static_cast<std::uint16_t>(lid);
  }
  return std::nullopt;
}

std::optional<gid_row> read_gid(const layout::device_entry& device, std::uint32_t index) noexcept {
  if (index >= device.gids.size())
    return std::nullopt;
  const auto& place = device.gids[index];
  auto meta = place.meta.load(std::memory_order_acquire);
  for (;;) {
    if ((meta & present) == 0)
      return std::nullopt;
    const auto& value = place.value[meta & second_value];
    // Whoever sees a word of a later value also sees that the value before it was announced.
    const std::uint64_t words[2] = {value[0].load(std::memory_order_acquire),
                                    value[1].load(std::memory_order_acquire)};
    const auto after = place.meta.load(std::memory_order_acquire);
    if (after == meta) {
      gid_row row;
      row.index = index;
      std::memcpy(row.value.raw, words, sizeof words);
      row.type = static_cast<std::uint32_t>(meta >> type_shift) & 3;
      row.interface_up = (meta & interface_is_up) != 0;
      row.interface_index = static_cast<std::uint32_t>(meta >> interface_shift) & 0xffffff;
      return row;
    }
    meta = after;
  }
}

void write_gid(layout::device_entry& device, std::uint32_t index,
               const std::optional<gid_row>& row) noexcept {
  auto& place = device.gids[index];
  const auto before = place.meta.load(std::memory_order_relaxed);
  const auto writes = (before & ~(one_write - 1)) + one_write;
  if (!row) {
    place.meta.store(writes | (before & second_value), std::memory_order_release);
    return;
  }
  const auto which = (before & second_value) ^ second_value;
  std::uint64_t words[2];
  std::memcpy(words, row->value.raw, sizeof words);
  for (std::size_t i = 0; i < 2; ++i)
    place.value[which][i].store(words[i], std::memory_order_release);
  place.meta.store(writes | which | present | std::uint64_t{row->type & 3} << type_shift |
                       (row->interface_up ? interface_is_up : 0) |
                       std::uint64_t{row->interface_index & 0xffffff} << interface_shift,
                   std::memory_order_release);
}

bool has_gid(const layout::device_entry& device, const ibv_gid& gid) noexcept {
  for (std::uint32_t i = 0; i < device.gids.size(); ++i)
    if (const auto row = read_gid(device, i); row && is_same_gid(row->value, gid))
      return true;
  return false;
}

bool is_same_gid(const ibv_gid& a, const ibv_gid& b) noexcept {
  return std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
}

bool is_mtu(std::uint32_t bytes) noexcept {
  return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

ibv_mtu mtu_value(std::uint32_t bytes) noexcept {
  switch (bytes) {
  case 256: return IBV_MTU_256;
  case 512: return IBV_MTU_512;
  case 1024: return IBV_MTU_1024;
  case 2048: return IBV_MTU_2048;
  default: return IBV_MTU_4096;
  }
}

std::optional<std::uint8_t> parse_link_layer(std::string_view name) noexcept {
  if (name == "ethernet")
    return std::uint8_t{IBV_LINK_LAYER_ETHERNET};
  return name == "infiniband" ? std::optional{std::uint8_t{IBV_LINK_LAYER_INFINIBAND}} : std::nullopt;
}

const char* link_layer_name(std::uint8_t link_layer) noexcept {
  return link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
}

std::optional<std::uint64_t> parse_subnet_prefix(const std::string& text) {
  ibv_gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.raw) != 1 ||
      std::any_of(gid.raw + 8, gid.raw + 16, [](std::uint8_t b) { return b != 0; }))
    return std::nullopt;
  const auto prefix = subnet_prefix_of(gid);
  return prefix != 0 && router_lid(gid) == 0 ? std::optional{prefix} : std::nullopt;
}

std::optional<ibv_gid> parse_gid(const std::string& text) {
  ibv_gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.raw) == 1)
    return gid;
  gid = {};
  gid.raw[10] = gid.raw[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), gid.raw + 12) == 1)
    return gid;
  return std::nullopt;
}

std::string port_name(const std::string& device, std::uint32_t port) {
  return port == 1 ? device : device + ':' + std::to_string(port);
}

std::string to_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  (void)::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

} // namespace actor_rdma::verbs::soft
