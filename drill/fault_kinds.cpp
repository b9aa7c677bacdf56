// SPDX-License-Identifier: Apache-2.0
// The table of faults.
#include "drill/fault_kinds.hpp"

#include "drill/fabric_faults.hpp"
#include "drill/fault_kind_groups.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

using spec = const fault_spec&;
using verbs::soft::hang_mode;

std::string quietly(spec f) {
  return f.is_quiet ? " without an event" : "";
}

/// A kind that is in force while its rules are.
fault_kind rule_kind(const char* name, const char* meaning, std::vector<std::string> must_have,
                     std::vector<std::string> may_have, std::function<std::vector<std::string>(spec)> rules,
                     std::function<std::string(spec)> words) {
  fault_kind k;
  k.name = name;
  k.meaning = meaning;
  k.must_have = std::move(must_have);
  k.may_have = std::move(may_have);
  k.rules = std::move(rules);
  k.apply = [rules = k.rules](spec f, stage& s) {
    base::expected<void> outcome;
    for (const auto& r : rules(f))
      if (outcome)
        outcome = s.devices().add_rule(r);
    return outcome;
  };
  k.undo = [rules = k.rules](spec f, stage& s) {
    base::expected<void> outcome;
    for (const auto& r : rules(f))
      if (outcome)
        outcome = s.devices().remove_rule(r);
    return outcome;
  };
  k.words = std::move(words);
  return k;
}

std::string counted(spec f) {
  return f.count ? fmt::format(" count={}", *f.count) : "";
}
std::string times(spec f) {
  return f.count ? fmt::format(", {} time{}", *f.count, *f.count == 1 ? "" : "s") : "";
}

std::string direction_of(spec f) {
  return f.direction.empty() ? "tx" : f.direction;
}

/// What has to do with rules of the NIC and its async events.
void add_rule_kinds(std::vector<fault_kind>& all) {
  all.push_back({"async_event",
                 "The device tells of an async event, whether it happened or not.",
                 {"device", "event"},
                 {"count"},
                 [](spec f, stage& s) {
                   return s.devices().raise_event(f.device, f.event,
                                                  static_cast<std::uint32_t>(f.count.value_or(1)));
                 },
                 {},
                 [](spec f) {
                   return fmt::format("{} tells of {} {}", f.device,
                                      f.count ? std::to_string(*f.count) : "an", f.event);
                 }});
  all.push_back(rule_kind(
      "event_lost", "Async events of this kind do not reach the application.", {"device", "event"}, {"count"},
      [](spec f) {
        return std::vector{"dev=" + f.device + " event=" + f.event + " do=swallow" + counted(f)};
      },
      [](spec f) { return f.event + " of " + f.device + " gets lost" + times(f); }));
  all.push_back(rule_kind(
      "packets_lost", "Packets are lost on the wire, in one direction; both ports stay up.", {"device"},
      {"peer", "direction"},
      [](spec f) { return std::vector{fabric_faults::rule_of_loss(f.device, direction_of(f), f.peer)}; },
      [](spec f) {
        return fmt::format("packets of {} ({}){} get lost", f.device, direction_of(f),
                           f.peer.empty() ? "" : " to or from " + f.peer);
      }));
  for (const bool on : {true, false}) // wherever it is: a network without such rules loses packets too
    (on ? all.back().apply : all.back().undo) = [on](spec f, stage& s) {
      return s.devices().lose_packets(f.device, direction_of(f), f.peer, on);
    };
  all.push_back(rule_kind(
      "verb_fails", "A verbs call on the device fails.", {"device", "verb", "error"}, {"count"},
      [](spec f) {
        return std::vector{"dev=" + f.device + " verb=" + f.verb + " do=errno:" + f.error + counted(f)};
      },
      [](spec f) { return fmt::format("{} of {} fails with {}{}", f.verb, f.device, f.error, times(f)); }));
  all.push_back(
      {"device_lost",
       "The device is taken out of its host: DEVICE_FATAL, and what was made of it is dead for good.",
       {"device"},
       {},
       [](spec f, stage& s) { return s.devices().set_lost(f.device, true); },
       [](spec f, stage& s) { return s.devices().set_lost(f.device, false); },
       [](spec f) { return f.device + " is lost"; }});
  all.push_back(rule_kind(
      "rule", "A rule of the software NIC is in force.", {"rule"}, {},
      [](spec f) { return std::vector{f.rule}; }, [](spec f) { return "from now on: " + f.rule; }));
}

/// Rules are the fabric's and need nobody; nor does the network.
void say_needs(std::vector<fault_kind>& all) {
  using need = process_need;
  const std::map<std::string, std::pair<need, need>> of_hosts{
      {"host_kill", {need::there, need::gone}},        {"host_restart", {need::gone, need::none}},
      {"host_stop", {need::running, need::gone}},      {"host_fork", {need::running, need::none}},
      {"host_freeze", {need::running, need::stopped}}, {"host_thaw", {need::stopped, need::none}},
      {"churn_memory", {need::there, need::none}},     {"host_memory", {need::there, need::there}},
      {"revoke_memory", {need::there, need::there}},
  };
  for (auto& k : all) {
    const bool is_of_device =
        std::find(k.must_have.begin(), k.must_have.end(), "device") != k.must_have.end();
    if (const auto found = of_hosts.find(k.name); found != of_hosts.end())
      std::tie(k.needs, k.undo_needs) = found->second;
    else if (is_of_device && !k.rules)
      k.needs = k.undo_needs = need::there;
  }
}

std::vector<fault_kind> make_kinds() {
  std::vector<fault_kind> all;
  // -- devices
  all.push_back({"link_down",
                 "The device's port goes down.",
                 {"device"},
                 {"quiet"},
                 [](spec f, stage& s) { return s.devices().set_link(f.device, false, f.is_quiet); },
                 [](spec f, stage& s) { return s.devices().set_link(f.device, true, f.is_quiet); },
                 [](spec f) { return "the link of " + f.device + " goes down" + quietly(f); }});
  all.push_back({"link_up",
                 "The device's port comes up.",
                 {"device"},
                 {"quiet"},
                 [](spec f, stage& s) { return s.devices().set_link(f.device, true, f.is_quiet); },
                 {},
                 [](spec f) { return "the link of " + f.device + " comes up" + quietly(f); },
                 true});
  all.push_back({"hang",
                 "WRs of the device are swallowed: no completion, no error, until they are flushed.",
                 {"device"},
                 {"hard"},
                 [](spec f, stage& s) {
                   return s.devices().set_hang(f.device, f.is_hard ? hang_mode::hard : hang_mode::soft);
                 },
                 [](spec f, stage& s) { return s.devices().set_hang(f.device, hang_mode::off); },
                 [](spec f) { return f.device + " hangs" + (f.is_hard ? " and does not even flush" : ""); }});
  all.push_back({"heal",
                 "The device hangs no longer; what it swallowed stays lost.",
                 {"device"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_hang(f.device, hang_mode::off); },
                 {},
                 [](spec f) { return f.device + " hangs no longer"; },
                 true});
  all.push_back({"delay",
                 "Packets that leave the device arrive later, whatever became of their sender.",
                 {"device", "by_ms"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_delay(f.device, f.by); },
                 [](spec f, stage& s) { return s.devices().set_delay(f.device, {}); },
                 [](spec f) { return "packets of " + f.device + " are late by " + ms(f.by); }});
  add_port_kinds(all);
  all.push_back({"gid_set",
                 "A place of the port's GID table gets this address (RoCE v2; InfiniBand if the port is).",
                 {"device", "index", "gid"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_gid(f.device, f.index, f.gid); },
                 {},
                 [](spec f) { return fmt::format("GID {} of {} becomes {}", f.index, f.device, f.gid); }});
  all.push_back({"gid_delete",
                 "A place of the port's GID table becomes empty.",
                 {"device", "index"},
                 {},
                 [](spec f, stage& s) { return s.devices().delete_gid(f.device, f.index); },
                 {},
                 [](spec f) { return fmt::format("GID {} of {} is deleted", f.index, f.device); }});
  all.push_back(
      {"gid_move",
       "An address moves to another place of the port's GID table.",
       {"device", "index", "to_index"},
       {},
       [](spec f, stage& s) { return s.devices().move_gid(f.device, f.index, f.to_index); },
       [](spec f, stage& s) { return s.devices().move_gid(f.device, f.to_index, f.index); },
       [](spec f) { return fmt::format("GID {} of {} moves to {}", f.index, f.device, f.to_index); }});
  all.push_back({"mtu",
                 "The port's MTU becomes this; it raises no event.",
                 {"device", "mtu"},
                 {},
                 [](spec f, stage& s) { return s.devices().set_mtu(f.device, f.mtu); },
                 [](spec f, stage& s) { return s.devices().set_mtu(f.device, std::nullopt); },
                 [](spec f) { return fmt::format("the MTU of {} becomes {}", f.device, f.mtu); }});
  all.push_back(
      {"lid",
       "The InfiniBand port's LID becomes this; 0: no subnet manager has given it one.",
       {"device", "lid"},
       {},
       [](spec f, stage& s) { return s.devices().set_lid(f.device, f.lid); },
       [](spec f, stage& s) { return s.devices().set_lid(f.device, s.devices().usual_lid(f.device)); },
       [](spec f) { return fmt::format("the LID of {} becomes {}", f.device, f.lid); }});
  all.push_back({"revoke_memory",
                 "The memory that a traffic reaches at its `to` is deregistered; undone, it has new keys.",
                 {"traffic", "for_ms"},
                 {},
                 [](spec f, stage& s) { return s.revoke_memory(f.traffic, true); },
                 [](spec f, stage& s) { return s.revoke_memory(f.traffic, false); },
                 [](spec f) { return "the memory of " + f.traffic + " is deregistered"; }});
  add_rule_kinds(all);
  add_control_kinds(all);
  add_process_kinds(all);
  say_needs(all);
  return all;
}

} // namespace

const std::vector<fault_kind>& fault_kinds() {
  static const auto kinds = make_kinds();
  return kinds;
}

const fault_kind* find_fault_kind(const std::string& name) {
  const auto& all = fault_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& k) { return k.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string describe(const fault_spec& what) {
  std::string when;
  if (what.at)
    when = "at " + ms(*what.at);
  else if (what.after_completions)
    when = fmt::format("after {} transfers{} have ended", *what.after_completions,
                       what.traffic.empty() ? "" : " of " + what.traffic);
  if (what.spread.count() != 0)
    when += " (and up to " + ms(what.spread) + " later)";
  const auto* kind = find_fault_kind(what.kind);
  auto text = when + ": " + (kind != nullptr ? kind->words(what) : what.kind);
  if (what.lasts)
    text += ", for " + ms(*what.lasts);
  if (what.times > 1)
    text += fmt::format(", {} times, every {}", what.times, ms(what.every));
  return text;
}

} // namespace actor_rdma::drill
