// SPDX-License-Identifier: Apache-2.0
//
// Writing it into the tables.
#include "verbs/soft/port_control.hpp"

#include "verbs/soft/control.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/shaper.hpp"
#include "verbs/soft/tables.hpp"

#include <array>
#include <cmath>
#include <string>

namespace actor_rdma::verbs::soft {

namespace {

constexpr const char* layer = "soft NIC";

struct coded {
  double value;
  std::uint8_t code;
};
constexpr std::array widths{coded{1, 1}, coded{2, 16}, coded{4, 2}, coded{8, 4}, coded{12, 8}};
constexpr std::array speeds{coded{2.5, 1}, coded{5, 2},   coded{10, 4},   coded{14, 16},
                            coded{25, 32}, coded{50, 64}, coded{100, 128}};

template <class Table>
std::optional<std::uint8_t> code_of(const Table& table, double value) noexcept {
  for (const auto& c : table)
    if (c.value == value)
      return c.code;
  return std::nullopt;
}

base::expected<void> check_rate(double gbit_s) {
  if (!(gbit_s >= min_rate_gbit_s && gbit_s <= max_rate_gbit_s))
    return base::fail(base::reason::invalid_argument, layer, "a rate is between 0.001 and 10000 Gbit/s");
  return {};
}

base::expected<void> check_member(const layout::device_entry& device, std::uint32_t member) {
  const auto count = device.bond_members.load(std::memory_order_relaxed);
  if (member >= count)
    return base::fail(base::reason::invalid_argument, layer,
                      device_name(device) + " has members 0 to " + std::to_string(count - 1) + ", not " +
                          std::to_string(member));
  return {};
}

} // namespace

std::optional<std::uint8_t> width_code(std::uint32_t lanes) noexcept {
  return code_of(widths, lanes);
}
std::optional<std::uint8_t> speed_code(double gbit_s) noexcept {
  return code_of(speeds, gbit_s);
}
double speed_of_code(std::uint8_t code) noexcept {
  for (const auto& c : speeds)
    if (c.code == code)
      return c.value;
  return 0;
}

base::expected<void> set_rate(runtime& rt, std::string_view name, double gbit_s,
                              std::optional<std::uint32_t> member) {
  if (auto good = check_rate(gbit_s); !good)
    return good;
  const auto index = find_device(rt, name);
  if (!index)
    return base::fail(index.error());
  auto& device = rt.tables().devices[*index];
  if (member) {
    if (auto good = check_member(device, *member); !good)
      return good;
    device.wires[*member].fs_per_byte.store(fs_per_byte(gbit_s), std::memory_order_relaxed);
    return {};
  }
  for (auto& wire : device.wires)
    wire.fs_per_byte.store(fs_per_byte(gbit_s), std::memory_order_relaxed);
  return {};
}

base::expected<void> set_member(runtime& rt, std::string_view name, std::uint32_t member, bool up,
                                std::optional<base::duration> leaves_after) {
  const auto index = find_device(rt, name);
  if (!index)
    return base::fail(index.error());
  auto& t = rt.tables();
  auto& device = t.devices[*index];
  if (auto good = check_member(device, member); !good)
    return good;
  if (leaves_after && leaves_after->count() < 0)
    return base::fail(base::reason::invalid_argument, layer, "a time cannot be negative");
  auto& wire = device.wires[member];
  const std::uint32_t down = up ? 0 : 1;
  wire.leaves_at.store(leaves_after ? rt.now() + leaves_after->count() : never, std::memory_order_relaxed);
  if (wire.is_down.exchange(down, std::memory_order_seq_cst) == down)
    return {};
  write_log(t, rt.now(), up ? log_kind::member_up : log_kind::member_down, device, 0, member);
  note_fault_change(t, rt.now());
  rt.announce_change();
  return {};
}

bool restore_members(layout::tables& t, nanos now, std::uint32_t index) noexcept {
  auto& device = t.devices[index];
  bool any = false;
  for (std::uint32_t i = 0; i < device.wires.size(); ++i)
    if (device.wires[i].is_down.exchange(0, std::memory_order_seq_cst) != 0) {
      write_log(t, now, log_kind::member_up, device, 0, i);
      any = true;
    }
  return any;
}

base::expected<void> set_width(runtime& rt, std::string_view name, std::uint32_t lanes, double lane_gbit_s) {
  if (!width_code(lanes))
    return base::fail(base::reason::invalid_argument, layer,
                      "a port has 1, 2, 4, 8 or 12 lanes, not " + std::to_string(lanes));
  const auto speed = speed_code(lane_gbit_s);
  if (!speed)
    return base::fail(base::reason::invalid_argument, layer,
                      "a lane has 2.5, 5, 10, 14, 25, 50 or 100 Gbit/s");
  const auto index = find_device(rt, name);
  if (!index)
    return base::fail(index.error());
  auto& t = rt.tables();
  auto& device = t.devices[*index];
  const auto before = device.lanes.exchange(lanes, std::memory_order_relaxed) *
                      speed_of_code(static_cast<std::uint8_t>(device.lane_speed.load()));
  device.lane_speed.store(*speed, std::memory_order_release);
  for (auto& wire : device.wires) {
    const auto per_byte = static_cast<double>(wire.fs_per_byte.load(std::memory_order_relaxed));
    wire.fs_per_byte.store(
        static_cast<std::uint64_t>(std::llround(per_byte * before / (lanes * lane_gbit_s))),
        std::memory_order_relaxed);
  }
  write_log(t, rt.now(), log_kind::width_changed, device, 0, lanes);
  return {};
}

base::expected<void> set_host_memory(runtime& rt, std::string_view host, double gbit_s) {
  if (gbit_s != 0)
    if (auto good = check_rate(gbit_s); !good)
      return good;
  auto& t = rt.tables();
  for (std::uint32_t i = 0; i < device_slots(t); ++i) {
    auto& device = t.devices[i];
    const auto name = device_name(device);
    if (device.used.load(std::memory_order_acquire) == 0 || name.substr(0, name.find('/')) != host ||
        !rt.is_reachable(device.process.load(std::memory_order_relaxed)))
      continue;
    auto& memory = t.devices[device.memory_of.load(std::memory_order_relaxed) % layout::max_devices].memory;
    memory.fs_per_byte.store(gbit_s == 0 ? 0 : fs_per_byte(gbit_s), std::memory_order_relaxed);
    return {};
  }
  return base::fail(base::reason::not_found, layer, "no host \"" + std::string{host} + "\" has a device");
}

} // namespace actor_rdma::verbs::soft
