// SPDX-License-Identifier: Apache-2.0
// An endpoint's machine, and what its QPs, its device and its link report.
#include "actors/endpoint.hpp"

#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

endpoint::endpoint(lane_env& env, const settings& config, observer& watch, std::shared_ptr<device> dev,
                   place where)
    : lane_object(env), config_(config), watch_(watch), device_(std::move(dev)), where_(std::move(where)),
      machine_(endpoint_state::rebuilding, env.now()), members_(where_.qps) {}

endpoint::~endpoint() = default;

caf::behavior endpoint::make_behavior() {
  for (auto& q : members_) {
    qp::place p;
    p.index = index_of(q);
    p.name = fmt::format("{}#{}", where_.name, p.index);
    p.initiator = where_.initiator;
    p.endpoint = me();
    if (where_.initiator) {
      p.slot = where_.slots.at(p.index);
      p.peer = where_.owner;
    }
    q.object = std::make_shared<qp>(env(), config_, watch_, device_, std::move(p));
    q.handle = launch(q.object);
  }
  caf::anon_send(where_.device_handle, subscribe{me()});
  return {on<qp_report>(&endpoint::handle, &endpoint::handle),
          on<device_changed>(&endpoint::handle, &endpoint::handle),
          on<peer_link>(&endpoint::handle, &endpoint::handle),
          on<control>(&endpoint::handle, &endpoint::handle),
          on<stop>(&endpoint::handle, &endpoint::handle),
          on<snapshot_request>(&endpoint::handle)};
}

/// Whatever it came from: what is owed to the peer actor keeps its deadline, and idle QPs theirs.
void endpoint::on_fault(const std::string& what) {
  try {
    note(observe::event_kind::internal_fault, what, 0, base::level::error);
  } catch (...) { // transfers wait for what follows
  }
  const bool owes = std::any_of(members_.begin(), members_.end(),
                                [](const auto& q) { return q.retire_generation != q.settled_generation; });
  if (owes && retire_timer_ == deadline_id::none)
    retire_timer_ = env().arm(env().now() + config_.remote_fence_timeout, *this,
                              static_cast<std::uint64_t>(timer::retire));
  if (where_.initiator && retry_timer_ == deadline_id::none)
    schedule_retry();
}

// -- machine --------------------------------------------------------------------------------------

void endpoint::raise(endpoint_event event, std::string cause) {
  const auto before = machine_.state();
  const auto outcome = machine_.apply(event, env().now());
  if (outcome.is_ignored())
    return;
  if (before != machine_.state()) {
    cause_ = cause;
    observe::event e;
    e.at = env().now();
    e.subject = where_.name;
    e.from = to_string(before);
    e.to = to_string(machine_.state());
    e.detail = std::move(cause);
    // What comes and goes again and again is news at first only.
    const bool again =
        std::any_of(members_.begin(), members_.end(), [](const auto& q) { return q.failures > 4; });
    // What befell its device or its peer is told by these, once, and not by each of their rails.
    const bool echoes = event == endpoint_event::device_down || event == endpoint_event::device_up ||
                        event == endpoint_event::device_lost || event == endpoint_event::peer_dead;
    const bool is_news =
        where_.initiator && !again && !echoes && !stop_asked_; // an end in good order is none
    watch_.emit(std::move(e), is_news ? base::level::info : base::level::debug);
  }
  perform(outcome.act);
}

void endpoint::perform(endpoint_action action) {
  switch (action) {
  case endpoint_action::none: break;
  case endpoint_action::begin: begin(); break;
  case endpoint_action::hold_qps:
    for (auto& q : members_)
      caf::anon_send(q.handle, qp_hold{true});
    break;
  case endpoint_action::release_qps:
    for (auto& q : members_) {
      q.failures = 0;
      q.not_before = env().now();
      caf::anon_send(q.handle, qp_hold{false});
    }
    begin();
    break;
  case endpoint_action::fence_qps:
    for (auto& q : members_) {
      if (q.usable || q.suspect)
        caf::anon_send(q.handle, qp_hold{true}); // its slices go elsewhere at once
      if (!q.idle && !q.ending)
        fence(q, cause_);
    }
    break;
  case endpoint_action::drain_qps: fence_all(cause_, true); break;
  case endpoint_action::finish: answer_stop(); break;
  case endpoint_action::count: break;
  }
}

/// What the QPs add up to.
void endpoint::reconsider() {
  const auto state = machine_.state();
  if (state == endpoint_state::draining) {
    if (std::all_of(members_.begin(), members_.end(), [](const auto& q) { return q.gone; }))
      raise(endpoint_event::drained, "its QPs are gone");
    return;
  }
  const bool usable = std::any_of(members_.begin(), members_.end(), [](const auto& q) { return q.usable; });
  const bool suspect = std::any_of(members_.begin(), members_.end(), [](const auto& q) { return q.suspect; });
  // While the device rests a QP that counts as usable is one that has not heard of it yet. If it dies before
  // it does, nobody would notice that the endpoint has none, and what comes up again begins with the device.
  if (usable && state != endpoint_state::active && device_active_)
    raise(endpoint_event::qp_usable, "a QP answered its probe");
  else if (!usable && suspect && state == endpoint_state::active)
    raise(endpoint_event::all_suspect, "every QP is suspect");
  else if (!usable && !suspect && state != endpoint_state::rebuilding && device_active_)
    raise(endpoint_event::all_lost, "no QP is left");
}

void endpoint::on_deadline(std::uint64_t token) {
  guarded([&] {
    switch (static_cast<timer>(token)) {
    case timer::retry:
      retry_timer_ = deadline_id::none;
      begin();
      break;
    case timer::retire:
      retire_timer_ = deadline_id::none;
      retire_overdue();
      break;
    case timer::drain:
      drain_timer_ = deadline_id::none;
      raise(endpoint_event::deadline, "draining takes long");
      break;
    }
  });
}

// -- reports --------------------------------------------------------------------------------------

void endpoint::handle(qp_report& m) {
  auto& q = members_.at(m.index);
  switch (m.step) {
  case qp_step::created:
    if (m.generation != q.generation)
      return;
    q.created = m.address;
    if (where_.initiator)
      numbers_ready();
    else
      serve(q);
    break;
  case qp_step::ready:
    q.usable = !q.ending;
    last_refusal_.clear();
    failures_told_.clear();
    q.suspect = false;
    q.ready_since = env().now();
    if (!where_.initiator) {
      q.local.read_depth = m.reads;
      answer_ready();
    }
    break;
  case qp_step::held:
    q.usable = false;
    q.suspect = true;
    break;
  case qp_step::suspect:
    q.usable = false;
    q.suspect = true;
    for (auto& other : members_)
      if (&other != &q && other.usable) {
        caf::anon_send(other.handle, qp_probe{m.index});
        break;
      }
    break;
  case qp_step::probe_answered:
    if (device_active_)
      for (auto& other : members_)
        if (other.suspect)
          caf::anon_send(other.handle, qp_rail_answers{});
    break;
  case qp_step::fencing:
    q.works_no_more();
    if (where_.initiator)
      owe_retire(q, m.generation, std::move(m.cause));
    else if (!q.wanted && !q.retired_owed)
      q.retired_owed = m.generation; // unasked: the initiator would have to find out by itself
    break;
  case qp_step::fenced:
    q.idle = true;
    q.works_no_more();
    q.created.reset();
    q.gid_index.reset();
    if (where_.initiator) {
      wait_after_fence(q, m.served);
      begin();
    } else {
      answer_retired(q);
      serve(q);
    }
    break;
  case qp_step::failed: fail_attempt(q, m.cause); break;
  case qp_step::gone:
    q.gone = q.idle = true;
    q.works_no_more();
    answer_retired(q);
    break;
  }
  reconsider();
}

void endpoint::handle(device_changed& m) {
  device_known_ = true;
  if (m.gone) {
    device_active_ = false;
    stopping_ = true;
    raise(endpoint_event::drain, "its device is closed");
    return;
  }
  if (m.lost) {
    device_active_ = false;
    if (!std::exchange(device_lost_, true))
      raise(endpoint_event::device_lost, "its device is lost");
  } else {
    device_lost_ = false;
  }
  if (m.active)
    fence_what_lost_its_address();
  if (std::exchange(device_active_, m.active) != m.active) {
    if (m.active)
      raise(endpoint_event::device_up, "its device is up");
    else
      raise(endpoint_event::device_down, "its device rests");
  }
  if (const auto early = std::exchange(early_, std::nullopt))
    on_message(*early);
}

void endpoint::handle(control& m) {
  if (m.link != link_)
    return;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { this->on_message(body); })
          this->on_message(body);
      },
      m.what.what);
}

void endpoint::handle(stop& m) {
  stopping_ = true;
  stop_asked_ = true;
  cause_ = m.cause;
  if (retry_timer_ != deadline_id::none)
    env().cancel(std::exchange(retry_timer_, deadline_id::none));
  raise(endpoint_event::drain, m.cause);
  reconsider();
  answer_stop();
}

/// An endpoint whose device was closed earlier waits here until its owner lets go of it.
void endpoint::answer_stop() {
  if (machine_.state() != endpoint_state::retired || !std::exchange(stop_asked_, false))
    return;
  caf::anon_send(where_.device_handle, unsubscribe{me()});
  caf::anon_send(where_.owner, stopped{where_.name, {}});
  end_actor();
}

void endpoint::fence_all(const std::string& cause, bool for_good) {
  for (auto& q : members_)
    if (!q.gone)
      fence(q, cause, for_good);
}

void endpoint::fence(member& q, const std::string& cause, bool for_good) {
  q.usable = false;
  q.ending = !q.idle;
  caf::anon_send(q.handle, qp_fence{cause, for_good});
}

bool endpoint::send(bootstrap::body what) {
  if (link_ == 0)
    return false;
  bootstrap::message m;
  m.from = where_.self;
  m.to = peer_;
  m.what = std::move(what);
  return where_.channel->send(link_, m);
}

void endpoint::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = where_.initiator ? "endpoint" : "endpoint (acceptor)";
  s.name = where_.name;
  machine_.fill(s, env().now());
  s.outstanding = static_cast<std::uint64_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& q) { return !q.idle; }));
  s.cause = cause_;
  for (const auto& q : members_)
    if (!q.gone)
      m.pass_on(q.handle, q.object->name());
  m.into->add(std::move(s));
}

void endpoint::note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = where_.name;
  e.detail = std::move(detail);
  e.value = value;
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
