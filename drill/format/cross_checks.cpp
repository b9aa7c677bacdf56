// SPDX-License-Identifier: Apache-2.0
// What no single key of a scenario can see: names that mean nothing, and values that do not go together.
#include "drill/format/cross_checks.hpp"

#include "bootstrap/limits.hpp"
#include "drill/checks/expectations.hpp"
#include "drill/set_up.hpp"
#include "verbs/soft/limits.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/rules/rule.hpp"
#include "verbs/soft/rules/rule_words.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::drill::format {

namespace {

/// No machine has more for one traffic, and sums of it stay within 64 bits.
constexpr std::uint64_t most_memory = std::uint64_t{1} << 40;

double whole_ms(base::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

std::string names_of(const scenario& s) {
  std::string all;
  for (const auto& h : s.hosts)
    all += (all.empty() ? "" : ", ") + h.name;
  return all;
}

void check_host(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  if (!name.empty() && s.host(name) == nullptr)
    to.push_back(fmt::format("{}: there is no host \"{}\", hosts are {}", where, name, names_of(s)));
}

std::vector<std::string> devices_of(const scenario& s) {
  std::vector<std::string> all;
  for (const auto& h : s.hosts)
    for (const auto& d : h.ports())
      all.push_back(h.name + "/" + d.name);
  return all;
}

void check_device(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  if (name.empty())
    return;
  std::string all;
  for (const auto& d : devices_of(s)) {
    if (name == d)
      return;
    all += (all.empty() ? "" : ", ") + d;
  }
  to.push_back(fmt::format("{}: there is no device \"{}\", devices are {}", where, name, all));
}

/// A pattern of a rule: a device, a host, or "soft0" on every host.
void check_pattern(const scenario& s, const std::string& where, const std::string& pattern, complaints& to) {
  if (pattern.empty())
    return;
  std::string all;
  for (const auto& d : devices_of(s)) {
    if (verbs::soft::names_device(pattern, d))
      return;
    all += (all.empty() ? "" : ", ") + d;
  }
  to.push_back(fmt::format("{}: \"{}\" means no device, devices are {}", where, pattern, all));
}

void check_traffic(const scenario& s, const std::string& where, const std::string& name, complaints& to) {
  std::string all;
  for (const auto& t : s.traffic) {
    if (name.empty() || t.name == name)
      return;
    all += (all.empty() ? "" : ", ") + t.name;
  }
  if (!name.empty())
    to.push_back(fmt::format("{}: there is no traffic \"{}\", traffic is {}", where, name, all));
}

/// What is not of one port cannot befall one.
void check_port_of(const fault_spec& f, const std::string& where, complaints& to) {
  if (device_of(f.device) == f.device)
    return;
  const auto event = verbs::soft::parse_event(f.event);
  const bool is_of_port = event && verbs::soft::is_of_port(*event);
  if (f.kind == "device_lost" || f.kind == "verb_fails" || (!f.event.empty() && !is_of_port))
    to.push_back(fmt::format("{}.device: {} is a port, and {} is of a device: say {}", where, f.device,
                             f.event.empty() ? f.kind : f.event, device_of(f.device)));
}

void check_member_of(const scenario& s, const fault_spec& f, const std::string& where, complaints& to) {
  const auto members = s.nic(f.device).bond_members;
  if (f.member && *f.member >= members)
    to.push_back(fmt::format("{}.member: {} has {} members, accepted is 0 to {}", where, f.device, members,
                             members - 1));
}

/// Else the run would come to its limit before all of its faults have begun.
void check_time_of(const scenario& s, const fault_spec& f, const std::string& where, complaints& to) {
  if (!f.at)
    return;
  const auto left = s.time_limit - *f.at - f.spread;
  const bool all_begin = left.count() >= 0 &&
                         (f.every.count() <= 0 || f.times - 1 <= static_cast<std::uint64_t>(left / f.every));
  if (!all_begin)
    to.push_back(
        fmt::format("{}: may begin as late as {:g} ms, accepted is until the time_limit_ms of {:g}", where,
                    whole_ms(*f.at + f.spread) + static_cast<double>(f.times - 1) * whole_ms(f.every),
                    whole_ms(s.time_limit)));
}

void check_names(const scenario& s, complaints& to) {
  for (std::size_t i = 0; i < s.hosts.size(); ++i)
    for (const auto& spare : s.hosts[i].config.spare_devices)
      check_device(s, fmt::format("hosts[{}].settings.spare_devices", i), s.hosts[i].name + "/" + spare, to);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < s.hosts.size(); ++i) {
    if (const auto n = s.hosts[i].ports().size(); n > bootstrap::max_devices)
      to.push_back(fmt::format("hosts[{}].devices: have {} ports, accepted are at most {}", i, n,
                               bootstrap::max_devices));
    if (!seen.insert(s.hosts[i].name).second)
      to.push_back(fmt::format("hosts[{}].name: \"{}\" is there twice", i, s.hosts[i].name));
  }
  const auto pair = [&](const std::string& where, const std::string& from, const std::string& name) {
    check_host(s, where + ".from", from, to);
    check_host(s, where + ".to", name, to);
    if (!from.empty() && from == name)
      to.push_back(where + ".to: is the same host as from");
  };
  std::set<std::pair<std::string, std::string>> directions;
  for (std::size_t i = 0; i < s.control.size(); ++i) {
    const auto& c = s.control[i];
    pair(fmt::format("control[{}]", i), c.from, c.to);
    if (!directions.insert({c.from, c.to}).second)
      to.push_back(fmt::format("control[{}]: the direction from {} to {} is there twice", i, c.from, c.to));
  }
  seen.clear();
  for (std::size_t i = 0; i < s.traffic.size(); ++i) {
    const auto& t = s.traffic[i];
    const auto where = fmt::format("traffic[{}]", i);
    pair(where, t.from, t.to);
    if (!seen.insert(t.name).second)
      to.push_back(fmt::format("{}.name: \"{}\" is there twice", where, t.name));
    if (t.repeat_until && *t.repeat_until <= t.start)
      to.push_back(where + ".repeat_until_ms: must be after start_ms");
    if (t.memory_bytes(true) > most_memory)
      to.push_back(
          fmt::format("{}: depth times batch times the greatest of sizes makes {} bytes of memory at its "
                      "to, accepted are at most {}",
                      where, t.memory_bytes(true), most_memory));
    if (t.notices_only && (t.batch != 1 || t.notice))
      to.push_back(where + ".notices_only: goes neither with batch nor with notice");
  }
  for (std::size_t i = 0; i < s.faults.size(); ++i) {
    const auto& f = s.faults[i];
    const auto where = fmt::format("faults[{}]", i);
    pair(where, f.from, f.to);
    check_host(s, where + ".host", f.host, to);
    check_device(s, where + ".device", f.device, to);
    check_port_of(f, where, to);
    check_member_of(s, f, where, to);
    check_time_of(s, f, where, to);
    if (f.kind == "lid" && s.nic(f.device).link_layer != IBV_LINK_LAYER_INFINIBAND)
      to.push_back(
          fmt::format("{}.device: {} is an Ethernet port, LIDs are of InfiniBand ones", where, f.device));
    check_traffic(s, where + ".traffic", f.traffic, to);
    check_pattern(s, where + ".peer", f.peer, to);
    if (const auto rule = verbs::soft::parse_rule(f.rule); rule && !f.rule.empty()) {
      check_pattern(s, where + ".rule: dev", rule->device, to);
      check_pattern(s, where + ".rule: peer", rule->peer, to);
    }
  }
  for (std::size_t i = 0; i < s.expect.size(); ++i) {
    const auto& e = s.expect[i];
    const auto where = fmt::format("expect[{}]", i);
    check_host(s, where + ".host", e.host, to);
    check_device(s, where + ".device", e.device, to);
    check_traffic(s, where + ".traffic", e.traffic, to);
    const auto* kind = find_expect_kind(e.kind);
    if (kind != nullptr && kind->is_time_of_recovery && e.fault >= s.faults.size())
      to.push_back(
          fmt::format("{}.fault: there is no fault {}, accepted is its place in faults, from 0 to {}", where,
                      e.fault, std::max<std::size_t>(s.faults.size(), 1) - 1));
  }
}

base::duration control_latency(const scenario& s, const std::string& from, const std::string& to) {
  for (const auto& c : s.control)
    if (c.from == from && c.to == to)
      return c.latency;
  return control_spec{}.latency;
}

/// Else no connection would ever come up, and the run would tell of QPs that are not usable.
void check_control_latency(const scenario& s, complaints& to) {
  for (const auto& t : s.traffic) {
    const auto* initiator = s.host(t.from);
    if (initiator == nullptr)
      continue;
    const auto round_trip = control_latency(s, t.from, t.to) + control_latency(s, t.to, t.from);
    if (round_trip >= initiator->config.connect_deadline)
      to.push_back(fmt::format("control: a round trip between {} and {} takes {:g} ms, accepted is less than "
                               "the connect_deadline_ms of {}, {:g}",
                               t.from, t.to, whole_ms(round_trip), t.from,
                               whole_ms(initiator->config.connect_deadline)));
  }
}

/// Of each host, and LIDs that two ports of a subnet would have.
void check_ports(const scenario& s, complaints& to) {
  std::set<std::pair<std::uint64_t, std::uint16_t>> lids;
  for (std::size_t i = 0; i < s.hosts.size(); ++i) {
    const auto where = fmt::format("hosts[{}].devices", i);
    for (const auto& nic : s.hosts[i].nics())
      if (const auto wrong = verbs::soft::check_options(nic); !wrong.empty())
        to.push_back(fmt::format("{}: {}", where, wrong));
      else if (nic.lid != 0 && !lids.insert({nic.subnet_prefix, nic.lid}).second)
        to.push_back(fmt::format("{}: two ports of a subnet have LID {}", where, nic.lid));
  }
  for (std::size_t i = 0; i < s.traffic.size(); ++i) {
    const auto& t = s.traffic[i];
    if (s.host(t.from) != nullptr && s.host(t.to) != nullptr && rails_of(s, t.from, t.to).empty())
      to.push_back(
          fmt::format("traffic[{}]: no device of {} has the link layer of one of {}", i, t.from, t.to));
  }
}

} // namespace

void check_together(const scenario& s, complaints& to) {
  check_names(s, to);
  check_ports(s, to);
  if (to.empty())
    check_control_latency(s, to);
}

} // namespace actor_rdma::drill::format
