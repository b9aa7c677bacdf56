// SPDX-License-Identifier: Apache-2.0
// Start and end of a transport.
#include "transport/internal/core.hpp"

#include "actors/lane_scheduler.hpp"
#include "actors/port_name.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "bootstrap/limits.hpp"
#include "transport/internal/fork_guard.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace actor_rdma::detail {

namespace {

actors::settings settings_of(const options& o) {
  actors::settings s;
  s.node = o.name;
  s.qps_per_endpoint = o.qps_per_endpoint;
  s.send_queue_depth = o.send_queue_depth;
  s.slice_bytes = o.slice_bytes;
  s.stall_floor = o.stall_floor;
  s.path_fence = o.path_fence;
  s.breaker_hold = o.breaker_hold;
  s.fence_grace = o.fence_grace;
  s.drain_deadline = o.drain_deadline;
  s.remote_fence = o.remote_fence;
  s.remote_fence_timeout = o.remote_fence_timeout;
  s.port_poll = o.port_poll;
  s.device_poll = o.device_poll;
  s.only_devices = o.devices;
  for (const auto& name : o.spare_devices)
    s.spare_devices.push_back(actors::parse_port_name(name).text());
  s.rebuild_backoff_max = o.rebuild_backoff_max;
  s.reach_retry = o.reach_retry;
  s.reach_retry_max = o.reach_retry_max;
  s.register_wait = o.register_wait;
  s.connect_deadline = o.connect_deadline;
  s.reconnect_window = o.reconnect_window;
  s.stuck_after = o.stuck_after;
  s.qp_timeout = o.qp_timeout;
  s.retry_count = o.retry_count;
  s.read_depth = o.read_depth;
  s.notice_inbox = o.notice_inbox;
  s.gid_index = o.gid_index;
  s.ib_grh = o.ib_grh;
  return s;
}

verbs::soft::nic_mode mode_of(const std::string& name) {
  if (name == "paced")
    return verbs::soft::nic_mode::paced;
  return name == "null" ? verbs::soft::nic_mode::null : verbs::soft::nic_mode::immediate;
}

} // namespace

core::core(const options& opts)
    : opts_(opts), self_(base::entropy_seed() | 1), born_in_process_(process_generation()),
      lane_events_(opts.name, opts.events),
      inbox_(std::make_shared<actors::notice_inbox>(opts.notice_inbox, [this] {
        if (opts_.on_notice)
          completions_->notices_came();
      })) {}

core::~core() = default;

base::expected<std::shared_ptr<core>> core::create(const options& opts) {
  if (auto good = validate(opts); !good)
    return base::fail(good.error());
  std::shared_ptr<core> made(new core(opts));
  if (auto started = made->start(); !started) {
    made->release();
    return base::fail(started.error());
  }
  return made;
}

base::expected<std::vector<actors::open_device>> core::open_devices() {
  auto list = table_->list_devices();
  if (!list)
    return base::fail(list.error());
  std::vector<std::pair<ibv_device*, std::uint8_t>> chosen; // and a port of it
  std::string names;
  for (auto* d : *list) {
    const std::string name = table_->get_device_name(d);
    names += (names.empty() ? "" : ", ") + name;
    auto ports = actors::wanted_ports(name, opts_.devices);
    if (opts_.devices.empty()) // port 1, and what is named as a spare
      for (const auto port : opts_.spare_devices.empty() ? std::vector<std::uint8_t>{}
                                                         : actors::wanted_ports(name, opts_.spare_devices))
        if (port != 1)
          ports.push_back(port);
    for (const auto port : ports)
      chosen.emplace_back(d, port);
  }
  for (const auto* wishes : {&opts_.devices, &opts_.spare_devices})
    for (const auto& wanted : *wishes)
      if (std::none_of(list->begin(), list->end(),
                       [&, device = actors::parse_port_name(wanted).device](auto* d) {
                         return device == table_->get_device_name(d);
                       }))
        return base::fail(base::reason::not_found, "transport",
                          fmt::format("there is no device {}, there are: {}", wanted, names));
  if (chosen.empty())
    return base::fail(base::reason::not_found, "transport", "there is no RDMA device");
  if (chosen.size() > bootstrap::max_devices)
    return base::fail(base::reason::out_of_range, "transport",
                      fmt::format("{} devices, and a node has at most {}: choose some by name", chosen.size(),
                                  bootstrap::max_devices));
  auto probe = std::make_shared<actors::probe_page>();
  probe->incarnation = self_;
  std::vector<actors::open_device> open;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    auto d =
        actors::open_device::open(*table_, chosen[i].first, probe, i, chosen.size() + actors::late_devices,
                                  opts_.cq_entries, chosen[i].second);
    if (!d)
      return base::fail(d.error());
    open.push_back(std::move(*d));
    if (opts_.gid_index)
      if (const auto there = open.back().check_gid_index(*opts_.gid_index); !there)
        return base::fail(there.error());
  }
  return open;
}

base::expected<void> core::start() {
  if (opts_.fabric == fabric_kind::soft) {
    verbs::soft::fabric_options f;
    f.name = opts_.soft.fabric;
    auto fabric =
        opts_.soft.private_fabric ? opts_.soft.private_fabric : std::shared_ptr<verbs::soft::fabric>{};
    if (!fabric) {
      auto made = verbs::soft::fabric::open(f);
      if (!made)
        return base::fail(made.error());
      fabric = std::move(*made);
    }
    fabric_ = std::move(fabric);
    std::vector<verbs::soft::device_options> nics(opts_.soft.devices);
    for (std::size_t i = 0; i < nics.size(); ++i) {
      nics[i].name = fmt::format("soft{}", i);
      nics[i].mode = mode_of(opts_.soft.mode);
      nics[i].rate_gbit_s = opts_.soft.rate_gbit_s;
      nics[i].latency = opts_.soft.latency;
      nics[i].link_layer = verbs::soft::parse_link_layer(opts_.soft.link_layer).value_or(nics[i].link_layer);
    }
    auto host = fabric_->attach(opts_.soft.host, opts_.soft.nics ? *opts_.soft.nics : nics);
    if (!host)
      return base::fail(host.error());
    host_ = std::move(*host);
    table_ = &host_->verbs();
  } else {
    auto table = verbs::system_provider();
    if (!table)
      return base::fail(table.error());
    table_ = *table;
  }
  auto devices = open_devices();
  if (!devices)
    return base::fail(devices.error());
  auto channel = bootstrap::tcp_channel::create();
  if (!channel)
    return base::fail(channel.error());
  channel_ = std::move(*channel);

  actors::lane_scheduler_options lanes;
  lanes.lanes = opts_.lanes;
  lanes.pin = opts_.pin_lanes;
  lanes.lane.spin = opts_.lane_spin;
  lanes.lane.gap_threshold = opts_.stall_floor / 4;
  lanes.lane.observer = &lane_events_;
  actors::use_lanes(config_, lanes);
  system_ = std::make_unique<caf::actor_system>(config_);
  completions_ = std::make_unique<completion_thread>([inbox = inbox_, call = opts_.on_notice] {
    auto next = inbox->take();
    if (next)
      call(std::move(*next));
    return next.has_value();
  });

  actors::engine::parts p;
  p.config = settings_of(opts_);
  p.self = self_;
  p.events = opts_.events;
  p.devices = std::move(*devices);
  auto* scheduler = actors::lanes_of(*system_);
  for (std::size_t i = 0; i < scheduler->lane_count(); ++i)
    p.lanes.push_back(&scheduler->at(i));
  p.channel = channel_;
  p.batch_done = [this](const auto& batch) { batch_done(batch); };
  p.inbox = inbox_;
  engine_ = std::make_unique<actors::engine>(std::move(p));
  if (!opts_.listen.empty()) {
    auto address = channel_->listen(opts_.listen);
    if (!address) {
      shutdown(opts_.shutdown_timeout);
      return base::fail(address.error());
    }
    address_ = *address;
  }
  return {};
}

/// Until the process ends, and without an end of its own then.
static void keep_for_good(std::shared_ptr<core> what) {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::shared_ptr<core>>;
  std::lock_guard lock(mutex);
  kept.push_back(std::move(what));
}

shutdown_report core::shutdown(base::duration timeout) {
  std::lock_guard lock(shutdown_mutex_);
  if (down_.exchange(true) || !engine_ || born_in_process_ != process_generation())
    return report_;
  const auto until = base::mono_clock::now() + timeout;
  auto over = std::make_shared<std::promise<std::vector<std::string>>>();
  auto answer = over->get_future();
  engine_->stop("the transport shuts down",
                [over](std::vector<std::string> left) { over->set_value(std::move(left)); });
  const bool ended =
      answer.wait_until(std::chrono::steady_clock::now() + timeout) == std::future_status::ready;
  if (ended) {
    report_.quarantined = answer.get();
  } else {
    for (const auto& s : snapshot(std::chrono::milliseconds{100}))
      if (s.state != "RETIRED" && s.state != "STOPPED")
        report_.quarantined.push_back(observe::to_line(s));
  }
  report_.clean = ended && report_.quarantined.empty();
  // With QPs left the process is not as good as dead, and peers must not take it for that: its links stay,
  // and its goodbye is sent if the last of them goes after all.
  if (ended)
    channel_->stop();
  const bool callbacks_ended = completions_->stop_within(
      std::max<base::duration>(until - base::mono_clock::now(), std::chrono::milliseconds{100}));
  if (!callbacks_ended) {
    report_.clean = false;
    report_.quarantined.emplace_back("a completion callback that does not return");
  }
  if (report_.clean) {
    release();
    return report_;
  }
  // Something may still refer to devices and memory: everything stays, on purpose, for the rest of the
  // process's life.
  for (const auto& what : report_.quarantined)
    base::log(base::level::error, "transport", "{}: left behind at shutdown: {}", opts_.name, what);
  keep_for_good(shared_from_this());
  return report_;
}

/// In the order in which things refer to each other.
void core::release() {
  {
    std::lock_guard lock(mutex_);
    peers_.clear();
    buffers_.clear();
  }
  engine_.reset();
  system_.reset();
  channel_.reset();
  completions_.reset();
  table_ = nullptr;
  host_.reset();
  fabric_.reset();
}

} // namespace actor_rdma::detail
