// SPDX-License-Identifier: Apache-2.0
// Links, guests and peers of a node, and its end. Buffers are in node_buffers.cpp.
#include "actors/node.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

void snapshot_request::pass_on(const caf::actor& to, const std::string& name) const {
  if (!to)
    return;
  into->expect(name);
  caf::anon_send(to, *this);
}

node::node(lane_env& env, const settings& config, observer& watch, place where)
    : lane_object(env), config_(config), watch_(watch), where_(std::move(where)),
      ports_(where_.devices.size()), port_known_(where_.devices.size(), false),
      memory_(where_.devices.size()) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    memory_[i].open = std::move(where_.open[i]);
    memory_[i].probe_rkey = memory_[i].open->probe_rkey;
  }
  published_devices_ = memory_.size();
  devices_at_most_ = memory_.empty() ? 0 : where_.devices.front().object->recipe().devices;
}

node::~node() = default;

caf::behavior node::make_behavior() {
  for (const auto& d : where_.devices)
    caf::anon_send(d.handle, subscribe{me()});
  env().arm(env().now() + config_.device_poll, *this, look_token);
  return {
      on<dial_request>(&node::handle, &node::handle), on<link_opened>(&node::handle, &node::handle),
      on<link_closed>(&node::handle, &node::handle),  on<control>(&node::handle, &node::handle),
      on<import_peer>(&node::handle, &node::handle),  on<device_changed>(&node::handle, &node::handle),
      on<guest_left>(&node::handle, &node::handle),   on<register_buffer>(&node::handle),
      on<deregister_buffer>(&node::handle),           on<stop>(&node::handle),
      on<stopped>(&node::handle, &node::handle),      on<snapshot_request>(&node::handle),
      on<room_wanted>(&node::handle, &node::handle),
  };
}

void node::on_fault(const std::string& what) {
  note(observe::event_kind::internal_fault, what, base::level::error);
}

lane_env& node::next_lane() {
  return *where_.lanes[turn_++ % where_.lanes.size()];
}

// -- links ----------------------------------------------------------------------------------------

void node::handle(dial_request& m) {
  const auto link = where_.channel->dial(m.address);
  links_[link] = m.who;
  caf::anon_send(m.who, dial_started{link});
}

void node::handle(link_opened& m) {
  if (m.accepted)
    links_[m.link] = caf::actor{};
  else if (const auto at = links_.find(m.link); at != links_.end())
    caf::anon_send(at->second, m);
}

void node::handle(link_closed& m) {
  const auto at = links_.find(m.link);
  if (at == links_.end())
    return;
  if (at->second)
    caf::anon_send(at->second, m);
  links_.erase(at);
}

void node::handle(control& m) {
  const auto at = links_.find(m.link);
  if (at == links_.end())
    return;
  if (at->second)
    caf::anon_send(at->second, m);
  else
    greet(m);
}

void node::refuse_link(bootstrap::link_id link, bootstrap::incarnation to, bootstrap::reject_code code,
                       const std::string& text) {
  bootstrap::message m;
  m.from = where_.self;
  m.to = to;
  bootstrap::reject r;
  r.code = code;
  r.text = text;
  m.what = std::move(r);
  where_.channel->send(link, m);
  where_.channel->close(link);
  note(observe::event_kind::rejected, fmt::format("we refused a link: {}", text), base::level::warn);
}

/// The first message on an accepted link.
void node::greet(const control& m) {
  const auto* hello = std::get_if<bootstrap::hello>(&m.what.what);
  if (hello == nullptr || m.what.from == 0)
    return refuse_link(m.link, m.what.from, bootstrap::reject_code::bad_request,
                       fmt::format("{} before hello", bootstrap::type_name(m.what.what)));
  if (stage_ != stage::running)
    return refuse_link(m.link, m.what.from, bootstrap::reject_code::shutting_down,
                       config_.node + " is shutting down");
  if (m.what.to != 0 && m.what.to != where_.self)
    return refuse_link(
        m.link, m.what.from, bootstrap::reject_code::wrong_incarnation,
        fmt::format("{} is {:#x}, and {:#x} was asked for: it has been restarted, or is another one",
                    config_.node, where_.self, m.what.to));
  if (!ports_known()) { // it begins in milliseconds: what we publish names every port
    early_hellos_.push_back(m);
    return;
  }
  const bootstrap::caller who{m.what.from, hello->relation};
  auto& g = guests_[who];
  if (!g.handle) {
    guest::place p;
    p.name = hello->node;
    p.who = who.who;
    p.relation = who.relation;
    p.self = where_.self;
    p.channel = where_.channel;
    p.node = me();
    p.devices = where_.devices;
    p.inbox = where_.inbox;
    p.notices = departed_.take(who);
    g.object = std::make_shared<guest>(next_lane(), config_, watch_, std::move(p));
    g.handle = launch(g.object);
  }
  links_[m.link] = g.handle;
  caf::anon_send(g.handle, adopt_link{m.link, segment()});
}

/// A guest that left by itself does not answer a stop which crossed its leaving.
void node::handle(guest_left& m) {
  departed_.keep(m.who, m.notices);
  if (guests_.erase(m.who) == 0 || stage_ != stage::work)
    return;
  stopped crossed;
  handle(crossed);
}

void node::handle(room_wanted& m) {
  for (const auto& [who, g] : guests_)
    caf::anon_send(g.handle, m);
}

void node::handle(import_peer& m) {
  if (stage_ != stage::running)
    return m.done(base::fail(base::reason::shutting_down, "transport", "it shuts down"));
  auto& p = peers_[m.address]; // never erased: its place in the order of making is a name
  if (!p.handle) {
    peer::place w;
    w.address = m.address;
    w.relation = static_cast<std::uint32_t>(peers_.size());
    w.self = where_.self;
    w.channel = where_.channel;
    w.node = me();
    w.devices = where_.devices;
    w.batch_done = where_.batch_done;
    w.view = std::make_shared<peer_view>();
    p.object = std::make_shared<peer>(next_lane(), config_, watch_, std::move(w));
    p.handle = launch(p.object);
  }
  caf::anon_send(p.handle, std::move(m));
}

// -- what we publish ------------------------------------------------------------------------------

bool node::ports_known() const noexcept {
  return std::all_of(port_known_.begin(), port_known_.end(), [](bool known) { return known; });
}

void node::handle(device_changed& m) {
  const bool first = !port_known_.at(m.device);
  port_known_[m.device] = true;
  // An address that is unknown because its port is down keeps its last value: peers need one to name the
  // device.
  if (m.active || first)
    ports_[m.device] = m.address;
  if (m.active) {
    published_devices_ = std::max(published_devices_, std::size_t{m.device} + 1);
    publish();
  }
  device_memory_changed(m);
  if (ports_known())
    for (auto& hello : std::exchange(early_hellos_, {}))
      handle(hello);
}

bootstrap::segment node::segment() const {
  bootstrap::segment s;
  s.name = config_.node;
  s.version = version_;
  const auto n = published_devices_;
  s.devices.assign(ports_.begin(), ports_.begin() + static_cast<std::ptrdiff_t>(n));
  s.probe_addr = where_.devices.empty() ? 0 : where_.devices.front().object->probe_addr();
  for (std::size_t i = 0; i < n; ++i)
    s.probe_rkeys.push_back(memory_[i].probe_rkey);
  for (const auto& [id, b] : buffers_) {
    if (!b->what->published || b->calls != 0 || b->what->closing)
      continue;
    const auto& what = *b->what;
    for (std::size_t chunk = 0; chunk < what.chunks(); ++chunk) {
      bootstrap::remote_buffer r;
      r.id = id;
      r.addr = what.addr + chunk * what.chunk_bytes;
      r.length = std::min(what.chunk_bytes, what.addr + what.length - r.addr);
      const auto keys = what.rkeys.begin() + static_cast<std::ptrdiff_t>(chunk * what.devices);
      r.rkeys.assign(keys, keys + static_cast<std::ptrdiff_t>(n));
      s.buffers.push_back(std::move(r));
    }
  }
  return s;
}

void node::publish() {
  ++version_;
  for (const auto& [who, g] : guests_)
    caf::anon_send(g.handle, published{segment()});
}

// -- the end --------------------------------------------------------------------------------------

void node::handle(stop& m) {
  if (stage_ != stage::running)
    return;
  stage_ = stage::work;
  stop_cause_ = m.cause;
  waiting_for_ = 1; // ourselves, until everybody has been asked
  for (const auto& [address, p] : peers_) {
    ++waiting_for_;
    caf::anon_send(p.handle, stop{m.cause, me()});
  }
  for (const auto& [who, g] : guests_) {
    ++waiting_for_;
    caf::anon_send(g.handle, stop{m.cause, me()});
  }
  stopped self;
  handle(self);
}

void node::handle(stopped& m) {
  quarantined_.insert(quarantined_.end(), m.quarantined.begin(), m.quarantined.end());
  if (waiting_for_ > 0 && --waiting_for_ == 0)
    next_stage();
}

/// Work first, then memory, then devices: nothing may refer to what goes.
void node::next_stage() {
  if (stage_ == stage::work) {
    stage_ = stage::memory;
    waiting_for_ = 1;
    for (const auto& [id, b] : buffers_) {
      ++waiting_for_;
      b->what->closing = true;
      b->give_up_at = base::time_point::max();
      b->deregistered = [this, earlier = std::move(b->deregistered)](const base::expected<void>& outcome) {
        if (earlier)
          earlier(outcome);
        stopped s;
        handle(s);
      };
      try_deregister(id);
    }
    stopped self;
    handle(self);
  } else if (stage_ == stage::memory) {
    stage_ = stage::devices;
    waiting_for_ = where_.devices.size();
    for (const auto& d : where_.devices)
      caf::anon_send(d.handle, stop{stop_cause_, me()});
    if (where_.devices.empty())
      next_stage();
  } else if (stage_ == stage::devices) {
    stage_ = stage::over;
    if (on_stopped)
      on_stopped(std::move(quarantined_));
    peers_.clear();
    guests_.clear();
    links_.clear();
    where_.devices.clear();
    end_actor();
  }
}

void node::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = "node";
  s.name = config_.node;
  s.state = stage_ == stage::running ? "RUNNING" : "STOPPING";
  s.queued = buffers_.size();
  s.outstanding = links_.size();
  for (const auto& d : where_.devices)
    m.pass_on(d.handle, config_.node + "/" + d.object->name());
  for (const auto& [address, p] : peers_)
    m.pass_on(p.handle, p.object->name());
  for (const auto& [who, g] : guests_)
    m.pass_on(g.handle, g.object->name());
  m.into->add(std::move(s));
}

void node::note(observe::event_kind kind, std::string detail, base::level at) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = config_.node;
  e.detail = std::move(detail);
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
