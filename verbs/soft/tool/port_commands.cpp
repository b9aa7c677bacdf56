// SPDX-License-Identifier: Apache-2.0
//
// Parsing and running them.
#include "verbs/soft/tool/port_commands.hpp"

#include "verbs/soft/rules/rule_words.hpp"
#include "verbs/soft/tool/outcome.hpp"

#include <cstdio>
#include <optional>

#include <fmt/format.h>

namespace actor_rdma::verbs::soft::tool {

port_commands::port_commands(CLI::App& app) {
  const char* const names = "host/soft0, or soft0 if only one host has it";
  rate_ = app.add_subcommand("rate", "Set the rate of a paced device");
  rate_->add_option("device", device_, names)->required();
  rate_->add_option("gbit", gbit_s_, "Gbit/s; of a bond: of each member")->required();
  of_member_ = rate_->add_option("--member", index_, "of this member only");
  member_ = app.add_subcommand("member", "Cut or restore a member of a bond; the port stays up");
  member_->add_option("device", device_, names)->required();
  member_->add_option("member", index_, "0, 1, ...")->required();
  member_->add_option("state", value_)->required()->check(CLI::IsMember({"up", "down"}));
  member_->add_option("--rehash", rehash_, "its queue pairs use other members after 250us, 20ms, 1.5s, 0");
  width_ = app.add_subcommand("width", "Change the width and speed of a port, and its rate in proportion");
  width_->add_option("device", device_, names)->required();
  width_->add_option("lanes", lanes_, "1, 2, 4, 8 or 12")->required();
  width_->add_option("gbit", lane_gbit_s_, "of a lane: 2.5, 5, 10, 14, 25, 50 or 100")->capture_default_str();
  memory_ = app.add_subcommand("memory", "Bound what the memory of a host takes and gives");
  memory_->add_option("host", device_)->required();
  memory_->add_option("gbit", gbit_s_, "Gbit/s for all of its devices together, 0: as much as comes")
      ->required();
}

bool port_commands::parsed() const {
  return rate_->parsed() || member_->parsed() || width_->parsed() || memory_->parsed();
}

int port_commands::run(fabric& net) const {
  if (rate_->parsed())
    return report(
        net.set_rate(device_, gbit_s_, of_member_->count() != 0 ? std::optional{index_} : std::nullopt));
  if (width_->parsed())
    return report(net.set_width(device_, lanes_, lane_gbit_s_));
  if (memory_->parsed())
    return report(net.set_host_memory(device_, gbit_s_));
  return run_member(net);
}

int port_commands::run_member(fabric& net) const {
  std::optional<base::duration> after;
  if (!rehash_.empty()) {
    const auto span = parse_span(rehash_);
    if (!span) {
      fmt::print(stderr, "soft-nic: \"{}\" is not a duration: say 250us, 20ms, 1.5s or 0\n", rehash_);
      return exit_usage;
    }
    after = base::duration{*span};
  }
  return report(net.set_member(device_, index_, value_ == "up", after));
}

} // namespace actor_rdma::verbs::soft::tool
