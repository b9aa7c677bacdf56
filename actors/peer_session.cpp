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
    arm_dial_timer(wait);
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

void peer::stop_dial_timer() {
  if (dial_timer_ != deadline_id::none)
    env().cancel(std::exchange(dial_timer_, deadline_id::none));
}

void peer::arm_dial_timer(base::duration wait) {
  stop_dial_timer();
  dial_timer_ = env().arm(env().now() + wait, *this, dial_token);
}

void peer::dial() {
  stop_dial_timer();
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
  early_publish_.reset();
  bootstrap::hello h;
  h.node = config_.node;
  h.relation = where_.relation;
  h.features = config_.notices ? bootstrap::feature_notices : 0;
  send(h);
  arm_dial_timer(config_.connect_deadline);
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
  if (std::holds_alternative<bootstrap::hello>(m.what.what)) {
    on_hello(m.what);
    const auto early = std::exchange(early_publish_, std::nullopt);
    if (early && early->from == owner_)
      on_publish(std::get<bootstrap::publish>(early->what));
    return;
  }
  if (machine_.state() == session_state::greeting &&
      std::holds_alternative<bootstrap::publish>(m.what.what)) {
    early_publish_ = m.what; // a channel that is not TCP may have its own order
    return;
  }
  if (m.what.from != owner_)
    return; // not of the incarnation that said hello on this link
  if (const auto* bye = std::get_if<bootstrap::goodbye>(&m.what.what)) {
    last_refusal_ =
        base::error{base::reason::peer_dead, "bootstrap", {}, {}, where_.address, "it left: " + bye->cause};
    return raise(session_event::refused, last_refusal_.to_string());
  }
  if (const auto* p = std::get_if<bootstrap::publish>(&m.what.what))
    return on_publish(*p);
  if (const auto* p = std::get_if<bootstrap::pong>(&m.what.what)) {
    if (memory_ && p->segment_version > memory_->published.version)
      return publish_missed(
          fmt::format("version {} of what it publishes did not come, {} is the last that did",
                      p->segment_version, memory_->published.version));
    return refresh_answered(p->token);
  }
  if (const auto* p = std::get_if<bootstrap::ping>(&m.what.what))
    return send(bootstrap::pong{p->token, 0});
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
  drop_link();
}

/// For the reason that last_refusal_ says; the next one is dialled.
void peer::drop_link() {
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
  // What it publishes follows: without it nothing can be sent, or keys are used that may be old.
  arm_dial_timer(config_.connect_deadline);
  if (m.from == owner_)
    return raise(session_event::same_peer, "the same incarnation answered");
  if (owner_ != 0)
    declare_dead();
  owner_ = m.from;
  outbox_.begin(env().random() | 1);
  note(observe::event_kind::peer_up, "connected to " + where_.address, 0, base::level::info);
  raise(session_event::new_peer, "a new incarnation answered");
}

void peer::answer_imports(const base::expected<peer_ref>& outcome) {
  for (auto& done : std::exchange(imports_, {}))
    done(outcome);
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
