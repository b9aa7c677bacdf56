// SPDX-License-Identifier: Apache-2.0
//
// Writing faults into the tables. The first word that changes takes effect at once in every process;
// announcing it makes the processes look at what was stuck.
#include "verbs/soft/control.hpp"

#include "verbs/soft/addressing.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/port_control.hpp"
#include "verbs/soft/routing.hpp"
#include "verbs/soft/shaper.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <mutex>
#include <string>

namespace actor_rdma::verbs::soft {

namespace {

constexpr const char* layer = "soft NIC";

bool is_present(const runtime& rt, const layout::device_entry& device) noexcept {
  return device.used.load(std::memory_order_acquire) != 0 &&
         rt.is_reachable(device.process.load(std::memory_order_relaxed));
}

/// Finds the device, lets `change` write, logs and announces. `change` returns false if nothing changed.
template <class Change>
base::expected<void> apply(runtime& rt, std::string_view name, log_kind kind, std::uint32_t detail,
                           Change change) {
  auto& t = rt.tables();
  const auto index = find_device(rt, name);
  if (!index)
    return base::fail(index.error());
  auto& device = t.devices[*index];
  if (!change(device))
    return {};
  write_log(t, rt.now(), kind, device, 0, detail);
  if (kind != log_kind::mode_changed && kind != log_kind::address_changed)
    note_fault_change(t, rt.now());
  rt.announce_change();
  return {};
}

/// One change of a port's addresses. They have one writer at a time: the segment's lock keeps other processes
/// out, the mutex other threads of this one.
std::mutex address_writer;
template <class Change>
base::expected<void> change_addresses(runtime& rt, std::string_view name, std::uint32_t detail,
                                      Change change) {
  std::lock_guard lock{address_writer};
  if (!rt.memory().lock())
    return base::fail(base::reason::busy, layer, "a stopped process holds the fabric's lock");
  auto outcome = apply(rt, name, log_kind::address_changed, detail, change);
  rt.memory().unlock();
  return outcome;
}

template <class Change>
base::expected<void> change_gids(runtime& rt, std::string_view name, std::uint32_t index, Change change) {
  if (index >= layout::gids_per_port)
    return base::fail(base::reason::invalid_argument, layer,
                      "a GID index is 0 to " + std::to_string(layout::gids_per_port - 1) + ", not " +
                          std::to_string(index));
  return change_addresses(rt, name, index, [&](layout::device_entry& d) {
    if (!change(d))
      return false;
    d.gid_epoch.fetch_add(1, std::memory_order_seq_cst);
    return true;
  });
}

} // namespace

base::expected<std::uint32_t> find_device(const runtime& rt, std::string_view name) {
  const auto& t = rt.tables();
  const bool is_full = name.find('/') != std::string_view::npos;
  std::uint32_t found = layout::max_devices;
  for (std::uint32_t i = 0; i < device_slots(t); ++i) {
    if (!is_present(rt, t.devices[i]))
      continue;
    const auto full = device_name(t.devices[i]);
    if ((is_full ? full : full.substr(full.find('/') + 1)) != name)
      continue;
    if (found != layout::max_devices)
      return base::fail(base::reason::invalid_argument, layer,
                        '"' + std::string{name} + "\" is ambiguous: say host/" + std::string{name});
    found = i;
  }
  if (found == layout::max_devices)
    return base::fail(base::reason::not_found, layer, "there is no device \"" + std::string{name} + '"');
  return found;
}

bool change_link(layout::tables& t, nanos now, std::uint32_t index, bool up, bool is_quiet) noexcept {
  auto& device = t.devices[index];
  auto seq = device.link_seq.load(std::memory_order_seq_cst);
  while ((seq % 2 == 0) != up) {
    const auto bit = std::uint64_t{1} << seq % 64; // said before it happens
    if (is_quiet)
      device.quiet_changes.fetch_or(bit, std::memory_order_seq_cst);
    else
      device.quiet_changes.fetch_and(~bit, std::memory_order_seq_cst);
    if (device.link_seq.compare_exchange_weak(seq, seq + 1, std::memory_order_seq_cst)) {
      write_log(t, now, up ? log_kind::link_up : log_kind::link_down, device, 0, is_quiet ? 1 : 0);
      note_fault_change(t, now);
      return true;
    }
  }
  return false;
}

base::expected<void> set_link(runtime& rt, std::string_view device, bool up, bool is_quiet) {
  const auto index = find_device(rt, device);
  if (!index)
    return base::fail(index.error());
  if (change_link(rt.tables(), rt.now(), *index, up, is_quiet))
    rt.announce_change();
  return {};
}

base::expected<void> set_hang(runtime& rt, std::string_view device, hang_mode mode) {
  const auto value = static_cast<std::uint32_t>(mode);
  return apply(
      rt, device, mode != hang_mode::off ? log_kind::hang_on : log_kind::hang_off, value,
      [&](layout::device_entry& d) { return d.hang.exchange(value, std::memory_order_seq_cst) != value; });
}

base::expected<void> set_delay(runtime& rt, std::string_view device, base::duration by) {
  if (by.count() < 0)
    return base::fail(base::reason::invalid_argument, layer, "a delay cannot be negative");
  return apply(rt, device, by.count() != 0 ? log_kind::delay_on : log_kind::delay_off, 0,
               [&](layout::device_entry& d) {
                 return d.delay.exchange(by.count(), std::memory_order_seq_cst) != by.count();
               });
}

bool change_loss(layout::tables& t, nanos now, std::uint32_t index, bool lost) noexcept {
  auto& device = t.devices[index];
  auto seq = device.loss_seq.load(std::memory_order_seq_cst);
  while ((seq % 2 != 0) != lost)
    if (device.loss_seq.compare_exchange_weak(seq, seq + 1, std::memory_order_seq_cst)) {
      write_log(t, now, lost ? log_kind::device_lost : log_kind::device_back, device);
      note_fault_change(t, now);
      return true;
    }
  return false;
}

base::expected<void> set_lost(runtime& rt, std::string_view device, bool on) {
  const auto index = find_device(rt, device);
  if (!index)
    return base::fail(index.error());
  const auto& entry = rt.tables().devices[*index];
  if (entry.port.load(std::memory_order_acquire) != 1)
    return base::fail(
        base::reason::invalid_argument, layer,
        "a device is lost with all of its ports: say " +
            device_name(
                rt.tables().devices[entry.first_port.load(std::memory_order_acquire) % layout::max_devices]));
  if (change_loss(rt.tables(), rt.now(), *index, on))
    rt.announce_change();
  return {};
}

base::expected<void> set_mode(runtime& rt, std::string_view device, nic_mode mode) {
  const auto value = static_cast<std::uint32_t>(mode);
  return apply(rt, device, log_kind::mode_changed, value, [&](layout::device_entry& d) {
    return d.mode.exchange(value, std::memory_order_seq_cst) != value;
  });
}

base::expected<void> set_gid(runtime& rt, std::string_view device, const gid_row& row) {
  if (row.type > IBV_GID_TYPE_ROCE_V2)
    return base::fail(base::reason::invalid_argument, layer, "a GID's type is IB, RoCE v1 or RoCE v2");
  if (is_same_gid(row.value, ibv_gid{}))
    return base::fail(base::reason::invalid_argument, layer, "a GID cannot be all zeros");
  bool fits = true;
  auto outcome = change_gids(rt, device, row.index, [&](layout::device_entry& d) {
    fits = !is_infiniband(d) || row.type == IBV_GID_TYPE_IB;
    if (fits)
      write_gid(d, row.index, row);
    return fits;
  });
  if (outcome && !fits)
    return base::fail(base::reason::invalid_argument, layer, "an InfiniBand port has GIDs of type IB only");
  return outcome;
}

base::expected<void> delete_gid(runtime& rt, std::string_view device, std::uint32_t index) {
  return change_gids(rt, device, index, [&](layout::device_entry& d) {
    const bool was_there = read_gid(d, index).has_value();
    write_gid(d, index, std::nullopt);
    return was_there;
  });
}

base::expected<void> move_gid(runtime& rt, std::string_view device, std::uint32_t from, std::uint32_t to) {
  if (from >= layout::gids_per_port)
    return change_gids(rt, device, from, [](layout::device_entry&) { return false; });
  bool was_there = false;
  auto outcome = change_gids(rt, device, to, [&](layout::device_entry& d) {
    const auto row = read_gid(d, from);
    was_there = row.has_value();
    if (!row || from == to)
      return false;
    write_gid(d, to, row);
    write_gid(d, from, std::nullopt);
    return true;
  });
  if (outcome && !was_there)
    return base::fail(base::reason::not_found, layer,
                      "the place " + std::to_string(from) + " of the GID table is empty");
  return outcome;
}

base::expected<std::vector<gid_row>> list_gids(const runtime& rt, std::string_view device) {
  const auto index = find_device(rt, device);
  if (!index)
    return base::fail(index.error());
  std::vector<gid_row> rows;
  for (std::uint32_t i = 0; i < layout::gids_per_port; ++i)
    if (const auto row = read_gid(rt.tables().devices[*index], i))
      rows.push_back(*row);
  return rows;
}

base::expected<void> set_mtu(runtime& rt, std::string_view device, std::uint32_t bytes) {
  if (!is_mtu(bytes))
    return base::fail(base::reason::invalid_argument, layer,
                      "an MTU is 256, 512, 1024, 2048 or 4096 bytes, not " + std::to_string(bytes));
  return apply(rt, device, log_kind::address_changed, bytes, [&](layout::device_entry& d) {
    return d.mtu.exchange(bytes, std::memory_order_seq_cst) != bytes;
  });
}

base::expected<void> set_lid(runtime& rt, std::string_view device, std::uint16_t lid) {
  std::string wrong;
  auto outcome = change_addresses(rt, device, lid, [&](layout::device_entry& d) {
    const auto index = static_cast<std::uint32_t>(&d - rt.tables().devices.data());
    if (is_infiniband(d) && lid != 0) {
      if (lid < least_lid || lid > greatest_lid)
        wrong = "a port's LID is " + std::to_string(least_lid) + " to " + std::to_string(greatest_lid) +
                ", or 0 for none, not " + std::to_string(lid);
      else if (!is_free_lid(rt.tables(), index, lid))
        wrong = "another port of the subnet has LID " + std::to_string(lid);
    }
    if (!wrong.empty() || d.lid.exchange(lid, std::memory_order_seq_cst) == lid)
      return false;
    d.lid_epoch.fetch_add(1, std::memory_order_seq_cst);
    return true;
  });
  if (outcome && !wrong.empty())
    return base::fail(base::reason::invalid_argument, layer, wrong);
  return outcome;
}

std::vector<device_state> list_devices(const runtime& rt) {
  std::vector<device_state> all;
  const auto& t = rt.tables();
  for (std::uint32_t i = 0; i < device_slots(t); ++i) {
    const auto& d = t.devices[i];
    if (!is_present(rt, d))
      continue;
    device_state s;
    s.name = device_name(d);
    s.link_up = d.link_seq.load(std::memory_order_acquire) % 2 == 0;
    const auto hang = d.hang.load(std::memory_order_acquire);
    s.hang = hang != 0;
    const auto& first = t.devices[d.first_port.load(std::memory_order_acquire) % layout::max_devices];
    s.lost = first.loss_seq.load(std::memory_order_acquire) % 2 != 0;
    s.hang_hard = hang == static_cast<std::uint32_t>(hang_mode::hard);
    s.delay = base::duration{d.delay.load(std::memory_order_acquire)};
    s.mode = static_cast<nic_mode>(d.mode.load(std::memory_order_acquire));
    s.bond_members = std::min(d.bond_members.load(std::memory_order_acquire), layout::max_bond_members);
    s.members_up = 0;
    for (std::uint32_t m = 0; m < s.bond_members; ++m) {
      s.rate_gbit_s += rate_gbit_s(d.wires[m].fs_per_byte.load(std::memory_order_acquire));
      s.members_up += d.wires[m].is_down.load(std::memory_order_acquire) == 0 ? 1 : 0;
    }
    s.lanes = d.lanes.load(std::memory_order_acquire);
    s.lane_gbit_s = speed_of_code(static_cast<std::uint8_t>(d.lane_speed.load(std::memory_order_acquire)));
    s.open_qps = d.open_qps.load(std::memory_order_acquire);
    s.open_mrs = d.open_mrs.load(std::memory_order_acquire);
    s.bytes_sent = d.bytes_sent.load(std::memory_order_acquire);
    s.stuck_wrs = d.stuck_wrs.load(std::memory_order_acquire);
    s.mtu = d.mtu.load(std::memory_order_acquire);
    s.lid = d.lid.load(std::memory_order_acquire);
    s.link_layer = static_cast<std::uint8_t>(d.link_layer.load(std::memory_order_relaxed));
    all.push_back(std::move(s));
  }
  return all;
}

} // namespace actor_rdma::verbs::soft
