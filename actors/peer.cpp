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
      on<ended>(&peer::handle, &peer::handle),
      on<suspected>(&peer::handle, &peer::handle),
      on<slot_state_changed>(&peer::handle, &peer::handle),
      on<cancel>(&peer::handle, &peer::handle),
      on<remote_fence_settled>(&peer::handle, &peer::handle),
      on<control>(&peer::handle, &peer::handle),
      on<link_opened>(&peer::handle, &peer::handle),
      on<link_closed>(&peer::handle, &peer::handle),
      on<import_peer>(&peer::handle, &peer::salvage),
      on<rail_refused>(&peer::handle),
      on<dial_started>(&peer::handle, &peer::handle),
      on<cancel_buffer>(&peer::handle, &peer::handle),
      on<snapshot_request>(&peer::handle),
      on<stop>(&peer::handle, &peer::handle),
      on<stopped>(&peer::handle, &peer::handle),
      on<device_added>(&peer::handle, &peer::handle),
      on<keys_made>(&peer::handle, &peer::handle),
  };
}

/// Whatever it came from: what is open goes on, or ends.
void peer::on_fault(const std::string& what) {
  try {
    note(observe::event_kind::internal_fault, what, 0, base::level::error);
  } catch (...) { // the work matters more
  }
  if (std::exchange(recovering_, true))
    return;
  if (!guarded([&] { recover(); }))
    queue_.stop_all(transfer_status::failed, base::reason::internal);
  recovering_ = false;
}

void peer::recover() {
  queue_.recover();
  outbox_.send_again();
  if (refresh_timer_ == deadline_id::none) { // nobody will say which keys are valid
    end_refresh();
    queue_.refresh_failed(base::reason::internal);
  }
  pump();
}

void peer::on_deadline(std::uint64_t token) {
  if (guarded([&] { due(token); }))
    return;
  // Nothing is left without its deadline.
  guarded([&] {
    if (token == dial_token && dial_timer_ == deadline_id::none)
      perform(session_action::redial_later);
    else if (const auto batch = queue_.find(token); batch && batch->timer == 0)
      batch->stopped ? fence_stopped(batch)
                     : stop_batch(batch, transfer_status::failed, base::reason::internal);
    else if (const auto told = outbox_.find(token); told && told->timer == 0)
      outbox_.give_up(*told, base::reason::internal);
  });
}

void peer::due(std::uint64_t token) {
  if (token == dial_token) {
    dial_timer_ = deadline_id::none;
    if (machine_.state() == session_state::ready)
      return publish_missed("it said hello, and does not say what it publishes");
    raise(session_event::retry, "time to dial again");
  } else if (token == refresh_due_token) {
    refresh_timer_ = deadline_id::none;
    end_refresh();
    note(observe::event_kind::keys_refreshed,
         "a key was refused, and the peer does not say what it publishes now", 0, base::level::warn);
    queue_.refresh_failed(base::reason::peer_silent);
    pump();
  } else if (token == reach_token) {
    reach_timer_ = deadline_id::none;
    queue_.keys_made();
    pump();
  } else if (const auto batch = queue_.find(token)) {
    batch->timer = 0;
    batch_due(batch);
  } else if (const auto told = outbox_.find(token)) {
    told->timer = 0;
    notice_due(told);
  }
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
    return give_up_notice(batch);
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
  const bool due = env().now() >= batch->deadline;
  if ((!due || queue_.lacks_keys(*batch)) && !std::exchange(batch->reported_stuck, true))
    note(observe::event_kind::stuck,
         fmt::format(
             "{} of {} transfers of batch {} are open after {:.1f} s; {} slices wait, {} WRs are out, {}",
             batch->transfers().size() - batch->ended, batch->transfers().size(), batch->serial,
             std::chrono::duration<double>(env().now() - batch->submitted).count(), queue_.waiting_slices(),
             queue_.outstanding(),
             queue_.lacks_keys(*batch) ? "no usable rail has the keys, or reaches the memory with them"
             : queue_.any_usable()     ? "rails are usable"
                                       : "no rail is usable: " + cause_),
         0, base::level::warn, batch->trace);
  if (due)
    return stop_batch(batch, transfer_status::timed_out, base::reason::timeout);
  arm_batch(*batch, batch->deadline);
}

/// Unposted work stops now; posted WRs on a QP that makes progress may finish within fence_grace.
void peer::stop_batch(const std::shared_ptr<batch_state>& batch, transfer_status how, base::reason cause) {
  if (batch->stopped)
    return;
  if (batch->timer != 0)
    env().cancel(static_cast<deadline_id>(std::exchange(batch->timer, 0)));
  if (!queue_.stop(*batch, how, cause))
    return;
  try {
    arm_batch(*batch, env().now() + config_.fence_grace);
  } catch (...) { // then there is no grace
    fence_stopped(batch);
    throw;
  }
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

/// The queue calls it in the midst of its work, so it goes on after a fault as if there had been none.
void peer::batch_ended(const std::shared_ptr<batch_state>& done) noexcept {
  if (done->timer != 0)
    env().cancel(static_cast<deadline_id>(std::exchange(done->timer, 0)));
  for (const auto& b : done->locals)
    b->open_batches.fetch_sub(1, std::memory_order_acq_rel);
  if (done->failed() > 0)
    done_or_told([&] { tell_failed(*done); });
  if (!done->attached_notice())
    done_or_told([&] { where_.batch_done(done); });
  else if (!done_or_told([&] { data_in_place(done); }))
    done_or_told([&] { give_up_notice(done); });
  if (stopping_)
    done_or_told([&] { caf::anon_send(me(), stop{cause_, stop_asked_by_}); });
}

void peer::tell_failed(const batch_state& done) {
  const auto all = done.transfers();
  const auto bad = std::find_if(all.begin(), all.end(), [](const transfer& item) {
    return item.status.load(std::memory_order_relaxed) != transfer_status::completed;
  });
  note(observe::event_kind::batch_failed,
       fmt::format("of {} transfers; number {} {}: {}", all.size(), bad - all.begin(),
                   to_string(bad->status.load(std::memory_order_relaxed)), base::to_string(bad->cause)),
       done.failed(), base::level::debug, done.trace);
}

// -- slices ---------------------------------------------------------------------------------------

void peer::pump() {
  for (;;) {
    auto c = chunks_.take();
    try {
      if (!queue_.pull(*c, env().now())) {
        chunks_.give(std::move(c));
        return arm_reach();
      }
      caf::anon_send(slots_[c->slot], post{c});
    } catch (...) {
      give_back(*c);
      throw;
    }
  }
}

/// The QP does not get it.
void peer::give_back(chunk& unposted) {
  for (std::size_t i = 0; i < unposted.count; ++i)
    unposted.slices[i].end = wr_end::unposted;
  if (unposted.count > 0)
    queue_.ended(unposted, env().now());
}

void peer::handle(ended& m) {
  if (const auto c = std::exchange(m.slices, nullptr)) {
    queue_.ended(*c, env().now());
    chunks_.give(c);
  }
  pump();
}

void peer::handle(suspected& m) {
  if (const auto c = std::exchange(m.slices, nullptr))
    queue_.suspected(*c, m.to);
  pump();
}

void peer::handle(slot_state_changed& m) {
  slots_.at(m.slot) = m.qp;
  queue_.set_usable(m.slot, m.usable, m.generation, m.depth);
  pump();
}

void peer::handle(keys_made&) {
  queue_.keys_made();
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

/// Work ends before what carries it: an endpoint that is gone asks nobody any more whether the peer has let
/// go of a QP, and transfers that wait for that would never end.
void peer::handle(stop& m) {
  if (endpoints_left_ > 0 || machine_.state() == session_state::stopped)
    return;
  stop_asked_by_ = m.answer_to;
  cause_ = m.cause;
  queue_.stop_all(transfer_status::cancelled, base::reason::shutting_down);
  if (!std::exchange(stopping_, true)) {
    outbox_.give_up_all(base::reason::shutting_down);
    for (const auto& b : queue_.batches())
      fence_stopped(b);
  }
  if (queue_.open_batches() != 0)
    return; // the last one asks again
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

void peer::note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at,
                std::uint64_t trace) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = title_;
  e.detail = std::move(detail);
  e.value = value;
  e.trace = trace;
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
