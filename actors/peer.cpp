// SPDX-License-Identifier: Apache-2.0
// The peer's work: batches in, slices out to QPs, ends back. The control link is in peer_session.cpp.
#include "actors/peer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

peer::peer(lane_env& env, const settings& config, observer& watch, place where)
    : lane_object(env), config_(config), watch_(watch), where_(std::move(where)),
      title_(config.node + ">" + where_.address), name_(where_.address),
      machine_(session_state::idle, env.now()), queue_(config, *this), outbox_(*this) {}

peer::~peer() = default;

caf::behavior peer::make_behavior() {
  return {
      on<submit>(&peer::handle, &peer::salvage),
      on<ended>(&peer::handle),
      on<suspected>(&peer::handle),
      on<slot_state_changed>(&peer::handle),
      on<cancel>(&peer::handle),
      on<remote_fence_settled>(&peer::handle),
      on<control>(&peer::handle),
      on<link_opened>(&peer::handle),
      on<link_closed>(&peer::handle),
      on<import_peer>(&peer::handle),
      on<rail_refused>(&peer::handle),
      on<dial_started>(&peer::handle),
      on<cancel_buffer>(&peer::handle),
      on<snapshot_request>(&peer::handle),
      on<stop>(&peer::handle),
      on<stopped>(&peer::handle),
      on<device_added>(&peer::handle),
  };
}

void peer::on_fault(const std::string& what) {
  note(observe::event_kind::internal_fault, what, 0, base::level::error);
}

void peer::on_deadline(std::uint64_t token) {
  guarded([&] {
    if (token == dial_token) {
      dial_timer_ = deadline_id::none;
      raise(session_event::retry, "time to dial again");
    } else if (token == refresh_due_token) {
      refresh_timer_ = deadline_id::none;
      end_refresh();
      note(observe::event_kind::keys_refreshed,
           "a key was refused, and the peer does not say what it publishes now", 0, base::level::warn);
      queue_.refresh_failed(base::reason::peer_silent);
      pump();
    } else if (const auto batch = queue_.find(token)) {
      batch->timer = 0;
      batch_due(batch);
    } else if (const auto told = outbox_.find(token)) {
      told->timer = 0;
      notice_due(told);
    }
  });
}

// -- batches --------------------------------------------------------------------------------------

void peer::handle(submit& m) {
  const auto& batch = m.batch;
  queue_.submit(batch);
  if (batch->transfers().empty())
    return data_in_place(batch);
  if (batch->ended == batch->transfers().size())
    return; // its source is barred
  if (stopping_)
    return stop_batch(batch, transfer_status::cancelled, base::reason::shutting_down);
  if (batch->target().owner != owner_)
    return stop_batch(batch, transfer_status::failed, base::reason::peer_dead);
  arm_batch(*batch, std::min(batch->deadline, batch->submitted + config_.stuck_after));
  pump();
}

/// The batch ends, as far as it got: nobody else knows of it.
void peer::salvage(submit& m) {
  const auto& batch = m.batch;
  if (batch->done())
    return;
  if (batch->transfers().empty())
    return outbox_.find(batch->serial) == batch
               ? outbox_.give_up(*batch, base::reason::internal)
               : notice_ended(batch, notice_status::lost, base::reason::internal, 0);
  if (queue_.find(batch->serial) != batch)
    queue_.submit(batch);
  if (queue_.find(batch->serial) == batch) // else its source is barred
    stop_batch(batch, transfer_status::failed, base::reason::internal);
}

void peer::arm_batch(batch_state& batch, base::time_point when) {
  batch.timer = static_cast<std::uint64_t>(env().arm(when, *this, batch.serial));
}

/// A batch's deadline has three stages: it is reported as stuck, it expires, and what it still has posted is
/// fenced.
void peer::batch_due(const std::shared_ptr<batch_state>& batch) {
  if (batch->stopped)
    return fence_stopped(batch);
  if (env().now() >= batch->deadline)
    return stop_batch(batch, transfer_status::timed_out, base::reason::timeout);
  if (!std::exchange(batch->reported_stuck, true))
    note(observe::event_kind::stuck,
         fmt::format(
             "{} of {} transfers of batch {} are open after {:.1f} s; {} slices wait, {} WRs are out, {}",
             batch->transfers().size() - batch->ended, batch->transfers().size(), batch->serial,
             std::chrono::duration<double>(env().now() - batch->submitted).count(), queue_.waiting_slices(),
             queue_.outstanding(), queue_.any_usable() ? "rails are usable" : "no rail is usable: " + cause_),
         0, base::level::warn);
  arm_batch(*batch, batch->deadline);
}

/// Unposted work stops now; posted WRs on a QP that makes progress may finish within fence_grace.
void peer::stop_batch(const std::shared_ptr<batch_state>& batch, transfer_status how, base::reason cause) {
  if (batch->stopped)
    return;
  if (batch->timer != 0)
    env().cancel(static_cast<deadline_id>(std::exchange(batch->timer, 0)));
  if (queue_.stop(*batch, how, cause))
    arm_batch(*batch, env().now() + config_.fence_grace);
}

void peer::fence_stopped(const std::shared_ptr<batch_state>& batch) {
  for (const auto& q : slots_)
    if (q)
      caf::anon_send(q, fence_batch{batch, "a stopped transfer still had WRs after fence_grace"});
}

void peer::handle(cancel& m) {
  if (queue_.find(m.batch->serial) == m.batch)
    stop_batch(m.batch, transfer_status::cancelled, base::reason::cancelled);
  else if (outbox_.find(m.batch->serial) == m.batch)
    outbox_.give_up(*m.batch, base::reason::cancelled);
}

void peer::handle(cancel_buffer& m) {
  for (const auto& batch : queue_.batches_using(*m.buffer))
    stop_batch(batch, transfer_status::cancelled, base::reason::cancelled);
}

void peer::batch_ended(const std::shared_ptr<batch_state>& done) {
  if (done->timer != 0)
    env().cancel(static_cast<deadline_id>(std::exchange(done->timer, 0)));
  for (const auto& b : done->locals)
    b->open_batches.fetch_sub(1, std::memory_order_acq_rel);
  if (done->attached_notice())
    data_in_place(done);
  else
    where_.batch_done(done);
}

// -- slices ---------------------------------------------------------------------------------------

void peer::pump() {
  for (;;) {
    auto c = chunks_.take();
    if (!queue_.pull(*c, env().now())) {
      chunks_.give(std::move(c));
      return;
    }
    const auto& to = slots_[c->slot];
    caf::anon_send(to, post{std::move(c)});
  }
}

void peer::handle(ended& m) {
  auto c = std::move(m.slices);
  queue_.ended(*c, env().now());
  chunks_.give(std::move(c));
  pump();
}

void peer::handle(suspected& m) {
  queue_.suspected(*m.slices, m.to);
  pump();
}

void peer::handle(slot_state_changed& m) {
  slots_.at(m.slot) = m.qp;
  queue_.set_usable(m.slot, m.usable, m.generation);
  pump();
}

void peer::handle(remote_fence_settled& m) {
  queue_.remote_fenced(m.slot, m.generation, m.confirmed);
}

// -- the rest -------------------------------------------------------------------------------------

void peer::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = "peer";
  s.name = title_;
  machine_.fill(s, env().now());
  s.queued = queue_.open_transfers() + outbox_.waiting();
  s.outstanding = queue_.outstanding();
  if (queue_.open_batches() > 0)
    s.oldest = env().now() - queue_.oldest_submit();
  s.cause = cause_;
  for (std::size_t i = 0; i < endpoint_handles_.size(); ++i)
    m.pass_on(endpoint_handles_[i], endpoints_[i]->name());
  m.into->add(std::move(s));
}

void peer::handle(stop& m) {
  stop_asked_by_ = m.answer_to;
  stopping_ = true;
  cause_ = m.cause;
  queue_.stop_all(transfer_status::cancelled, base::reason::shutting_down);
  outbox_.give_up_all(base::reason::shutting_down);
  if (endpoint_handles_.empty())
    return raise(session_event::stop, m.cause);
  endpoints_left_ = static_cast<std::uint32_t>(endpoint_handles_.size());
  for (const auto& e : endpoint_handles_)
    caf::anon_send(e, stop{m.cause, me()});
}

void peer::handle(stopped&) {
  if (endpoints_left_ > 0 && --endpoints_left_ == 0)
    raise(session_event::stop, cause_);
}

void peer::note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = title_;
  e.detail = std::move(detail);
  e.value = value;
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
