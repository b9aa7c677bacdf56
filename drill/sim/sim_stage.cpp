// SPDX-License-Identifier: Apache-2.0
// Faults on a simulated cluster.
#include "drill/sim/sim_stage.hpp"

#include <algorithm>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t few_hosts = 8;

std::pair<std::string, std::string> in_order(const std::string& a, const std::string& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

} // namespace

sim_stage::sim_stage(const scenario& what, std::uint64_t seed)
    : what_(what), cluster_(seed), faults_(what, cluster_.fabric()) {
  for (const auto& h : what.hosts) {
    sim::node_options how{h.name, h.nics().size(), h.config, {}, h.nics()};
    if (what.hosts.size() > few_hosts)
      how.cq_entries = 1u << 16; // as the transport has; less is quicker, and enough for few
    const auto added = cluster_.try_add(how);
    if (!added) {
      opened_ = base::fail(added.error());
      return;
    }
    machines_[h.name] = *added;
  }
  for (const auto& c : what.control)
    cluster_.network().set_latency(c.from, c.to, c.latency);
}

stage::process_state sim_stage::process_of(const std::string& name) const {
  const auto& m = *machines_.at(name);
  return {m.life(), m.is_alive(), m.is_frozen()};
}
stage::done sim_stage::revoke_memory(const std::string& traffic, bool on) {
  return revoked(traffic, on);
}

bool sim_stage::can_carry(const std::string& from_device, const std::string& to_device) const {
  const auto well = [&](const std::string& device) {
    const auto& m = *machines_.at(host_of(device));
    return m.is_alive() && !m.is_frozen() && refusing_.count(m.name()) == 0;
  };
  return faults_.can_carry(from_device, to_device) && well(from_device) && well(to_device) &&
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
std::optional<base::time_point> sim_stage::end_message_faults() {
  return cluster_.network().end_message_faults();
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
  if (auto again = m.restart(); !again)
    return again;
  if (restarted)
    restarted(m);
  return {};
}
stage::done sim_stage::stop_host(const std::string& name) {
  auto& m = host(name);
  if (!m.is_alive())
    return base::fail(base::reason::invalid_argument, "drill", name + " is dead already");
  if (stopping)
    stopping(m);
  m.begin_stop("it was told to stop", [this, &m](const std::vector<std::string>& left) {
    if (stopped)
      stopped(m, left);
    if (killed)
      killed(m);
    m.kill();
  });
  return {};
}
stage::done sim_stage::fork_host(const std::string&, base::duration) {
  return base::fail(base::reason::unsupported, "drill",
                    "in virtual time all hosts are one process, and nobody forks: play it with --real");
}
stage::done sim_stage::limit_descriptors(const std::string&, bool) {
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
  return m.begin_memory(bytes, true, [&m](auto made) {
    if (made && m.is_alive())
      m.begin_deregister(*made, [] {});
  });
}

} // namespace actor_rdma::drill
