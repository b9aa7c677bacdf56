// SPDX-License-Identifier: Apache-2.0
// The control link to a peer that we dialled: dialling, hello, publish, loss and death.
#include "actors/peer.hpp"
#include "actors/port_path.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

constexpr auto dial_backoff_min = std::chrono::milliseconds{20};

/// A peer's segment is input: what the data path indexes must be there.
const char* fault_of(const bootstrap::segment& s) noexcept {
  if (s.devices.empty())
    return "it publishes no device";
  if (s.probe_rkeys.size() != s.devices.size())
    return "a device has no probe key";
  if (s.buffers.size() > 0xffff)
    return "it publishes more than 65535 buffers";
  for (const auto& b : s.buffers)
    if (b.rkeys.size() != s.devices.size() || b.addr + b.length < b.addr)
      return "a buffer has not one key per device, or wraps";
  return nullptr;
}

} // namespace

void peer::raise(session_event event, std::string cause) {
  const auto before = machine_.state();
  const auto outcome = machine_.apply(event, env().now());
  if (outcome.is_ignored())
    return;
  if (!cause.empty())
    cause_ = cause;
  if (before != machine_.state()) {
    observe::event e;
    e.at = env().now();
    e.subject = title_;
    e.from = to_string(before);
    e.to = to_string(machine_.state());
    e.detail = std::move(cause);
    watch_.emit(std::move(e), base::level::debug);
  }
  perform(outcome.act);
}

void peer::perform(session_action action) {
  switch (action) {
  case session_action::none: break;
  case session_action::dial: dial(); break;
  case session_action::redial_later: {
    if (!ever_connected_ && imports_.empty())
      break; // nobody holds anything of it; the next import dials
    const auto shift = std::min(dial_failures_++, 10u);
    const auto wait = std::min<base::duration>(dial_backoff_min * (1u << shift), config_.rebuild_backoff_max);
    if (dial_timer_ != deadline_id::none)
      env().cancel(dial_timer_);
    dial_timer_ = env().arm(env().now() + wait, *this, dial_token);
    break;
  }
  case session_action::greet: greet(); break;
  case session_action::link_down:
    note(observe::event_kind::peer_lost, "control link: " + cause_, 0, base::level::info);
    link_ = 0;
    tell_endpoints(false);
    dial();
    break;
  case session_action::resume:
    tell_endpoints(false);
    ask_for_refresh();
    outbox_.connected();
    break;
  case session_action::give_up: {
    base::error why = last_refusal_;
    link_ = 0;
    outbox_.disconnected();
    if (owner_ != 0)
      declare_dead();
    answer_imports(base::fail(why));
    perform(session_action::redial_later);
    break;
  }
  case session_action::finish:
    answer_imports(base::fail(base::reason::shutting_down, "transport", "it shuts down"));
    if (link_ != 0) {
      send(bootstrap::goodbye{cause_});
      where_.channel->close(link_);
    }
    if (dial_timer_ != deadline_id::none)
      env().cancel(std::exchange(dial_timer_, deadline_id::none));
    if (reach_timer_ != deadline_id::none)
      env().cancel(std::exchange(reach_timer_, deadline_id::none));
    if (stop_asked_by_)
      caf::anon_send(std::exchange(stop_asked_by_, nullptr), stopped{title_, {}});
    endpoint_handles_.clear();
    slots_.clear();
    where_.node = nullptr;
    end_actor();
    break;
  case session_action::count: break;
  }
}

// -- messages -------------------------------------------------------------------------------------

void peer::handle(import_peer& m) {
  if (memory_) {
    std::exchange(m.done, nullptr)(reference());
    return;
  }
  imports_.push_back(std::move(m.done));
  if (machine_.state() == session_state::dialling && !dialling_)
    return raise(session_event::retry, "an import asks for it");
  raise(session_event::want, "an import asks for it");
}

/// Whoever asked is answered, now if not later.
void peer::salvage(import_peer& m) {
  answer_imports(base::fail(base::reason::internal, "transport", "a fault in it"));
  if (const auto done = std::exchange(m.done, nullptr))
    done(base::fail(base::reason::internal, "transport", "a fault in it"));
}

void peer::dial() {
  if (dial_timer_ != deadline_id::none)
    env().cancel(std::exchange(dial_timer_, deadline_id::none));
  if (link_ != 0)
    where_.channel->close(std::exchange(link_, 0));
  outbox_.disconnected();
  dialling_ = true;
  caf::anon_send(where_.node, dial_request{where_.address, me()});
}

void peer::handle(dial_started& m) {
  link_ = m.link;
}

void peer::handle(link_opened& m) {
  if (m.link == link_)
    raise(session_event::linked, "dialled " + where_.address);
}

void peer::handle(link_closed& m) {
  if (m.link != link_)
    return;
  link_ = 0;
  outbox_.disconnected();
  last_refusal_ = m.why;
  last_refusal_.peer = where_.address;
  dialling_ = false;
  // Nobody listens there: who did has gone. A reset is no such proof, only the link may have gone; nor is a
  // name that cannot be resolved, if it could be before.
  const bool no_such_host =
      m.why.why == base::reason::not_found || m.why.why == base::reason::invalid_argument;
  const bool nobody = m.why.sys_errno == ECONNREFUSED || (no_such_host && owner_ == 0);
  const bool nonsense = m.why.why == base::reason::protocol && !memory_;
  if (nobody || nonsense)
    raise(session_event::refused, m.why.to_string());
  else
    raise(session_event::closed, m.why.to_string());
}

void peer::greet() {
  bootstrap::hello h;
  h.node = config_.node;
  h.relation = where_.relation;
  h.features = config_.notices ? bootstrap::feature_notices : 0;
  send(h);
  dial_timer_ = env().arm(env().now() + config_.connect_deadline, *this, dial_token);
}

void peer::handle(control& m) {
  if (m.link != link_)
    return;
  if (const auto* reject = std::get_if<bootstrap::reject>(&m.what.what);
      reject != nullptr && reject->endpoint == 0) {
    last_refusal_ = base::error{base::reason::peer_rejected,
                                "bootstrap",
                                {},
                                {},
                                where_.address,
                                fmt::format("{} ({})", reject->text, to_string(reject->code))};
    note(observe::event_kind::rejected, last_refusal_.to_string(), 0, base::level::warn);
    return turned_away(m.what.from);
  }
  if (std::holds_alternative<bootstrap::hello>(m.what.what))
    return on_hello(m.what);
  if (m.what.from != owner_)
    return; // not of the incarnation that said hello on this link
  if (const auto* bye = std::get_if<bootstrap::goodbye>(&m.what.what)) {
    last_refusal_ =
        base::error{base::reason::peer_dead, "bootstrap", {}, {}, where_.address, "it left: " + bye->cause};
    return raise(session_event::refused, last_refusal_.to_string());
  }
  if (const auto* p = std::get_if<bootstrap::publish>(&m.what.what))
    return on_publish(*p);
  if (const auto* p = std::get_if<bootstrap::pong>(&m.what.what))
    return refresh_answered(p->token);
  if (const auto* p = std::get_if<bootstrap::ping>(&m.what.what))
    return send(bootstrap::pong{p->token});
  if (const auto* p = std::get_if<bootstrap::noticed>(&m.what.what))
    return on_noticed(*p);
  const auto number = std::visit(
      [](const auto& body) -> std::uint32_t {
        if constexpr (requires { body.endpoint; })
          return body.endpoint;
        else
          return 0;
      },
      m.what.what);
  if (const auto at = by_number_.find(number); at != by_number_.end())
    caf::anon_send(endpoint_handles_[at->second], m);
}

/// What says no is alive. Only if it is another process than the one that we knew has that one gone, and its
/// QPs with it; else the link is tried again.
void peer::turned_away(bootstrap::incarnation by) {
  if (owner_ == 0 || (by != 0 && by != owner_))
    return raise(session_event::refused, last_refusal_.to_string());
  where_.channel->close(std::exchange(link_, 0));
  outbox_.disconnected();
  dialling_ = false;
  raise(session_event::closed, last_refusal_.to_string());
}

void peer::on_hello(const bootstrap::message& m) {
  if (machine_.state() != session_state::greeting)
    return;
  const auto& hello = std::get<bootstrap::hello>(m.what);
  name_ = hello.node;
  features_ = hello.features;
  held_there_ = hello.endpoints;
  dial_failures_ = 0;
  dialling_ = false;
  ever_connected_ = true;
  if (dial_timer_ != deadline_id::none)
    env().cancel(std::exchange(dial_timer_, deadline_id::none));
  if (m.from == owner_)
    return raise(session_event::same_peer, "the same incarnation answered");
  if (owner_ != 0)
    declare_dead();
  owner_ = m.from;
  outbox_.begin(env().random() | 1);
  note(observe::event_kind::peer_up, "connected to " + where_.address, 0, base::level::info);
  raise(session_event::new_peer, "a new incarnation answered");
}

void peer::on_publish(const bootstrap::publish& m) {
  if (const auto* fault = fault_of(m.published)) {
    last_refusal_ = base::error{base::reason::protocol, "bootstrap", {}, {}, where_.address, fault};
    answer_imports(base::fail(last_refusal_));
    where_.channel->close(link_);
    return;
  }
  memory_ = make_remote_memory(owner_, m.published, features_);
  where_.view->set(memory_);
  queue_.published(memory_);
  make_endpoints();
  tell_endpoints(false);
  answer_imports(reference());
  pump(); // it may have waited for these keys
}

void peer::answer_imports(const base::expected<peer_ref>& outcome) {
  for (auto& done : std::exchange(imports_, {}))
    done(outcome);
}

void peer::handle(device_added& m) {
  if (where_.devices.empty() || where_.devices.back().object != m.object)
    where_.devices.push_back({m.object, m.handle, m.env});
  if (!memory_ || stopping_)
    return;
  make_endpoints();
  tell_endpoints(false);
}

/// One endpoint per rail, those of devices that come later too.
void peer::make_endpoints() {
  std::vector<std::uint8_t> ours;
  std::vector<std::uint8_t> theirs;
  for (const auto& d : where_.devices)
    ours.push_back(d.object->link_layer());
  for (const auto& d : memory_->published.devices)
    theirs.push_back(link_layer_of(d));
  for (const auto& [mine, other] : missing_rails(ours, theirs, rails_))
    make_endpoint(mine, other);
  for (std::size_t i = 0; i < ours.size(); ++i)
    tell_without_rail(config_.node + "/" + where_.devices[i].object->name(), ours[i], theirs, name_);
  for (std::size_t i = 0; i < theirs.size(); ++i)
    tell_without_rail(name_ + "/" + memory_->published.devices[i].device, theirs[i], ours, config_.node);
}

/// Ports of different link layers cannot reach each other, so there is no rail; each such device is told
/// once.
void peer::tell_without_rail(const std::string& device, std::uint8_t layer,
                             const std::vector<std::uint8_t>& others, const std::string& other_node) {
  if (std::find(others.begin(), others.end(), layer) != others.end() || !without_rail_.insert(device).second)
    return;
  note(observe::event_kind::no_rail,
       fmt::format("{} has none: its link layer is {}, and {} has no such device", device,
                   link_layer_text(layer), other_node),
       0, base::level::warn);
}

/// Once it has published: whoever is told that it is there must be able to send something to it.
base::expected<peer_ref> peer::reference() {
  if (!rails_.empty())
    return peer_ref{me(), where_.view};
  return base::fail(base::error{base::reason::unsupported,
                                "transport",
                                {},
                                {},
                                where_.address,
                                "no device of ours has the link layer of one of the peer's"});
}

void peer::make_endpoint(std::size_t ours, std::size_t theirs) {
  const auto& dev = where_.devices[ours];
  const auto& their = memory_->published.devices[theirs];
  endpoint::place p;
  p.name = fmt::format("{}/{}>{}/{}", config_.node, dev.object->name(), name_, their.device);
  p.number = static_cast<std::uint32_t>(endpoints_.size() + 1);
  p.peer_device = their.device;
  p.peer_device_number = static_cast<std::uint16_t>(theirs);
  p.qps = config_.qps_per_endpoint;
  const auto name = std::make_shared<const std::string>(p.name);
  const auto& spare = config_.spare_devices;
  const bool is_spare = std::find(spare.begin(), spare.end(), dev.object->name()) != spare.end();
  for (std::uint32_t k = 0; k < config_.qps_per_endpoint; ++k) {
    p.slots.push_back(queue_.add_slot(dev.object->number(), p.peer_device_number, name, is_spare));
    slots_.emplace_back();
  }
  p.self = where_.self;
  p.channel = where_.channel;
  p.owner = me();
  p.device_handle = dev.handle;
  by_number_[p.number] = endpoints_.size();
  rails_.emplace_back(ours, theirs);
  endpoints_.push_back(std::make_shared<endpoint>(*dev.env, config_, watch_, dev.object, std::move(p)));
  endpoint_handles_.push_back(launch(endpoints_.back()));
}

void peer::tell_endpoints(bool dead) {
  peer_link m;
  m.link = dead ? 0 : link_;
  m.dead = dead;
  m.owner = owner_;
  m.memory = memory_;
  const auto held = std::exchange(held_there_, std::nullopt);
  if (!memory_ && !dead)
    return; // nothing to connect to before it has published
  for (const auto& [number, at] : by_number_) {
    m.forgotten = held && std::find(held->begin(), held->end(), number) == held->end();
    caf::anon_send(endpoint_handles_[at], m);
  }
}

void peer::declare_dead() {
  note(observe::event_kind::peer_dead, cause_, 0, base::level::warn);
  tell_endpoints(true);
  owner_ = 0;
  memory_ = nullptr;
  where_.view->set(nullptr);
  queue_.stop_all(transfer_status::failed, base::reason::peer_dead);
  end_refresh();
  queue_.refresh_failed(base::reason::peer_dead);
  outbox_.give_up_all(base::reason::peer_dead);
}

void peer::send(bootstrap::body what) {
  bootstrap::message m;
  m.from = where_.self;
  m.to = owner_;
  m.what = std::move(what);
  where_.channel->send(link_, m);
}

void peer::handle(rail_refused& m) {
  last_refusal_ = m.why;
  last_refusal_.peer = where_.address;
}

} // namespace actor_rdma::actors
