// SPDX-License-Identifier: Apache-2.0
//
// Parsing and printing of addresses.
#include "verbs/soft/tool/addressing_commands.hpp"

#include "verbs/soft/tool/outcome.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace actor_rdma::verbs::soft::tool {

namespace {

const char* type_name(std::uint32_t type) {
  return type == IBV_GID_TYPE_IB ? "ib" : type == IBV_GID_TYPE_ROCE_V1 ? "v1" : "v2";
}

} // namespace

addressing_commands::addressing_commands(CLI::App& app) {
  const char* const names = "host/soft0, or soft0 if only one host has it";
  gid_ = app.add_subcommand("gid", "Show and change the GID table of a port");
  gid_->add_option("device", device_, names)->required();
  gid_->require_subcommand(1);
  list_ = gid_->add_subcommand("list", "The table");
  set_ = gid_->add_subcommand("set", "Put an address at an index");
  set_->add_option("index", index_)->required();
  set_->add_option("gid", value_, "fe80::1, ::ffff:10.0.0.1 or 10.0.0.1")->required();
  set_->add_option("--type", type_, "of the GID")
      ->check(CLI::IsMember({"ib", "v1", "v2"}))
      ->capture_default_str();
  set_->add_option("--interface", interface_, "its interface's index")->check(CLI::Range(0, 0xffffff));
  set_->add_flag("--interface-down", interface_down_, "its interface is down");
  move_ = gid_->add_subcommand("move", "Move an address to another index");
  move_->add_option("from", index_)->required();
  move_->add_option("to", to_)->required();
  del_ = gid_->add_subcommand("del", "Empty an index");
  del_->add_option("index", index_)->required();
  mtu_ = app.add_subcommand("mtu", "Set the MTU of a port");
  mtu_->add_option("device", device_, names)->required();
  mtu_->add_option("bytes", bytes_, "256, 512, 1024, 2048 or 4096")->required();
  lid_ = app.add_subcommand("lid", "Set the LID of a port");
  lid_->add_option("device", device_, names)->required();
  lid_->add_option("lid", lid_value_)->required();
}

bool addressing_commands::parsed() const {
  return gid_->parsed() || mtu_->parsed() || lid_->parsed();
}

int addressing_commands::run(fabric& net) const {
  if (mtu_->parsed())
    return report(net.set_mtu(device_, bytes_));
  if (lid_->parsed())
    return report(net.set_lid(device_, lid_value_));
  return change_gid(net);
}

int addressing_commands::change_gid(fabric& net) const {
  if (move_->parsed())
    return report(net.move_gid(device_, index_, to_));
  if (del_->parsed())
    return report(net.delete_gid(device_, index_));
  if (set_->parsed()) {
    const auto gid = parse_gid(value_);
    if (!gid) {
      fmt::print(stderr, "soft-nic: \"{}\" is not an address: say fe80::1, ::ffff:10.0.0.1 or 10.0.0.1\n",
                 value_);
      return exit_usage;
    }
    gid_row row;
    row.index = index_;
    row.value = *gid;
    row.type = type_ == "ib"   ? std::uint32_t{IBV_GID_TYPE_IB}
               : type_ == "v1" ? std::uint32_t{IBV_GID_TYPE_ROCE_V1}
                               : std::uint32_t{IBV_GID_TYPE_ROCE_V2};
    row.interface_index = interface_;
    row.interface_up = !interface_down_;
    return report(net.set_gid(device_, row));
  }
  const auto rows = net.gids(device_);
  if (!rows)
    return complain(rows.error());
  for (const auto& row : *rows)
    fmt::print("{:>3} {:<40} {:<3} interface {} {}\n", row.index, to_text(row.value), type_name(row.type),
               row.interface_index, row.interface_up ? "up" : "down");
  return 0;
}

} // namespace actor_rdma::verbs::soft::tool
