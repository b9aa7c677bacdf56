// SPDX-License-Identifier: Apache-2.0
// An endpoint's conversation with the peer: as initiator connect, rebuild and retire; as acceptor the
// answers.
#include "actors/endpoint.hpp"
#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

// -- initiator: attempts --------------------------------------------------------------------------

/// Starts an attempt for every QP that is idle and may try again. The first connect takes all QPs together.
void endpoint::begin() {
  if (!where_.initiator || stopping_ || !device_active_ || link_ == 0 || peer_ == 0)
    return;
  if (!established_ && !std::all_of(members_.begin(), members_.end(), [](const auto& q) { return q.idle; }))
    return; // the rest is still being fenced; each fence comes back here
  if (!established_ && !asked_)
    fit_to_room();
  bool waiting = false;
  for (auto& q : members_) {
    if (!q.idle || q.gone || q.left_out)
      continue;
    if (q.not_before > env().now() && established_) {
      waiting = true;
      continue;
    }
    if (!established_ && q.not_before > env().now()) {
      schedule_retry();
      return;
    }
  }
  for (auto& q : members_) {
    if (!q.idle || q.gone || q.left_out || q.not_before > env().now())
      continue;
    q.idle = false;
    q.created.reset();
    ++q.generation;
    if (q.generation == 0)
      ++q.generation; // 0 means none
    caf::anon_send(q.handle, qp_begin{q.generation});
  }
  if (waiting)
    schedule_retry();
}

/// A rail has fewer QPs where the CQ has no room for all; without room for one it says so and waits.
void endpoint::fit_to_room() {
  auto room = device_->room_for_qps(qp::room_of(config_, true));
  std::size_t in = 0;
  for (auto& q : members_) {
    const bool was_out = q.left_out;
    q.left_out = index_of(q) != 0 && !q.object->has_room() && room == 0;
    room -= !q.left_out && !q.object->has_room() && room > 0 ? 1 : 0;
    in += q.left_out ? 0 : 1;
    if (q.left_out && !was_out)
      note_failure(q, fmt::format("the CQ of {} has no room for another QP: the rail goes on with {} of {}",
                                  device_->name(), in, members_.size()));
  }
}

/// Our numbers are known: the peer is asked for its own.
void endpoint::numbers_ready() {
  if (established_) {
    for (auto& q : members_) {
      if (!q.created)
        continue;
      bootstrap::rebuild r;
      r.endpoint = where_.number;
      r.local = q.local = local_toward(peer_port_);
      r.qp = *std::exchange(q.created, std::nullopt);
      send(std::move(r));
    }
    return;
  }
  if (!std::all_of(members_.begin(), members_.end(),
                   [](const auto& q) { return q.left_out || q.created.has_value(); }))
    return give_up_incomplete();
  bootstrap::connect c;
  c.endpoint = where_.number;
  c.local = local_toward(publishes_the_device() ? memory_->published.devices[where_.peer_device_number]
                                                : peer_port_);
  c.peer_device = where_.peer_device;
  for (auto& q : members_)
    q.local = c.local;
  for (auto& q : members_)
    if (!q.left_out)
      c.qps.push_back(*std::exchange(q.created, std::nullopt));
  asked_ = send(std::move(c)) || asked_;
}

void endpoint::connect_member(member& q, const bootstrap::port_address& port,
                              const bootstrap::qp_address& peer) {
  if (peer.generation != q.generation || q.idle || !publishes_the_device())
    return;
  settle(q, static_cast<std::uint16_t>(peer.generation - 1), true); // it fenced every older generation first
  qp_connect c;
  fill_addresses(q, port, c);
  c.peer = peer;
  c.peer_incarnation = peer_;
  c.probe_addr = memory_->published.probe_addr;
  c.probe_rkey = memory_->published.probe_rkeys[where_.peer_device_number];
  caf::anon_send(q.handle, std::move(c));
}

void endpoint::on_message(const bootstrap::accept& m) {
  if (!where_.initiator)
    return;
  established_ = true;
  peer_port_ = m.local;
  for (const auto& a : m.qps)
    if (a.index < members_.size())
      connect_member(members_[a.index], m.local, a);
}

void endpoint::on_message(const bootstrap::rebuilt& m) {
  if (!where_.initiator || m.qp.index >= members_.size())
    return;
  peer_port_ = m.local;
  connect_member(members_[m.qp.index], m.local, m.qp);
}

void endpoint::on_message(const bootstrap::reject& m) {
  if (!where_.initiator)
    return;
  const auto why = fmt::format("the peer refused: {} ({})", m.text, to_string(m.code));
  // It is asked again every moment: the words are for the log once, until it agrees or has other words.
  note(observe::event_kind::rejected, why, 0, why == last_refusal_ ? base::level::debug : base::level::warn);
  last_refusal_ = why;
  base::error e;
  e.why = base::reason::peer_rejected;
  e.layer = "bootstrap";
  e.rail = where_.name;
  e.what = m.text;
  caf::anon_send(where_.owner, rail_refused{std::move(e)});
  if (m.code == bootstrap::reject_code::unknown_endpoint)
    established_ = asked_ = false;
  raise(endpoint_event::rejected, why);
  // Before the peer knows the endpoint an answer is about all of it, later about the attempt of one QP.
  for (auto& q : members_) {
    const bool meant =
        !established_ || (!q.usable && index_of(q) == m.qp_index && q.generation == m.generation);
    if (!q.idle && meant)
      fence(q, why);
  }
}

// -- initiator: remote fences ---------------------------------------------------------------------

void endpoint::owe_retire(member& q, std::uint16_t generation, std::string cause) {
  if (q.settled_generation == generation)
    return;
  q.retire_generation = generation;
  q.retire_since = env().now();
  q.retire_cause = std::move(cause);
  if (peer_ == 0)
    return settle(q, generation, true); // dead: its memory is gone
  send_retire(q);
  if (retire_timer_ == deadline_id::none)
    retire_timer_ = env().arm(env().now() + config_.remote_fence_timeout, *this,
                              static_cast<std::uint64_t>(timer::retire));
}

void endpoint::send_retire(const member& q) {
  bootstrap::retire r;
  r.endpoint = where_.number;
  r.qp_index = index_of(q);
  r.generation = q.retire_generation;
  r.cause = q.retire_cause;
  send(std::move(r));
}

void endpoint::settle(member& q, std::uint16_t generation, bool confirmed) {
  const auto newer = static_cast<std::int16_t>(generation - q.settled_generation);
  if (!where_.initiator || newer < 0)
    return;
  q.unconfirmed = q.unconfirmed && !confirmed;
  if (newer == 0)
    return;
  // Transfers wait for it: until it is on the way it is owed.
  caf::anon_send(where_.owner, remote_fence_settled{where_.slots[index_of(q)], generation, confirmed});
  q.settled_generation = generation;
  q.unconfirmed = !confirmed;
  if (static_cast<std::int16_t>(generation - q.retire_generation) > 0)
    q.retire_generation = generation;
  if (!confirmed)
    note(observe::event_kind::remote_fence, "not confirmed by the peer in time", generation,
         base::level::warn);
}

void endpoint::on_message(const bootstrap::retired& m) {
  if (!where_.initiator)
    return;
  for (auto& q : members_) {
    if (!m.whole_endpoint && index_of(q) != m.qp_index)
      continue;
    settle(q, m.whole_endpoint ? q.retire_generation : std::min(m.generation, q.generation), true);
    if (!m.whole_endpoint && m.generation == q.generation && (q.usable || q.suspect))
      fence(q, "the peer gave up its QP");
  }
}

void endpoint::retire_overdue() {
  auto next = base::time_point::max();
  for (auto& q : members_) {
    if (q.retire_generation == q.settled_generation)
      continue;
    const auto due = q.retire_since + config_.remote_fence_timeout;
    if (due <= env().now())
      settle(q, q.retire_generation, false);
    else
      next = std::min(next, due);
  }
  if (next != base::time_point::max())
    retire_timer_ = env().arm(next, *this, static_cast<std::uint64_t>(timer::retire));
}

// -- acceptor -------------------------------------------------------------------------------------

void endpoint::on_message(const bootstrap::connect& m) {
  if (where_.initiator)
    return;
  if (!device_known_) {
    early_ = m;
    return;
  }
  if (!device_active_)
    return refuse(0, m.qps.empty() ? std::uint16_t{0} : m.qps.front().generation,
                  bootstrap::reject_code::device_not_ready, device_->name() + " is not up");
  if (m.qps.size() != members_.size())
    return refuse(0, m.qps.empty() ? std::uint16_t{0} : m.qps.front().generation,
                  bootstrap::reject_code::bad_request, "the number of QPs changed");
  peer_port_ = m.local;
  connect_asked_ = true;
  for (const auto& a : m.qps) {
    if (a.index >= members_.size())
      return refuse(a.index, a.generation, bootstrap::reject_code::bad_request, "QP index out of range");
    members_[a.index].wanted = a;
    members_[a.index].answer_with_rebuilt = false;
    serve(members_[a.index]);
  }
  answer_ready(); // a repeated connect finds everything done
}

void endpoint::on_message(const bootstrap::rebuild& m) {
  if (where_.initiator)
    return;
  if (m.qp.index >= members_.size())
    return refuse(m.qp.index, m.qp.generation, bootstrap::reject_code::bad_request, "QP index out of range");
  if (!device_active_)
    return refuse(m.qp.index, m.qp.generation, bootstrap::reject_code::device_not_ready,
                  device_->name() + " is not up");
  auto& q = members_[m.qp.index];
  if (static_cast<std::int16_t>(m.qp.generation - q.generation) <= 0)
    return refuse(m.qp.index, m.qp.generation, bootstrap::reject_code::stale_generation,
                  "an equal or newer generation is known");
  peer_port_ = m.local;
  q.wanted = m.qp;
  q.answer_with_rebuilt = true;
  serve(q);
}

/// Brings one QP to the generation that the peer asked for: the old one is fenced first.
void endpoint::serve(member& q) {
  if (!q.wanted || stopping_)
    return;
  if (q.idle) {
    q.idle = false;
    q.generation = q.wanted->generation;
    caf::anon_send(q.handle, qp_begin{q.generation});
    return;
  }
  if (q.generation != q.wanted->generation) {
    fence(q, "the peer made a new QP");
    return;
  }
  if (q.created && q.created->generation == q.generation) {
    qp_connect c;
    q.local = local_toward(peer_port_);
    fill_addresses(q, peer_port_, c);
    c.peer = *q.wanted;
    c.peer_incarnation = peer_;
    caf::anon_send(q.handle, std::move(c));
  }
}

/// Answers what is complete: an accept once all QPs are connected, a rebuilt per QP.
void endpoint::answer_ready() {
  const auto complete = [](const member& q) {
    return q.usable && q.created && q.wanted && q.wanted->generation == q.generation;
  };
  for (auto& q : members_) {
    if (!complete(q) || !q.answer_with_rebuilt)
      continue;
    bootstrap::rebuilt r;
    r.endpoint = where_.number;
    r.local = q.local;
    r.qp = *q.created;
    q.wanted.reset();
    send(std::move(r));
  }
  if (!connect_asked_ || !std::all_of(members_.begin(), members_.end(), complete))
    return;
  connect_asked_ = false;
  bootstrap::accept a;
  a.endpoint = where_.number;
  a.local = members_.front().local;
  for (auto& q : members_) {
    a.local.read_depth =
        std::min(a.local.read_depth, q.local.read_depth); // one figure stands for all of them
    a.qps.push_back(*q.created);
    q.wanted.reset();
  }
  send(std::move(a));
}

void endpoint::refuse(std::uint16_t qp_index, std::uint16_t generation, bootstrap::reject_code code,
                      const std::string& text) {
  bootstrap::reject r;
  r.endpoint = where_.number;
  r.qp_index = qp_index;
  r.generation = generation;
  r.code = code;
  r.text = text;
  r.retry_after_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(config_.port_poll).count());
  send(std::move(r));
}

void endpoint::on_message(const bootstrap::retire& m) {
  if (where_.initiator)
    return;
  for (auto& q : members_) {
    if (!m.whole_endpoint && index_of(q) != m.qp_index)
      continue;
    const auto generation = m.whole_endpoint ? q.generation : m.generation;
    q.retired_owed = generation;
    if (q.idle || static_cast<std::int16_t>(q.generation - generation) > 0)
      answer_retired(q);
    else
      fence(q, "retired by the peer: " + m.cause);
  }
}

void endpoint::answer_retired(member& q) {
  if (!q.retired_owed)
    return;
  bootstrap::retired r;
  r.endpoint = where_.number;
  r.qp_index = index_of(q);
  r.generation = *std::exchange(q.retired_owed, std::nullopt);
  send(r);
}

} // namespace actor_rdma::actors
