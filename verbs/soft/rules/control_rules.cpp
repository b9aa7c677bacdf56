// SPDX-License-Identifier: Apache-2.0
//
// The control surface for rules and events, and what ends all faults.
#include "verbs/soft/control.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/port_control.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/rules/rule_table.hpp"
#include "verbs/soft/rules/rule_words.hpp"
#include "verbs/soft/tables.hpp"

#include <string>

#include <fmt/format.h>

namespace actor_rdma::verbs::soft {

namespace {
constexpr const char* layer = "soft NIC";

bool has_qp(const layout::tables& t, std::uint32_t device, std::uint32_t qp_num) noexcept {
  const auto& entry = t.qps[index_of_qp_number(t, qp_num)];
  const auto& port = t.devices[entry.device.load(std::memory_order_acquire) % layout::max_devices];
  return entry.owner.load(std::memory_order_acquire) != 0 &&
         entry.qpn.load(std::memory_order_acquire) == qp_num &&
         port.first_port.load(std::memory_order_acquire) == device;
}

} // namespace

base::expected<std::uint32_t> add_rule(runtime& rt, std::string_view text) {
  auto id = store_rule(rt.tables(), rt.now(), text);
  if (id)
    rt.announce_change();
  return id;
}

base::expected<void> remove_rule(runtime& rt, std::uint32_t id) {
  if (!drop_rule(rt.tables(), id))
    return base::fail(base::reason::not_found, layer, "there is no rule " + std::to_string(id));
  rt.announce_change();
  return {};
}

void clear_rules(runtime& rt) {
  drop_rules(rt.tables());
  rt.announce_change();
}

std::vector<rule_state> list_rules(const runtime& rt) {
  std::vector<rule_state> all;
  for (auto& r : stored_rules(rt.tables()))
    all.push_back({r.id, std::move(r.text), r.matches, r.hits});
  return all;
}

base::expected<void> raise_event(runtime& rt, std::string_view device, std::string_view type,
                                 std::uint32_t count, std::uint32_t qp_num) {
  const auto event = parse_event(type);
  if (!event)
    return base::fail(event.error());
  const auto index = find_device(rt, device);
  if (!index)
    return base::fail(index.error());
  if (const auto& entry = rt.tables().devices[*index];
      !is_of_port(*event) && entry.port.load(std::memory_order_acquire) != 1)
    return base::fail(
        base::reason::invalid_argument, layer,
        fmt::format("{} is no event of a port: say the device, {}", type,
                    device_name(rt.tables().devices[entry.first_port.load(std::memory_order_acquire) %
                                                    layout::max_devices])));
  if (qp_num != 0 && subject_of(*event) == event_subject::device)
    return base::fail(base::reason::invalid_argument, layer,
                      std::string{type} + " is an event of the device, not of a queue pair");
  if (qp_num != 0 && !has_qp(rt.tables(), *index, qp_num))
    return base::fail(base::reason::not_found, layer,
                      fmt::format("{} has no queue pair {:#x} ({})", device, qp_num, qp_num));
  write_raised(rt.tables(), {*index, *event, count, qp_num});
  rt.announce_change();
  return {};
}

base::expected<void> reset_faults(runtime& rt) {
  auto& t = rt.tables();
  drop_rules(t);
  for (std::uint32_t i = 0; i < layout::max_devices; ++i) {
    auto& device = t.devices[i];
    if (device.used.load(std::memory_order_acquire) == 0)
      continue;
    change_loss(t, rt.now(), i, false);
    change_link(t, rt.now(), i, true, false);
    restore_members(t, rt.now(), i);
    if (device.hang.exchange(0, std::memory_order_seq_cst) != 0)
      write_log(t, rt.now(), log_kind::hang_off, device);
    if (device.delay.exchange(0, std::memory_order_seq_cst) != 0)
      write_log(t, rt.now(), log_kind::delay_off, device);
  }
  note_fault_change(t, rt.now());
  rt.announce_change();
  return {};
}

} // namespace actor_rdma::verbs::soft
