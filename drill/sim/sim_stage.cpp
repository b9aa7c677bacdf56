// SPDX-License-Identifier: Apache-2.0
// Faults on a simulated cluster.
#include "drill/sim/sim_stage.hpp"

#include <algorithm>

namespace actor_rdma::drill {

namespace {

std::pair<std::string, std::string> in_order(const std::string& a, const std::string& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

std::string host_of(const std::string& device) {
  return device.substr(0, device.find('/'));
}

} // namespace

sim_stage::sim_stage(const scenario& what, std::uint64_t seed) : what_(what), cluster_(seed) {
  for (const auto& h : what.hosts) {
    const sim::node_options how{h.name, h.nics().size(), h.config, {}, h.nics()};
    machines_[h.name] = &cluster_.add(how);
  }
  for (const auto& c : what.control)
    cluster_.network().set_latency(c.from, c.to, c.latency);
}

// -- devices --------------------------------------------------------------------------------------

stage::done sim_stage::set_link(const std::string& device, bool up, bool quietly) {
  return quietly ? cluster_.fabric().set_link_quietly(device, up) : cluster_.fabric().set_link(device, up);
}
stage::done sim_stage::set_hang(const std::string& device, verbs::soft::hang_mode mode) {
  return cluster_.fabric().set_hang_mode(device, mode);
}
stage::done sim_stage::raise_event(const std::string& device, const std::string& event, std::uint32_t count) {
  if (event == "DEVICE_FATAL")
    lost_.insert(device);
  return cluster_.fabric().raise_event(device, event, count);
}
stage::done sim_stage::add_rule(const std::string& text) {
  const auto what = verbs::soft::parse_rule(text);
  if (!what)
    return base::fail(what.error());
  const auto id = cluster_.fabric().add_rule(text);
  if (!id)
    return base::fail(id.error());
  rules_.push_back({*id, text, *what});
  return {};
}
stage::done sim_stage::remove_rule(const std::string& text) {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const auto& r) { return r.text == text; });
  if (found == rules_.end())
    return base::fail(base::reason::not_found, "drill", "there is no rule \"" + text + "\"");
  const auto id = found->id;
  rules_.erase(found);
  return cluster_.fabric().remove_rule(id);
}

/// Whether a rule that may still act stands between the device and its traffic. Events that are lost or
/// repeated are no excuse, nor is a rule that was for so many times only and has acted so often.
bool sim_stage::is_ruled(const std::string& device) const {
  using verbs::soft::rule_target;
  if (rules_.empty())
    return false;
  const auto states = cluster_.fabric().rules();
  return std::any_of(rules_.begin(), rules_.end(), [&](const rule_in_force& r) {
    const auto& w = r.what;
    if ((w.target != rule_target::work && w.target != rule_target::verb) ||
        (!verbs::soft::names_device(w.device, device) &&
         (w.peer.empty() || !verbs::soft::names_device(w.peer, device))))
      return false;
    return std::any_of(states.begin(), states.end(), [&](const verbs::soft::rule_state& s) {
      return s.id == r.id && s.hits < w.count && (w.nth == 0 || s.matches < w.skip + w.nth) &&
             (w.first == UINT64_MAX || s.matches < w.skip + w.first);
    });
  });
}

stage::done sim_stage::set_delay(const std::string& device, base::duration by) {
  return cluster_.fabric().set_delay(device, by);
}
stage::done sim_stage::set_rate(const std::string& device, double gbit_s) {
  return cluster_.fabric().set_rate(device, gbit_s);
}
double sim_stage::usual_rate(const std::string& device) const {
  for (const auto& nic : what_.host(host_of(device))->nics())
    if (host_of(device) + "/" + nic.name == device)
      return nic.rate_gbit_s;
  return verbs::soft::device_options{}.rate_gbit_s;
}

stage::done sim_stage::set_gid(const std::string& device, std::uint32_t index, const std::string& gid) {
  verbs::soft::gid_row row;
  row.index = index;
  row.value = *verbs::soft::parse_gid(gid);
  return cluster_.fabric().set_gid(device, row);
}
stage::done sim_stage::delete_gid(const std::string& device, std::uint32_t index) {
  return cluster_.fabric().delete_gid(device, index);
}
stage::done sim_stage::move_gid(const std::string& device, std::uint32_t from, std::uint32_t to) {
  return cluster_.fabric().move_gid(device, from, to);
}
stage::done sim_stage::set_mtu(const std::string& device, std::uint32_t bytes) {
  return cluster_.fabric().set_mtu(device, bytes);
}
std::uint32_t sim_stage::usual_mtu(const std::string& device) const {
  for (const auto& nic : what_.host(host_of(device))->nics())
    if (host_of(device) + "/" + nic.name == device)
      return nic.mtu;
  return verbs::soft::device_options{}.mtu;
}
stage::done sim_stage::revoke_memory(const std::string& traffic, bool on) {
  return revoked(traffic, on);
}

bool sim_stage::can_carry(const std::string& from_device, const std::string& to_device) const {
  std::size_t good = 0;
  for (const auto& d : cluster_.fabric().devices())
    good += (d.name == from_device || d.name == to_device) && d.link_up && !d.hang && d.delay.count() == 0 &&
                    !is_ruled(d.name) && !is_lost(d.name)
                ? 1
                : 0;
  const auto well = [&](const std::string& device) {
    const auto& m = *machines_.at(host_of(device));
    return m.is_alive() && !m.is_frozen() && refusing_.count(m.name()) == 0;
  };
  return good == 2 && well(from_device) && well(to_device) &&
         holes_.count(in_order(host_of(from_device), host_of(to_device))) == 0;
}

// -- control network ------------------------------------------------------------------------------

stage::done sim_stage::cut_control(const std::string& a, const std::string& b) {
  cluster_.network().cut(a, b);
  return {};
}
stage::done sim_stage::black_hole_control(const std::string& a, const std::string& b, bool on) {
  if (on)
    holes_.insert(in_order(a, b));
  else
    holes_.erase(in_order(a, b));
  cluster_.network().black_hole(a, b, on);
  return {};
}
stage::done sim_stage::set_control_latency(const std::string& from, const std::string& to,
                                           base::duration by) {
  cluster_.network().set_latency(from, to, by);
  return {};
}
base::duration sim_stage::usual_control_latency(const std::string& from, const std::string& to) const {
  for (const auto& c : what_.control)
    if (c.from == from && c.to == to)
      return c.latency;
  return control_spec{}.latency;
}
stage::done sim_stage::refuse_dials(const std::string& name, bool on) {
  if (on)
    refusing_.insert(name);
  else
    refusing_.erase(name);
  cluster_.network().refuse(host(name).address(), on);
  return {};
}
stage::done sim_stage::next_messages(const bootstrap::message_fault& what) {
  cluster_.network().next_messages(what);
  return {};
}

// -- hosts ----------------------------------------------------------------------------------------

stage::done sim_stage::kill_host(const std::string& name) {
  auto& m = host(name);
  if (!m.is_alive())
    return base::fail(base::reason::invalid_argument, "drill", name + " is dead already");
  if (m.is_frozen())
    (void)freeze_host(name, false);
  if (killed)
    killed(m); // while its memory is still there
  m.kill();
  return {};
}
stage::done sim_stage::restart_host(const std::string& name) {
  auto& m = host(name);
  if (m.is_alive())
    return base::fail(base::reason::invalid_argument, "drill", name + " is alive");
  m.restart();
  if (restarted)
    restarted(m);
  return {};
}
stage::done sim_stage::freeze_host(const std::string& name, bool on) {
  auto& m = host(name);
  if (!m.is_alive() || m.is_frozen() == on)
    return base::fail(base::reason::invalid_argument, "drill",
                      name + (!m.is_alive() ? " is dead"
                              : on          ? " is stopped already"
                                            : " is not stopped"));
  auto& spans = freezes_[name];
  if (on)
    spans.push_back({cluster_.now()});
  else
    spans.back().to = cluster_.now();
  m.freeze(on);
  return {};
}
base::duration sim_stage::frozen_after(const std::string& name, base::time_point since) const {
  base::duration sum{};
  if (const auto found = freezes_.find(name); found != freezes_.end())
    for (const auto& s : found->second)
      sum += std::max(base::duration::zero(), std::min(s.to, cluster_.now()) - std::max(s.from, since));
  return sum;
}
stage::done sim_stage::churn_memory(const std::string& name) {
  auto& m = host(name);
  if (!m.is_alive())
    return base::fail(base::reason::invalid_argument, "drill", name + " is dead");
  constexpr std::size_t bytes = 4096;
  m.begin_memory(bytes, true, [&m](auto made) {
    if (made && m.is_alive())
      m.engine().deregister_memory(*made, false, std::chrono::seconds{5}, [](const auto&) {});
  });
  return {};
}

} // namespace actor_rdma::drill
