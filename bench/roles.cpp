// SPDX-License-Identifier: Apache-2.0
// Target, initiator and loopback.
#include "bench/roles.hpp"

#include "bench/command_line.hpp"
#include "bench/drive.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

using namespace std::chrono_literals;

int complain(const base::error& why, int status) {
  fmt::print(stderr, "actor-rdma-bench: {}\n", why.to_string());
  return status;
}

void print(const settings& what, const run_result& result) {
  if (what.json)
    std::cout << to_json(what, result).dump() << std::endl;
  else
    std::cout << to_table(what, result) << std::flush;
  if (!std::cout.good())
    fmt::print(stderr, "actor-rdma-bench: the result could not be written to standard output\n");
}

/// The end of a run without a result.
int give_up(const base::error& why) {
  const bool is_usage = why.why == base::reason::not_found || why.why == base::reason::invalid_argument;
  return complain(why, is_usage ? exit_usage : exit_transfers_failed);
}

/// The end of a run with a result.
int conclude(const settings& what, const run_result& result, bool closed_clean) {
  print(what, result);
  if (result.faults && !result.faults->failure.empty())
    fmt::print(stderr, "faults: {}\n", result.faults->failure);
  return result.is_good() && closed_clean && std::cout.good() ? exit_good : exit_transfers_failed;
}

base::expected<std::shared_ptr<verbs::soft::fabric>> open_fabric(const std::string& name) {
  verbs::soft::fabric_options how;
  how.name = name;
  return verbs::soft::fabric::open(how);
}

} // namespace

// -- target
// -----------------------------------------------------------------------------------------------------------

int run_target(const settings& what, signals& watch) {
  auto how = transport_options(what, what.soft_host);
  how.listen = what.listen;
  const auto state = std::make_shared<health_watch>();
  how.events = state;
  auto opened = node::open(how, what.range, true, [&](auto memory) { prepare_target(what, memory); });
  if (!opened)
    return complain(opened.error(), exit_not_connected);
  auto& self = **opened;
  watch.on_usr1([&self] { self.dump(); });
  // The line that scripts wait for: from now on an initiator can connect.
  std::cout << "listening on " << self.get().address() << std::endl;
  if (what.time > base::duration::zero())
    watch.wait_for_stop(what.time);
  else
    while (!watch.stop_asked())
      watch.wait_for_stop(1h);
  watch.on_usr1(nullptr);
  const auto healthy = state->so_far(); // without the fences of the shutdown
  const bool clean = self.close();
  const auto notices = self.notices();
  if (notices.received > 0)
    std::cout << "notices: " << to_text(notices) << std::endl;
  std::cout << "health: " << to_text(healthy) << std::endl;
  return clean && notices.is_good() ? exit_good : exit_transfers_failed;
}

// -- initiator
// --------------------------------------------------------------------------------------------------------

int run_initiator(const settings& what, signals& watch) {
  auto how = transport_options(what, what.soft_host);
  const auto events = std::make_shared<event_collector>();
  const auto state = std::make_shared<health_watch>(what.faults.empty() ? nullptr : events);
  how.events = state;
  std::shared_ptr<verbs::soft::fabric> net;
  if (!what.faults.empty()) {
    auto opened = open_fabric(what.soft_fabric);
    if (!opened)
      return complain(opened.error(), exit_not_connected);
    net = std::move(*opened);
  }
  auto opened = node::open(how, what.range, false, [&](auto memory) { prepare_local(what, memory); });
  if (!opened)
    return complain(opened.error(), exit_not_connected);
  auto& self = **opened;
  target_link link(self.get(), what.connect, what.range);
  if (const auto connected = link.connect(what.connect_timeout, [&watch] { return watch.stop_asked(); });
      !connected) {
    if (connected.error().why == base::reason::out_of_range)
      return complain(connected.error(), exit_usage);
    self.dump();
    return complain(connected.error(), exit_not_connected);
  }
  watch.on_usr1([&self] { self.dump(); });
  const auto result = run_actor_engine(what, {self, link, {self.memory(), {}}, net, events, state}, &watch);
  watch.on_usr1(nullptr);
  if (!result)
    return give_up(result.error());
  if (!result->is_good())
    self.dump();
  return conclude(what, *result, self.close());
}

// -- loopback
// ---------------------------------------------------------------------------------------------------------

base::expected<std::unique_ptr<loopback_pair>> loopback_pair::open(const settings& what) {
  std::unique_ptr<loopback_pair> made(new loopback_pair);
  auto initiator = transport_options(what, what.soft_host);
  auto target = transport_options(what, "target");
  target.listen = "127.0.0.1:0";
  if (what.fabric == fabric_kind::soft) {
    auto net = open_fabric(what.soft_fabric);
    if (!net)
      return base::fail(net.error());
    made->net_ = std::move(*net);
    initiator.soft.private_fabric = target.soft.private_fabric = made->net_;
  }
  if (!what.target_devices.empty())
    target.devices = what.target_devices;
  made->events_ = std::make_shared<event_collector>();
  made->state_ = std::make_shared<health_watch>(what.faults.empty() ? nullptr : made->events_);
  initiator.events = made->state_;
  target.events = std::make_shared<health_watch>();
  for (auto [to, how, publish] :
       {std::tuple{&made->target_, &target, true}, std::tuple{&made->initiator_, &initiator, false}}) {
    auto opened = node::open(*how, what.range, publish, [](auto) {});
    if (!opened)
      return base::fail(opened.error());
    *to = std::move(*opened);
  }
  made->link_ =
      std::make_unique<target_link>(made->initiator_->get(), made->target_->get().address(), what.range);
  if (const auto connected = made->link_->connect(what.connect_timeout, [] { return false; }); !connected) {
    made->initiator_->dump();
    made->target_->dump();
    return base::fail(connected.error());
  }
  return made;
}

loopback_pair::~loopback_pair() {
  close();
}

bool loopback_pair::close() {
  bool clean = true;
  if (initiator_)
    clean = initiator_->close();
  if (target_)
    clean = target_->close() && clean;
  return clean;
}

base::expected<run_result> loopback_pair::run(const settings& what, signals* watch) {
  prepare_local(what, initiator_->memory());
  prepare_target(what, target_->memory());
  return run_actor_engine(
      what,
      {*initiator_, *link_, {initiator_->memory(), target_->memory()}, net_, events_, state_, target_.get()},
      watch);
}

namespace {

int run_raw_loopback(const settings& what, signals& watch) {
  memory_block local(what.range);
  memory_block peer(what.range);
  if (!local || !peer)
    return complain({base::reason::resource, "", "", "", "", "there is no memory for --range"},
                    exit_not_connected);
  prepare_local(what, local.bytes());
  prepare_target(what, peer.bytes());
  std::shared_ptr<verbs::soft::fabric> net;
  if (what.fabric == fabric_kind::soft) {
    auto opened = open_fabric(what.soft_fabric);
    if (!opened)
      return complain(opened.error(), exit_not_connected);
    net = std::move(*opened);
  }
  const run_memory memory{local.bytes(), peer.bytes()};
  auto link = raw_link::open(what, memory, net);
  if (!link)
    return complain(link.error(), exit_not_connected);
  const auto result = run_raw_engine(what, **link, memory, &watch);
  if (!result)
    return complain(result.error(), exit_transfers_failed);
  return conclude(what, *result, true);
}

} // namespace

int run_loopback(const settings& what, signals& watch) {
  if (what.engine == engine_kind::raw)
    return run_raw_loopback(what, watch);
  auto opened = loopback_pair::open(what);
  if (!opened)
    return complain(opened.error(), exit_not_connected);
  auto& pair = **opened;
  const auto dump = [&pair] {
    pair.initiator().dump();
    pair.target().dump();
  };
  watch.on_usr1(dump);
  const auto result = pair.run(what, &watch);
  watch.on_usr1(nullptr);
  if (!result)
    return give_up(result.error());
  if (!result->is_good())
    dump();
  return conclude(what, *result, pair.close());
}

} // namespace actor_rdma::bench
