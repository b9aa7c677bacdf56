// SPDX-License-Identifier: Apache-2.0
// The acceptor's side of a control link.
#include "actors/guest.hpp"

#include "actors/port_path.hpp"
#include "bootstrap/limits.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

constexpr std::size_t max_endpoints = 1024; // not more than a hello can name
static_assert(max_endpoints <= bootstrap::max_endpoints);
constexpr std::size_t max_qps = 64;

} // namespace

guest::guest(lane_env& env, const settings& config, observer& watch, place where)
    : lane_object(env), config_(config), watch_(watch), where_(std::move(where)),
      title_(config.node + "<" + where_.name), since_(env.now()), notices_(where_.notices) {}

caf::behavior guest::make_behavior() {
  return {on<adopt_link>(&guest::handle, &guest::handle),
          on<link_closed>(&guest::handle, &guest::handle),
          on<control>(&guest::handle, &guest::handle),
          on<published>(&guest::handle, &guest::handle),
          on<stop>(&guest::handle),
          on<stopped>(&guest::handle, &guest::handle),
          on<snapshot_request>(&guest::handle),
          on<notice_ack>(&guest::handle, &guest::handle),
          on<notice_room>(&guest::handle, &guest::handle),
          on<device_added>(&guest::handle, &guest::handle),
          on<room_wanted>(&guest::handle, &guest::handle)};
}

void guest::on_fault(const std::string& what) {
  note(observe::event_kind::internal_fault, what, base::level::error);
}

void guest::handle(adopt_link& m) {
  if (window_ != deadline_id::none)
    env().cancel(std::exchange(window_, deadline_id::none));
  if (link_ != 0 && link_ != m.link)
    where_.channel->close(link_);
  if (stop_asked_by_)
    return where_.channel->close(m.link);
  // It is back before all that was its has gone. A QP that cannot be destroyed may stay for long, and must
  // not keep the others out.
  leaving_ = false;
  link_ = m.link;
  bootstrap::hello h;
  h.node = config_.node;
  h.features = config_.notices ? bootstrap::feature_notices : 0;
  h.endpoints.emplace();
  for (const auto& [number, e] : endpoints_)
    h.endpoints->push_back(number);
  send(h);
  version_ = m.published.version;
  send(bootstrap::publish{m.published});
  peer_link up;
  up.link = link_;
  up.owner = where_.who;
  for (const auto& [number, e] : endpoints_)
    caf::anon_send(e.handle, up);
  note(observe::event_kind::peer_up, "it dialled us", base::level::info);
  if (notices_.session() != 0)
    send_noticed(false); // an answer may have been lost with the old link
}

void guest::handle(link_closed& m) {
  if (m.link != link_)
    return;
  link_ = 0;
  if (leaving_)
    return;
  if (window_ == deadline_id::none)
    window_ = env().arm(env().now() + 2 * config_.reconnect_window, *this, 0);
  cause_ = m.why.to_string();
  note(observe::event_kind::peer_lost, "control link: " + cause_, base::level::info);
  peer_link down;
  down.owner = where_.who;
  for (const auto& [number, e] : endpoints_)
    caf::anon_send(e.handle, down);
}

void guest::on_deadline(std::uint64_t) {
  window_ = deadline_id::none;
  guarded([&] { leave("it did not come back: " + cause_); });
}

void guest::handle(device_added& m) {
  if (where_.devices.empty() || where_.devices.back().object != m.object)
    where_.devices.push_back({m.object, m.handle, m.env});
}

void guest::handle(published& m) {
  version_ = m.what.version;
  send(bootstrap::publish{m.what});
}

void guest::handle(control& m) {
  if (m.link != link_ || leaving_)
    return;
  if (const auto* bye = std::get_if<bootstrap::goodbye>(&m.what.what))
    return leave("it left: " + bye->cause);
  if (const auto* p = std::get_if<bootstrap::ping>(&m.what.what))
    return send(bootstrap::pong{p->token, version_});
  if (auto* n = std::get_if<bootstrap::notice>(&m.what.what))
    return on_notice(*n);
  if (std::holds_alternative<bootstrap::connect>(m.what.what))
    return on_connect(m);
  if (const auto* r = std::get_if<bootstrap::rebuild>(&m.what.what)) {
    const auto at = endpoints_.find(r->endpoint);
    if (at == endpoints_.end())
      return refuse(r->endpoint, r->qp.index, r->qp.generation, bootstrap::reject_code::unknown_endpoint,
                    "this endpoint is not known here");
    return ask(at->second, m, r->endpoint, r->qp.index, r->qp.generation);
  }
  if (const auto* r = std::get_if<bootstrap::retire>(&m.what.what)) {
    if (const auto at = endpoints_.find(r->endpoint); at != endpoints_.end())
      caf::anon_send(at->second.handle, m);
    else // An endpoint that is not known here has no QP here: nothing of it can reach our memory.
      send(bootstrap::retired{r->endpoint, r->qp_index, r->generation, r->whole_endpoint});
  }
}

void guest::on_connect(const control& m) {
  const auto& c = std::get<bootstrap::connect>(m.what.what);
  const auto generation = c.qps.empty() ? std::uint16_t{0} : c.qps.front().generation;
  if (const auto at = endpoints_.find(c.endpoint); at != endpoints_.end())
    return ask(at->second, m, c.endpoint, 0, generation);
  if (c.qps.empty() || c.qps.size() > max_qps)
    return refuse(c.endpoint, 0, generation, bootstrap::reject_code::bad_request,
                  fmt::format("{} QPs are asked for", c.qps.size()));
  if (endpoints_.size() >= max_endpoints)
    return refuse(c.endpoint, 0, generation, bootstrap::reject_code::resources,
                  "too many endpoints of one node");
  const auto dev = std::find_if(where_.devices.begin(), where_.devices.end(),
                                [&](const auto& d) { return d.object->name() == c.peer_device; });
  if (dev == where_.devices.end())
    return refuse(c.endpoint, 0, generation, bootstrap::reject_code::unknown_device,
                  fmt::format("{} has no device {}", config_.node, c.peer_device));
  if (const auto theirs = link_layer_of(c.local); theirs != dev->object->link_layer())
    return refuse(c.endpoint, 0, generation, bootstrap::reject_code::bad_request,
                  fmt::format("the link layer of {} is {}, and that of your {} is {}", c.peer_device,
                              link_layer_text(dev->object->link_layer()), c.local.device,
                              link_layer_text(theirs)));
  endpoint::place p;
  p.name = fmt::format("{}/{}<{}/{}", config_.node, c.peer_device, where_.name, c.local.device);
  p.number = c.endpoint;
  p.initiator = false;
  p.peer_device = c.local.device;
  p.qps = static_cast<std::uint32_t>(c.qps.size());
  p.self = where_.self;
  p.channel = where_.channel;
  p.owner = me();
  p.device_handle = dev->handle;
  served s;
  s.object = std::make_shared<endpoint>(*dev->env, config_, watch_, dev->object, std::move(p));
  s.handle = launch(s.object);
  peer_link up;
  up.link = link_;
  up.owner = where_.who;
  caf::anon_send(s.handle, up);
  caf::anon_send(s.handle, m);
  endpoints_.emplace(c.endpoint, std::move(s));
}

// -- leaving --------------------------------------------------------------------------------------

void guest::leave(const std::string& cause) {
  if (std::exchange(leaving_, true))
    return;
  cause_ = cause;
  note(observe::event_kind::peer_dead, cause, base::level::info);
  peer_link dead;
  dead.dead = true;
  for (auto& [number, e] : endpoints_) {
    e.ending = true;
    caf::anon_send(e.handle, dead);
  }
  if (endpoints_.empty())
    gone();
}

/// Whose link is lost is most likely dead, and others cannot be served for the QPs that it still has. If it
/// lives, it hears of it with its next link.
void guest::handle(room_wanted& m) {
  if (!m.passed_on)
    caf::anon_send(where_.node, room_wanted{true});
  else if (link_ == 0)
    leave("it did not come back yet, and its QPs are in the way of others: " + cause_);
}

void guest::handle(stop& m) {
  stop_asked_by_ = m.answer_to;
  leave(m.cause);
}

void guest::handle(stopped& m) {
  std::erase_if(endpoints_, [&](const auto& e) { return e.second.object->name() == m.who; });
  if (leaving_ && endpoints_.empty())
    gone();
}

void guest::gone() {
  // A goodbye ends everything that was accepted from the peer: never while one of our QPs could still take a
  // late packet.
  if (link_ != 0 && stop_asked_by_)
    send(bootstrap::goodbye{cause_});
  if (link_ != 0)
    where_.channel->close(link_);
  if (stop_asked_by_)
    caf::anon_send(std::exchange(stop_asked_by_, nullptr), stopped{title_, {}});
  else
    caf::anon_send(where_.node, guest_left{{where_.who, where_.relation}, notices_});
  if (source_)
    where_.inbox->close(*source_);
  where_.node = nullptr;
  endpoints_.clear();
  end_actor();
}

// -- small things ---------------------------------------------------------------------------------

void guest::send(bootstrap::body what) {
  bootstrap::message m;
  m.from = where_.self;
  m.to = where_.who;
  m.what = std::move(what);
  if (link_ != 0)
    where_.channel->send(link_, m);
}

void guest::refuse(std::uint32_t number, std::uint16_t qp_index, std::uint16_t generation,
                   bootstrap::reject_code code, const std::string& text) {
  bootstrap::reject r;
  r.endpoint = number;
  r.qp_index = qp_index;
  r.generation = generation;
  r.code = code;
  r.text = text;
  send(std::move(r));
}

/// For QPs of an endpoint that is there. Of what the peer had before it was given up for dead nothing is made
/// anew until the last QP has gone.
void guest::ask(const served& whom, const control& m, std::uint32_t number, std::uint16_t qp_index,
                std::uint16_t generation) {
  if (!whom.ending)
    return caf::anon_send(whom.handle, m);
  refuse(number, qp_index, generation, bootstrap::reject_code::busy,
         "a QP of this endpoint from before the link was lost is not destroyed yet");
}

void guest::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = "guest";
  s.name = title_;
  s.state = leaving_ ? "LEAVING" : link_ != 0 ? "CONNECTED" : "LINK LOST";
  s.age = env().now() - since_;
  s.outstanding = endpoints_.size();
  s.cause = cause_;
  for (const auto& [number, e] : endpoints_)
    m.pass_on(e.handle, e.object->name());
  m.into->add(std::move(s));
}

void guest::note(observe::event_kind kind, std::string detail, base::level at) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = title_;
  e.detail = std::move(detail);
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
