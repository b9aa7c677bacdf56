// SPDX-License-Identifier: Apache-2.0
// The options of each role.
#include "bench/command_line.hpp"

#include "base/command_line.hpp"
#include "base/units.hpp"
#include "bench/text.hpp"
#include "transport/transport.hpp"

#include <cstdlib>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

namespace actor_rdma::bench {

namespace {

constexpr const char* description = "Measures and checks transfers between two nodes.\n"
                                    "  target      publishes memory and serves until it is told to stop\n"
                                    "  initiator   transfers to or from a target\n"
                                    "  loopback    both in one process";

template <class Parsed>
auto value_or_refuse(const char* option, base::expected<Parsed> parsed) {
  if (!parsed)
    throw CLI::ValidationError(option, parsed.error().what);
  return *std::move(parsed);
}

CLI::Option* add_size(CLI::App& app, const char* name, std::uint64_t& value, const std::string& text) {
  return app
      .add_option_function<std::string>(
          name,
          [&value, name](const std::string& in) { value = value_or_refuse(name, base::parse_size(in)); },
          text)
      ->type_name("SIZE")
      ->default_str(size_text(value));
}

CLI::Option* add_time(CLI::App& app, const char* name, base::duration& value, const std::string& text) {
  return app
      .add_option_function<std::string>(
          name,
          [&value, name](const std::string& in) { value = value_or_refuse(name, base::parse_duration(in)); },
          text)
      ->type_name("TIME")
      ->default_str(time_text(value));
}

CLI::Option* add_seconds(CLI::App& app, settings& s, const char* text) {
  return app
      .add_option_function<double>(
          "--seconds",
          [&s](double seconds) {
            if (!(seconds >= 0 && seconds < 1e9))
              throw CLI::ValidationError("--seconds", "a time in seconds");
            s.time = base::duration{static_cast<std::int64_t>(seconds * 1e9)};
          },
          text)
      ->type_name("SECONDS");
}

void add_log(CLI::App& app, settings& s) {
  app.add_option_function<std::string>(
         "--log",
         [&s](const std::string& name) {
           const auto level = base::parse_level(name);
           if (!level)
             throw CLI::ValidationError("--log", "the levels are trace, debug, info, warn, error and off");
           s.log = *level;
         },
         "What the transport writes to standard error: trace to off")
      ->type_name("LEVEL")
      ->default_str(base::to_string(s.log));
}

/// What both ends of a connection have.
void add_node(CLI::App& app, settings& s) {
  add_size(app, "--range", s.range, "Memory of each side that transfers go through");
  app.add_option_function<std::string>(
         "--fabric",
         [&s](const std::string& name) {
           s.fabric = name == "verbs" ? fabric_kind::verbs : fabric_kind::soft;
         },
         "soft: the software NIC; verbs: the system's RDMA devices")
      ->check(CLI::IsMember({"soft", "verbs"}))
      ->type_name("KIND")
      ->default_str("soft");
  app.add_option("--nics", s.nics, "Software NICs of each side")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  app.add_option("--nic-mode", s.nic_mode,
                 "inline: at once; paced: with --rate and --latency; null: no payload is moved")
      ->check(CLI::IsMember({"inline", "paced", "null"}))
      ->capture_default_str();
  app.add_option("--link-layer", s.link_layer, "Of each software NIC: Ethernet (RoCE) or InfiniBand")
      ->check(CLI::IsMember({"ethernet", "infiniband"}))
      ->capture_default_str();
  app.add_option("--rate", s.rate_gbit_s, "Gbit/s of each paced NIC")
      ->check(CLI::Range(0.001, 10000.0))
      ->capture_default_str();
  add_time(app, "--latency", s.latency, "One way, of each paced NIC");
  app.add_option("--soft-host", s.soft_host, "Name of this virtual host [the role]");
  app.add_option("--soft-fabric", s.soft_fabric,
                 "Shared memory segment of the software NICs [ACTOR_RDMA_SOFT_FABRIC or \"default\"]");
  app.add_option("--lanes", s.lanes, "Lane threads; 0: by the number of cores")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--pin-lanes", s.pin_lanes, "Pin each lane to a core");
  app.add_option("--devices", s.devices, "Only these, by name; \"rxe0:1\" names a port [all]")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--qp-timeout", s.qp_timeout, "Of a QP for an acknowledgement: 4.096 us * 2^N")
      ->check(CLI::Range(1, 31))
      ->capture_default_str();
  app.add_option("--retry-count", s.retry_count, "Retries of a QP; Soft-RoCE takes 7 for endless")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  add_time(app, "--stall-floor", s.stall_floor, "Shortest silence that makes a QP suspect");
  add_time(app, "--lane-spin", s.lane_spin, "How long an idle lane polls before it sleeps");
  add_log(app, s);
}

void add_work(CLI::App& app, settings& s) {
  app.add_option_function<std::string>(
         "--op",
         [&s](const std::string& name) { s.op = name == "read" ? operation::read : operation::write; },
         "read or write, as the initiator sees it")
      ->check(CLI::IsMember({"read", "write"}))
      ->type_name("OP")
      ->default_str("write");
  add_size(app, "--size", s.size, "Bytes of each transfer");
  app.add_option("--batch", s.batch, "Transfers that are submitted together")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--depth", s.depth, "Batches open at once, per thread [4, or what fits into --range]")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", s.threads, "Submitting threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  auto* const time = add_seconds(app, s, "How long to measure [5]");
  auto* const batches =
      app.add_option("--batches", s.batches, "How many batches to transfer, instead of --seconds")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
          ->excludes(time);
  app.add_option_function<std::string>(
         "--bytes",
         [&s](const std::string& in) {
           // The size of a batch is known later: kept as bytes until then.
           s.batches = value_or_refuse("--bytes", base::parse_size(in));
           if (s.batches == 0)
             throw CLI::ValidationError("--bytes", "there is nothing to transfer");
         },
         "How many bytes to transfer, rounded up to whole batches, instead of --seconds")
      ->type_name("SIZE")
      ->excludes(time)
      ->excludes(batches);
  app.add_flag("--verify", s.verify,
               "Check the content of every transfer, byte for byte; between two processes what was "
               "written is read back, and no other initiator may write there");
  app.add_flag(
      "--notices", s.notices,
      "Each batch carries a notice; with --verify the target looks whether what was written is there when "
      "it arrives");
  add_time(app, "--pause", s.pause, "Of each thread between two batches");
  app.add_option_function<std::string>(
         "--deadline",
         [&s](const std::string& in) {
           s.deadline = in == "none" ? submit_options::no_deadline
                                     : value_or_refuse("--deadline", base::parse_duration(in));
           if (s.deadline <= base::duration::zero())
             throw CLI::ValidationError("--deadline", "a deadline is longer than nothing");
         },
         "For the whole life of each transfer, or \"none\": then what is open 10 s after the run is "
         "cancelled")
      ->type_name("TIME")
      ->default_str("30s");
  app.add_option("--qps", s.qps, "QPs per rail")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--send-queue", s.send_queue, "WRs per QP, a power of two")->capture_default_str();
  add_size(app, "--slice", s.slice, "Bytes per WR at most");
  app.add_option_function<std::string>(
         "--fault",
         [&s](const std::string& in) { s.faults = value_or_refuse("--fault", parse_fault_plan(in)); },
         "Faults and their times, \"down:soft0@2s,up:soft0@4s\"; verbs: down up hang heal delay:DEVICE=10ms")
      ->type_name("PLAN");
  app.add_option("--trials", s.trials, "Repeat the faults so often and sum up the recoveries")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--json", s.json, "One JSON object on standard output instead of the table");
}

} // namespace

std::variant<settings, int> parse_command_line(int argc, const char* const* argv, std::ostream& output,
                                               std::ostream& errors) {
  settings s;
  if (const char* const name = std::getenv("ACTOR_RDMA_SOFT_FABRIC"); name != nullptr)
    s.soft_fabric = name;
  CLI::App app{description, "actor-rdma-bench"};
  app.require_subcommand(1);
  auto& target = *app.add_subcommand("target", "Publish memory and serve");
  add_node(target, s);
  target.add_option("--listen", s.listen, "Address to listen on; port 0: any")->capture_default_str();
  add_seconds(target, s, "Stop after so long [only on SIGINT or SIGTERM]");
  auto& initiator = *app.add_subcommand("initiator", "Transfer to or from a target");
  add_work(initiator, s);
  add_node(initiator, s);
  initiator.add_option("--connect", s.connect, "Address of the target, host:port")->required();
  add_time(initiator, "--connect-timeout", s.connect_timeout, "For the first connection");
  auto& loopback = *app.add_subcommand("loopback", "Target and initiator in one process");
  add_work(loopback, s);
  add_node(loopback, s);
  loopback
      .add_option_function<std::string>(
          "--engine",
          [&s](const std::string& name) { s.engine = name == "raw" ? engine_kind::raw : engine_kind::actor; },
          "actor: the transport; raw: a bare post and poll loop on the same NICs")
      ->check(CLI::IsMember({"actor", "raw"}))
      ->type_name("ENGINE")
      ->default_str("actor");
  loopback
      .add_option("--compare", s.compare, "Run actor and raw alternately, so many pairs, and compare them")
      ->check(CLI::Range(1, 1000));
  loopback.add_option("--target-devices", s.target_devices, "The target's devices, by name [--devices]")
      ->delimiter(',')
      ->type_name("NAME,...");
  base::refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e, output, errors) == 0 ? exit_good : exit_usage;
  }
  s.as = target.parsed() ? role::target : initiator.parsed() ? role::initiator : role::loopback;
  if (target.parsed() && target.count("--seconds") == 0)
    s.time = base::duration::zero();
  if (!target.parsed() && app.get_subcommands().front()->count("--bytes") > 0 && s.batch_bytes() > 0)
    s.batches = (s.batches + s.batch_bytes() - 1) / s.batch_bytes();
  if (s.soft_host.empty())
    s.soft_host = target.parsed() ? "target" : "initiator";
  if (s.soft_fabric.empty() && s.as != role::loopback)
    s.soft_fabric = "default";
  if (const auto good = check(s); !good) {
    errors << "actor-rdma-bench: " << good.error().what << '\n';
    return exit_usage;
  }
  return s;
}

} // namespace actor_rdma::bench
