// SPDX-License-Identifier: Apache-2.0
//
// Parsing and running the fault commands.
#include "verbs/soft/tool/fault_commands.hpp"

#include "verbs/soft/rules/rule_words.hpp"
#include "verbs/soft/tool/outcome.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace actor_rdma::verbs::soft::tool {

fault_commands::fault_commands(CLI::App& app) {
  const char* const names = "host/soft0, or soft0 if only one host has it";
  link_ = app.add_subcommand("link", "Cut or restore a link");
  link_->add_option("device", device_, names)->required();
  link_->add_option("state", value_)->required()->check(CLI::IsMember({"up", "down"}));
  link_->add_flag("--quiet", is_quiet_, "no async event tells of it");
  hang_ = app.add_subcommand("hang", "Make a device swallow work silently");
  hang_->add_option("device", device_, names)->required();
  hang_->add_option("state", value_, "on: still flushes in ERR, hard: does not even flush")
      ->required()
      ->check(CLI::IsMember({"on", "off", "hard"}));
  lost_ = app.add_subcommand("lost", "Take a device out of its host, or put it back");
  lost_->add_option("device", device_, names)->required();
  lost_->add_option("state", value_, "on: open contexts of it are dead for good, off: it can be opened again")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
  delay_ = app.add_subcommand("delay", "Make what leaves a device arrive late");
  delay_->add_option("device", device_, names)->required();
  delay_->add_option("duration", value_, "250us, 20ms, 1.5s, or 0 to end it")->required();
  rule_ = app.add_subcommand("rule", "Add, list and remove fault rules (docs/software-nic.md)");
  rule_->require_subcommand(1);
  rule_add_ = rule_->add_subcommand("add", "Add a rule and print its id");
  rule_add_->add_option("rule", words_, "key=value words, e.g. dev=a/soft0 op=write nth=7 do=drop")
      ->required();
  rule_list_ = rule_->add_subcommand("list", "Rules, how often they matched and how often they hit");
  rule_remove_ = rule_->add_subcommand("remove", "Remove a rule");
  rule_remove_->add_option("id", id_)->required();
  rule_clear_ = rule_->add_subcommand("clear", "Remove all rules");
  event_ = app.add_subcommand("event", "Raise an async event in every open context of a device");
  event_->add_option("device", device_, names)->required();
  event_->add_option("type", value_, "PORT_ERR, PORT_ACTIVE, GID_CHANGE, DEVICE_FATAL, QP_FATAL, ...")
      ->required();
  event_->add_option("count", count_, "how often")->capture_default_str()->check(CLI::Range(1, 100'000));
  event_->add_option("--qp", qp_, "the queue pair, for events of one (all of the device's)");
  reset_ =
      app.add_subcommand("reset", "End every fault: devices back, links up, no hang, no delay, no rules");
}

bool fault_commands::parsed() const {
  return link_->parsed() || hang_->parsed() || lost_->parsed() || delay_->parsed() || rule_->parsed() ||
         event_->parsed() || reset_->parsed();
}

int fault_commands::run(fabric& net) const {
  if (link_->parsed())
    return report(is_quiet_ ? net.set_link_quietly(device_, value_ == "up")
                            : net.set_link(device_, value_ == "up"));
  if (hang_->parsed())
    return report(net.set_hang_mode(device_, value_ == "hard" ? hang_mode::hard
                                             : value_ == "on" ? hang_mode::soft
                                                              : hang_mode::off));
  if (lost_->parsed())
    return report(net.set_lost(device_, value_ == "on"));
  if (delay_->parsed()) {
    const auto late = parse_span(value_);
    if (!late) {
      fmt::print(stderr, "soft-nic: \"{}\" is not a duration: say 250us, 20ms, 1.5s or 0\n", value_);
      return exit_usage;
    }
    return report(net.set_delay(device_, base::duration{*late}));
  }
  if (event_->parsed())
    return report(net.raise_event(device_, value_, count_, qp_));
  return reset_->parsed() ? report(net.reset_faults()) : run_rule(net);
}

int fault_commands::run_rule(fabric& net) const {
  if (rule_add_->parsed()) {
    const auto text = fmt::format("{}", fmt::join(words_, " "));
    const auto id = net.add_rule(text);
    if (!id)
      return complain(id.error());
    fmt::print("{}\n", *id);
    return 0;
  }
  if (rule_list_->parsed()) {
    fmt::print("{:>5} {:>10} {:>10} {}\n", "id", "matches", "hits", "rule");
    for (const auto& r : net.rules())
      fmt::print("{:>5} {:>10} {:>10} {}\n", r.id, r.matches, r.hits, r.text);
    return 0;
  }
  if (rule_remove_->parsed())
    return report(net.remove_rule(id_));
  net.clear_rules();
  return 0;
}

} // namespace actor_rdma::verbs::soft::tool
