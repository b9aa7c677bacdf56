// SPDX-License-Identifier: Apache-2.0
//
// soft-nic: looks at a named fabric from outside and changes its links, faults, rates and modes while traffic
// runs. Exit codes: 0 done, 1 the fabric or the device said no, 2 the command line is wrong, 3 there is no
// such fabric.
#include "base/command_line.hpp"
#include "base/error.hpp"
#include "base/output.hpp"
#include "base/time.hpp"
#include "verbs/dropin/exec.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/sweep.hpp"
#include "verbs/soft/tool/addressing_commands.hpp"
#include "verbs/soft/tool/fault_commands.hpp"
#include "verbs/soft/tool/outcome.hpp"
#include "verbs/soft/tool/port_commands.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft::tool;

volatile std::sig_atomic_t interrupted = 0;

struct options {
  std::string fabric = "default";
  std::string device;
  std::string value;
  bool follow = false;
};

const char* name_of(soft::nic_mode mode) {
  switch (mode) {
  case soft::nic_mode::immediate: return "inline";
  case soft::nic_mode::paced: return "paced";
  case soft::nic_mode::null: return "null";
  case soft::nic_mode::paced_null: return "paced-null";
  }
  return "unknown";
}

std::string text_of(base::duration d) {
  const auto ns = d.count();
  if (ns == 0)
    return "-";
  if (ns % 1'000'000 == 0)
    return fmt::format("{}ms", ns / 1'000'000);
  return ns % 1'000 == 0 ? fmt::format("{}us", ns / 1'000) : fmt::format("{}ns", ns);
}

/// "1/2" of a bond, "-" of a single wire.
std::string bond_text(const soft::device_state& d) {
  return d.bond_members <= 1 ? "-" : fmt::format("{}/{}", d.members_up, d.bond_members);
}

void show(const soft::fabric& net) {
  fmt::print("{:<24} {:<5} {:<5} {:>9} {:<7} {:>9} {:>6} {:>6} {:>8} {:>16} {:>6} {:<10} {:<5} {:<5}\n",
             "device", "link", "hang", "delay", "mode", "Gbit/s", "QPs", "MRs", "stuck", "bytes sent", "LID",
             "link layer", "width", "bond");
  for (const auto& d : net.devices())
    fmt::print("{:<24} {:<5} {:<5} {:>9} {:<7} {:>9.3f} {:>6} {:>6} {:>8} {:>16} {:>6} {:<10} {:<5} {:<5}\n",
               d.name,
               d.lost      ? "lost"
               : d.link_up ? "up"
                           : "down",
               d.hang_hard ? "hard"
               : d.hang    ? "on"
                           : "off",
               text_of(d.delay), name_of(d.mode), d.rate_gbit_s, d.open_qps, d.open_mrs, d.stuck_wrs,
               d.bytes_sent, d.lid, soft::link_layer_name(d.link_layer),
               fmt::format("{}x{:g}", d.lanes, d.lane_gbit_s), bond_text(d));
}

void print(const soft::log_entry& e) {
  const auto ns = e.at.time_since_epoch().count();
  fmt::print("{}.{:09} {} {}", ns / 1'000'000'000, ns % 1'000'000'000, soft::to_string(e.kind), e.device);
  if (e.kind == soft::log_kind::rule) {
    fmt::print(" rule {} {} {}", e.rule, e.verdict, e.op);
    if (!e.peer.empty())
      fmt::print(" peer {} wr {}", e.peer, e.wr);
  }
  if (e.qp_num != 0)
    fmt::print(" qp {:#x}", e.qp_num);
  if (e.length != 0 || e.remote_addr != 0)
    fmt::print(" wr_id {} to {:#x}+{}", e.wr_id, e.remote_addr, e.length);
  if (e.kind != soft::log_kind::rule && (e.detail != 0 || e.kind == soft::log_kind::async_event))
    fmt::print(" detail {}", e.detail);
  fmt::print("\n");
}

void print_log(const soft::fabric& net, bool follow) {
  std::uint64_t next = 0;
  do {
    for (const auto& entry : net.read_log(next, next))
      print(entry);
    std::fflush(stdout);
    if (follow)
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
  } while (follow && interrupted == 0);
}

CLI::App* add_device_command(CLI::App& app, options& o, const char* name, const char* what) {
  auto* const command = app.add_subcommand(name, what);
  command->add_option("device", o.device, "host/soft0, or soft0 if only one host has it")->required();
  return command;
}

int run_command(int argc, char** argv) {
  options o;
  if (const char* const name = std::getenv("ACTOR_RDMA_SOFT_FABRIC"); name != nullptr && *name != '\0')
    o.fabric = name;
  CLI::App app{"Looks at and changes a fabric of software NICs."};
  app.require_subcommand(1);
  app.fallthrough(); // --fabric may also stand behind the command
  app.add_option("--fabric", o.fabric, "name of the fabric (ACTOR_RDMA_SOFT_FABRIC)")->capture_default_str();
  auto* const show_command = app.add_subcommand("show", "List the devices of all hosts");
  auto* const mode = add_device_command(app, o, "mode", "Change how a device executes work");
  mode->add_option("mode", o.value)
      ->required()
      ->check(CLI::IsMember({"inline", "paced", "null", "paced-null"}));
  soft::tool::addressing_commands addressing{app};
  soft::tool::port_commands ports{app};
  soft::tool::fault_commands faults{app};
  dropin::exec_options run;
  auto* const exec = app.add_subcommand("exec", "Run a program on the fabric: soft-nic exec -- PROGRAM ARGS");
  exec->add_option("--devices", run.devices, "how many it has (ACTOR_RDMA_SOFT_DEVICES)");
  exec->add_option("--host", run.host, "name of its host (ACTOR_RDMA_SOFT_HOST)");
  exec->add_option("--link-layer", run.link_layer,
                   "ethernet or infiniband, for each device with commas (ACTOR_RDMA_SOFT_LINK_LAYER)");
  exec->add_flag("!--no-files", run.with_files, "without /sys/class/infiniband and /dev/infiniband");
  exec->add_option("program", run.command, "the program and, behind --, its arguments")->required();
  auto* const log = app.add_subcommand("log", "Print the event log");
  log->add_flag("--follow", o.follow, "go on until interrupted");
  auto* const sweep = app.add_subcommand("sweep", "Remove what killed processes left of fabrics in /dev/shm");
  base::refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (const auto unknown = base::name_unknown_command(app); !unknown.empty()) {
      fmt::print(stderr, "soft-nic: {}\n", unknown);
      return exit_usage;
    }
    return app.exit(e) == 0 ? 0 : exit_usage;
  }
  if (exec->parsed()) {
    run.fabric = o.fabric;
    return dropin::exec_on_soft_nic(run);
  }

  if (sweep->parsed()) {
    for (const auto& path : soft::sweep_fabric_files())
      fmt::print("removed {}\n", path);
    return 0;
  }
  soft::fabric_options how;
  how.name = o.fabric;
  how.observe_only = true;
  const auto net = soft::fabric::open(how);
  if (!net) {
    const int status = complain(net.error());
    return net.error().why == base::reason::not_found ? exit_no_fabric : status;
  }
  auto& fabric = **net;
  if (show_command->parsed()) {
    show(fabric);
  } else if (log->parsed()) {
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
    print_log(fabric, o.follow);
  } else if (addressing.parsed()) {
    return addressing.run(fabric);
  } else if (faults.parsed()) {
    return faults.run(fabric);
  } else if (ports.parsed()) {
    return ports.run(fabric);
  } else if (mode->parsed()) {
    return report(fabric.set_mode(o.device, o.value == "inline"  ? soft::nic_mode::immediate
                                            : o.value == "paced" ? soft::nic_mode::paced
                                            : o.value == "null"  ? soft::nic_mode::null
                                                                 : soft::nic_mode::paced_null));
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return base::output_written("soft-nic", run_command(argc, argv), exit_refused);
}
