// SPDX-License-Identifier: Apache-2.0
// Faults on devices of a fabric.
#include "drill/fabric_faults.hpp"

#include <algorithm>

namespace actor_rdma::drill {

namespace {

bool is_link_local(const verbs::soft::gid_row& row) {
  return row.value.raw[0] == 0xfe && (row.value.raw[1] & 0xc0) == 0x80;
}

} // namespace

device_faults::done fabric_faults::set_link(const std::string& device, bool up, bool quietly) {
  return quietly ? net_.set_link_quietly(device, up) : net_.set_link(device, up);
}
/// A port that has no carrier and one that is switched off are the same to this NIC.
device_faults::done fabric_faults::set_cable(const std::string& device, bool plugged) {
  return net_.set_link(device, plugged);
}
std::string fabric_faults::rule_of_loss(const std::string& device, const std::string& direction,
                                        const std::string& peer) {
  return "dev=" + device + (peer.empty() ? "" : " peer=" + peer) + " dir=" + direction + " do=drop";
}
device_faults::done fabric_faults::lose_packets(const std::string& device, const std::string& direction,
                                                const std::string& peer, bool on) {
  const auto rule = rule_of_loss(device, direction, peer);
  return on ? add_rule(rule) : remove_rule(rule);
}
device_faults::done fabric_faults::set_hang(const std::string& device, verbs::soft::hang_mode mode) {
  return net_.set_hang_mode(device, mode);
}
device_faults::done fabric_faults::set_lost(const std::string& device, bool on) {
  return net_.set_lost(device, on);
}
device_faults::done fabric_faults::raise_event(const std::string& device, const std::string& event,
                                               std::uint32_t count) {
  if (event == "DEVICE_FATAL")
    called_lost_.insert(device);
  return net_.raise_event(device, event, count);
}
device_faults::done fabric_faults::add_rule(const std::string& text) {
  const auto what = verbs::soft::parse_rule(text);
  if (!what)
    return base::fail(what.error());
  const auto id = net_.add_rule(text);
  if (!id)
    return base::fail(id.error());
  rules_.push_back({*id, text, *what});
  return {};
}
device_faults::done fabric_faults::remove_rule(const std::string& text) {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const auto& r) { return r.text == text; });
  if (found == rules_.end())
    return base::fail(base::reason::not_found, "drill", "there is no rule \"" + text + "\"");
  const auto id = found->id;
  rules_.erase(found);
  return net_.remove_rule(id);
}

/// Whether a rule that may still act stands between the device and its traffic. Events that are lost or
/// repeated are no excuse, nor is a rule that was for so many times only and has acted so often.
bool fabric_faults::is_ruled(const std::string& device) const {
  using verbs::soft::rule_target;
  if (rules_.empty())
    return false;
  const auto states = net_.rules();
  return std::any_of(rules_.begin(), rules_.end(), [&](const rule_in_force& r) {
    const auto& w = r.what;
    const auto name = w.target == rule_target::verb ? device_of(device) : device; // calls are of devices
    if ((w.target != rule_target::work && w.target != rule_target::verb) ||
        (!verbs::soft::names_device(w.device, name) &&
         (w.peer.empty() || !verbs::soft::names_device(w.peer, name))))
      return false;
    return std::any_of(states.begin(), states.end(), [&](const verbs::soft::rule_state& s) {
      return s.id == r.id && s.hits < w.count && (w.nth == 0 || s.matches < w.skip + w.nth) &&
             (w.first == UINT64_MAX || s.matches < w.skip + w.first);
    });
  });
}

device_faults::done fabric_faults::set_delay(const std::string& device, base::duration by) {
  return net_.set_delay(device, by);
}
device_faults::done fabric_faults::set_rate(const std::string& device, double gbit_s,
                                            std::optional<std::uint32_t> member) {
  return net_.set_rate(device, gbit_s, member);
}
device_faults::done fabric_faults::set_member(const std::string& device, std::uint32_t member, bool up,
                                              std::optional<base::duration> leaves_after) {
  return net_.set_member(device, member, up, leaves_after);
}
device_faults::done fabric_faults::set_width(const std::string& device, std::uint32_t lanes,
                                             double lane_gbit_s) {
  return net_.set_width(device, lanes, lane_gbit_s);
}
device_faults::done fabric_faults::set_host_memory(const std::string& host, double gbit_s) {
  return net_.set_host_memory(host, gbit_s);
}
double fabric_faults::usual_host_memory(const std::string& host) const {
  const auto* const of = what_.host(host);
  return of == nullptr ? 0 : of->memory_gbit_s;
}
double fabric_faults::usual_rate(const std::string& device) const {
  return what_.nic(device).rate_gbit_s;
}

device_faults::done fabric_faults::set_address(const std::string& device, bool present) {
  auto& gone = lost_addresses_[device];
  const auto table = net_.gids(device);
  if (!table)
    return base::fail(table.error());
  if (!present) {
    for (const auto& row : *table)
      if (!is_link_local(row)) {
        gone.push_back(row);
        if (auto did = net_.delete_gid(device, row.index); !did)
          return did;
      }
    return {};
  }
  std::set<std::uint32_t> used; // QPs of before still stand on the old places
  for (const auto& row : *table)
    used.insert(row.index);
  for (const auto& row : gone)
    used.insert(row.index);
  for (auto row : gone) {
    row.index = 0;
    while (!used.insert(row.index).second)
      ++row.index;
    if (auto did = net_.set_gid(device, row); !did)
      return did;
  }
  gone.clear();
  return {};
}
/// A kernel takes all addresses of the interface away and gives them again.
device_faults::done fabric_faults::set_mac(const std::string& device, bool) {
  if (auto did = set_address(device, false); !did)
    return did;
  return set_address(device, true);
}
device_faults::done fabric_faults::set_gid(const std::string& device, std::uint32_t index,
                                           const std::string& gid) {
  verbs::soft::gid_row row;
  row.index = index;
  row.value = *verbs::soft::parse_gid(gid);
  if (what_.nic(device).link_layer == IBV_LINK_LAYER_INFINIBAND)
    row.type = IBV_GID_TYPE_IB;
  return net_.set_gid(device, row);
}
device_faults::done fabric_faults::delete_gid(const std::string& device, std::uint32_t index) {
  return net_.delete_gid(device, index);
}
device_faults::done fabric_faults::move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) {
  return net_.move_gid(device, from, to);
}
device_faults::done fabric_faults::set_mtu(const std::string& device, std::optional<std::uint32_t> bytes) {
  return net_.set_mtu(device, bytes.value_or(what_.nic(device).mtu));
}
device_faults::done fabric_faults::set_lid(const std::string& device, std::uint16_t lid) {
  for (const auto& d : net_.devices())
    if (d.name == device)
      usual_lids_.emplace(device, static_cast<std::uint16_t>(d.lid));
  return net_.set_lid(device, lid);
}
std::uint16_t fabric_faults::usual_lid(const std::string& device) const {
  const auto found = usual_lids_.find(device);
  return found == usual_lids_.end() ? what_.nic(device).lid : found->second;
}
bool fabric_faults::can_carry(const std::string& from_device, const std::string& to_device) const {
  for (const auto& [device, rows] : lost_addresses_)
    if (!rows.empty() && (device == from_device || device == to_device))
      return false;
  std::size_t good = 0;
  for (const auto& d : net_.devices())
    good += (d.name == from_device || d.name == to_device) && d.link_up && !d.hang && d.delay.count() == 0 &&
                    !is_ruled(d.name) && !d.lost && (d.link_layer != IBV_LINK_LAYER_INFINIBAND || d.lid != 0)
                ? 1
                : 0;
  return good == 2;
}

} // namespace actor_rdma::drill
