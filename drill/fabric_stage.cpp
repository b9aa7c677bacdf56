// SPDX-License-Identifier: Apache-2.0
// Faults on devices of a fabric.
#include "drill/fabric_stage.hpp"

#include <algorithm>

namespace actor_rdma::drill {

stage::done fabric_stage::set_link(const std::string& device, bool up, bool quietly) {
  return quietly ? net_->set_link_quietly(device, up) : net_->set_link(device, up);
}
stage::done fabric_stage::set_hang(const std::string& device, verbs::soft::hang_mode mode) {
  return net_->set_hang_mode(device, mode);
}
stage::done fabric_stage::set_lost(const std::string& device, bool on) {
  return net_->set_lost(device, on);
}
stage::done fabric_stage::raise_event(const std::string& device, const std::string& event,
                                      std::uint32_t count) {
  if (event == "DEVICE_FATAL")
    called_lost_.insert(device);
  return net_->raise_event(device, event, count);
}
stage::done fabric_stage::add_rule(const std::string& text) {
  const auto what = verbs::soft::parse_rule(text);
  if (!what)
    return base::fail(what.error());
  const auto id = net_->add_rule(text);
  if (!id)
    return base::fail(id.error());
  rules_.push_back({*id, text, *what});
  return {};
}
stage::done fabric_stage::remove_rule(const std::string& text) {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const auto& r) { return r.text == text; });
  if (found == rules_.end())
    return base::fail(base::reason::not_found, "drill", "there is no rule \"" + text + "\"");
  const auto id = found->id;
  rules_.erase(found);
  return net_->remove_rule(id);
}

/// Whether a rule that may still act stands between the device and its traffic. Events that are lost or
/// repeated are no excuse, nor is a rule that was for so many times only and has acted so often.
bool fabric_stage::is_ruled(const std::string& device) const {
  using verbs::soft::rule_target;
  if (rules_.empty())
    return false;
  const auto states = net_->rules();
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

stage::done fabric_stage::set_delay(const std::string& device, base::duration by) {
  return net_->set_delay(device, by);
}
stage::done fabric_stage::set_rate(const std::string& device, double gbit_s,
                                   std::optional<std::uint32_t> member) {
  return net_->set_rate(device, gbit_s, member);
}
stage::done fabric_stage::set_member(const std::string& device, std::uint32_t member, bool up,
                                     std::optional<base::duration> leaves_after) {
  return net_->set_member(device, member, up, leaves_after);
}
stage::done fabric_stage::set_width(const std::string& device, std::uint32_t lanes, double lane_gbit_s) {
  return net_->set_width(device, lanes, lane_gbit_s);
}
stage::done fabric_stage::set_host_memory(const std::string& host, double gbit_s) {
  return net_->set_host_memory(host, gbit_s);
}
double fabric_stage::usual_host_memory(const std::string& host) const {
  const auto* const of = what_.host(host);
  return of == nullptr ? 0 : of->memory_gbit_s;
}
double fabric_stage::usual_rate(const std::string& device) const {
  return what_.nic(device).rate_gbit_s;
}

stage::done fabric_stage::set_gid(const std::string& device, std::uint32_t index, const std::string& gid) {
  verbs::soft::gid_row row;
  row.index = index;
  row.value = *verbs::soft::parse_gid(gid);
  if (what_.nic(device).link_layer == IBV_LINK_LAYER_INFINIBAND)
    row.type = IBV_GID_TYPE_IB;
  return net_->set_gid(device, row);
}
stage::done fabric_stage::delete_gid(const std::string& device, std::uint32_t index) {
  return net_->delete_gid(device, index);
}
stage::done fabric_stage::move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) {
  return net_->move_gid(device, from, to);
}
stage::done fabric_stage::set_mtu(const std::string& device, std::uint32_t bytes) {
  return net_->set_mtu(device, bytes);
}
std::uint32_t fabric_stage::usual_mtu(const std::string& device) const {
  return what_.nic(device).mtu;
}
stage::done fabric_stage::set_lid(const std::string& device, std::uint16_t lid) {
  for (const auto& d : net_->devices())
    if (d.name == device)
      usual_lids_.emplace(device, static_cast<std::uint16_t>(d.lid));
  return net_->set_lid(device, lid);
}
std::uint16_t fabric_stage::usual_lid(const std::string& device) const {
  const auto found = usual_lids_.find(device);
  return found == usual_lids_.end() ? what_.nic(device).lid : found->second;
}
bool fabric_stage::devices_can_carry(const std::string& from_device, const std::string& to_device) const {
  std::size_t good = 0;
  for (const auto& d : net_->devices())
    good += (d.name == from_device || d.name == to_device) && d.link_up && !d.hang && d.delay.count() == 0 &&
                    !is_ruled(d.name) && !d.lost && (d.link_layer != IBV_LINK_LAYER_INFINIBAND || d.lid != 0)
                ? 1
                : 0;
  return good == 2;
}

} // namespace actor_rdma::drill
