// SPDX-License-Identifier: Apache-2.0
// A QP's messages and its machine's actions. The verbs calls are in qp_verbs.cpp, the stall clock is in
// qp_stall.cpp.
#include "actors/qp.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

qp::qp(lane_env& env, const settings& config, observer& watch, std::shared_ptr<device> dev, place where)
    : lane_object(env), config_(config), watch_(watch), device_(std::move(dev)), where_(std::move(where)),
      machine_(qp_state::rebuilding, env.now()), ledger_(config.send_queue_depth), ended_(chunks_.take()) {
  more_ended_.reserve(config.send_queue_depth);
}

qp::~qp() = default;

caf::behavior qp::make_behavior() {
  return {
      on<post>(&qp::handle, &qp::salvage),
      on<qp_begin>(&qp::handle),
      on<qp_fence>(&qp::handle, &qp::handle),
      on<qp_connect>(&qp::handle),
      on<qp_hold>(&qp::handle),
      on<qp_probe>(&qp::handle),
      on<fence_batch>(&qp::handle),
      on<qp_rail_answers>(&qp::handle),
      on<snapshot_request>(&qp::handle),
  };
}

/// Also an attempt that had not begun is fenced: its end is told. And a fence that stopped half-way begins
/// again.
void qp::on_fault(const std::string& what) {
  try {
    note(observe::event_kind::internal_fault, what, 0, base::level::error);
    raise(qp_event::fence, "internal fault: " + what);
  } catch (...) { // the fence matters more
    raise(qp_event::fence, "internal fault");
  }
  if (machine_.state() == qp_state::draining && !destroying_ &&
      timers_[static_cast<std::size_t>(timer::drain)] == deadline_id::none)
    drain();
  flush_ended();
}

// -- messages -------------------------------------------------------------------------------------

void qp::handle(qp_begin& m) {
  if (born_ || machine_.state() != qp_state::rebuilding)
    return;
  generation_ = m.generation;
  begin();
}

void qp::handle(qp_connect& m) {
  const bool came_twice = peer_.peer.generation == m.peer.generation; // this one is being connected
  if (!born_ || m.peer.generation != generation_ || machine_.state() != qp_state::rebuilding || came_twice)
    return;
  peer_ = m;
  connect();
}

void qp::handle(qp_hold& m) {
  if (m.hold) {
    paused_.held = true;
    paused_.proving = false;
    if (machine_.state() == qp_state::rebuilding && born_)
      raise(qp_event::fence, "its device went down meanwhile");
    else
      raise(qp_event::hold, "its device or rail rests");
    return;
  }
  if (!std::exchange(paused_.held, false) || machine_.state() != qp_state::paused)
    return;
  if (!where_.initiator) // it never posts: the initiator's probe proves it
    return raise(qp_event::resume, "its device is back");
  // It comes back only after it has proved itself; if it hangs, the probe's silence says so.
  paused_.proving = true;
  probing_for_ = -1;
  if (!post_probe())
    raise(qp_event::fence, "no probe could be posted");
  arm(timer::probe, config_.probe_deadline);
}

void qp::handle(qp_fence& m) {
  // What it means has ended, and the report of that crossed it on the way. An attempt that has been asked for
  // meanwhile must not be told to have failed before it begins.
  if (!m.for_good && is_idle())
    return;
  for_good_ = for_good_ || m.for_good;
  if (paused_.stalled)
    fenced_for_silence();
  raise(m.for_good ? qp_event::retire : qp_event::fence, m.cause);
}

void qp::handle(qp_probe& m) {
  if (machine_.state() != qp_state::active || probe_out_)
    return;
  probing_for_ = m.for_index;
  if (post_probe())
    arm(timer::probe, config_.probe_deadline);
}

void qp::handle(fence_batch& m) {
  bool out = false;
  ledger_.each([&](const slice& s) { out = out || s.batch == m.batch.get(); });
  if (out)
    raise(qp_event::fence, m.cause);
}

void qp::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = "qp";
  s.name = where_.name;
  machine_.fill(s, env().now());
  s.outstanding = ledger_.outstanding();
  if (!ledger_.empty())
    s.oldest = env().now() - ledger_.oldest_posted();
  s.generation = generation_;
  s.qp_num = number();
  s.cause = cause_;
  m.into->add(std::move(s));
}

// -- machine --------------------------------------------------------------------------------------

void qp::raise(qp_event event, std::string cause) {
  const auto before = machine_.state();
  const auto outcome = machine_.apply(event, env().now());
  if (outcome.is_ignored())
    return;
  if (before != machine_.state()) {
    cause_ = cause;
    observe::event e;
    e.at = env().now();
    e.kind = observe::event_kind::transition;
    e.subject = where_.name;
    e.from = to_string(before);
    e.to = to_string(machine_.state());
    e.detail = std::move(cause);
    watch_.emit(std::move(e), base::level::debug);
  } else if (!cause.empty()) {
    cause_ = std::move(cause);
  }
  perform(outcome.act);
}

void qp::perform(qp_action action) {
  switch (action) {
  case qp_action::none: break;
  case qp_action::offer: offer(); break;
  case qp_action::suspect: suspect(); break;
  case qp_action::withhold: withhold(); break;
  case qp_action::drain: drain(); break;
  case qp_action::destroy: destroy(); break;
  case qp_action::abandon: abandon(); break;
  case qp_action::report_failed: report(qp_step::failed); break;
  case qp_action::report_fenced: report(qp_step::fenced); break;
  case qp_action::finish:
    report(qp_step::gone);
    for (auto t = 0; t < static_cast<int>(timer::count); ++t)
      disarm(static_cast<timer>(t));
    end_actor();
    break;
  case qp_action::count: break;
  }
}

void qp::offer() {
  disarm(timer::attempt);
  disarm(timer::path_fence);
  disarm(timer::probe);
  set_aside(false);
  paused_ = {};
  tell_slot(true);
  report(qp_step::ready);
}

void qp::suspect() {
  paused_.stalled = true;
  suspected_ = env().now();
  set_aside(true);
  device_->qp_suspected();
  rail_answers_ = false;
  tell_slot(false);
  note(observe::event_kind::stall_suspected, "no completion within the stall limit", ledger_.outstanding(),
       base::level::debug);
  reissue(offer_to::other_devices);
  report(qp_step::suspect);
  if (timers_[static_cast<std::size_t>(timer::path_fence)] == deadline_id::none)
    arm(timer::path_fence, config_.path_fence);
}

void qp::withhold() {
  tell_slot(false);
  reissue(offer_to::anyone);
  report(qp_step::held);
}

// -- completions and deadlines --------------------------------------------------------------------

void qp::on_completions(std::span<const ibv_wc> wcs) {
  guarded([&] {
    std::uint64_t bytes = 0;
    std::uint32_t completions = 0;
    const auto came = ledger_.empty() ? env().now() : ledger_.oldest_posted();
    std::uint64_t at_fault = 0; // the batch of what ended last
    const auto end_one = [&](const slice& s, wr_end how) {
      bytes += how == wr_end::success ? s.length : 0;
      if (how != wr_end::success)
        at_fault = s.batch->trace;
      give_back(s, how);
    };
    for (const auto& wc : wcs) {
      const auto name = unpack(wc.wr_id);
      if (name.generation != generation_) {
        note(observe::event_kind::stale_completion, "of an earlier generation", wc.wr_id, base::level::debug);
        continue;
      }
      if (name.position == probe_position && probe_out_) { // else its attempt has ended, once
        probe_ended(wc.status);
        continue;
      }
      auto end = classify(wc.status);
      if (end != wr_end::success && end != wr_end::flushed && device_->is_lost())
        end = wr_end::error; // what a lost device says of a request is not the request's fault
      // rdma_rxe of Linux 6.1 says so of whatever it cannot send, as when the port is being taken down.
      if (wc.status == IBV_WC_LOC_QP_OP_ERR && !device_->may_blame_request())
        end = wr_end::error;
      const bool was_probe = name.position == probe_position; // given up, and flushed with its QP
      if (was_probe || !ledger_.retire(name.position, end, end_one)) {
        note(observe::event_kind::stale_completion,
             was_probe ? "of a probe that was given up" : "of a WR that has ended", wc.wr_id,
             was_probe ? base::level::debug : base::level::warn);
        continue;
      }
      if (end == wr_end::success) {
        ++completions;
      } else if (end != wr_end::flushed) {
        note(observe::event_kind::wr_error, device_->status_text(wc.status), wc.wr_id, base::level::warn,
             at_fault);
        raise(qp_event::wr_error, device_->status_text(wc.status));
      } else {
        raise(qp_event::wr_error, "flushed: the device moved the QP to ERR");
      }
    }
    if (completions > 0)
      progress_made(bytes, completions, came);
    flush_ended();
    if (machine_.state() == qp_state::draining && err_done_ && ledger_.empty())
      destroy();
  });
}

void qp::give_back(const slice& what, wr_end end) noexcept {
  device_->bytes_in_flight -= what.length;
  if (aside_)
    device_->bytes_aside -= what.length;
  keep_ended(what, end);
}

/// What does not get away now does so at the next flush_ended(): it has left the ledger, and nobody else
/// knows of it.
void qp::keep_ended(const slice& what, wr_end end) noexcept {
  if (ended_->full()) {
    try {
      send_ended();
    } catch (...) {
      more_ended_.push_back({what, end});
      return;
    }
  }
  ended_->add(what, end);
}

void qp::flush_ended() {
  if (ended_->count == 0)
    return;
  send_ended();
  while (!more_ended_.empty()) {
    while (!more_ended_.empty() && !ended_->full()) {
      ended_->add(more_ended_.back().what, more_ended_.back().end);
      more_ended_.pop_back();
    }
    send_ended();
  }
}

void qp::send_ended() {
  auto next = chunks_.take();
  ended_->slot = where_.slot;
  ended_->generation = generation_;
  caf::anon_send(where_.peer, ended{ended_});
  ended_ = std::move(next);
}

void qp::on_deadline(std::uint64_t token) {
  const auto which = static_cast<timer>(token);
  timers_[token] = deadline_id::none;
  guarded([&] {
    switch (which) {
    case timer::attempt: raise(qp_event::deadline, "connecting took too long"); break;
    case timer::stall: check_stall(); break;
    case timer::path_fence: judge_suspect(); break;
    case timer::drain: raise(qp_event::deadline, "not every WR flushed in time"); break;
    case timer::destroy_again: destroy(); break;
    case timer::probe: judge_probe(); break;
    case timer::count: break;
    }
  });
}

// -- small things ---------------------------------------------------------------------------------

void qp::report(qp_step step) {
  if (!where_.endpoint)
    return;
  qp_report r;
  r.step = step;
  r.index = where_.index;
  r.generation = generation_;
  if (step == qp_step::created) {
    r.address.index = where_.index;
    r.address.qp_num = number();
    r.address.psn = born_->psn;
    r.address.generation = generation_;
  }
  if (step == qp_step::ready)
    r.reads = born_->reads;
  r.served = served_;
  r.cause = cause_;
  caf::anon_send(where_.endpoint, std::move(r));
}

void qp::tell_slot(bool usable) {
  if (where_.peer)
    caf::anon_send(where_.peer, slot_state_changed{where_.slot, usable, generation_, depth(), me()});
}

void qp::arm(timer which, base::duration in) {
  disarm(which);
  timers_[static_cast<std::size_t>(which)] =
      env().arm(env().now() + in, *this, static_cast<std::uint64_t>(which));
}

void qp::disarm(timer which) {
  auto& id = timers_[static_cast<std::size_t>(which)];
  if (id != deadline_id::none)
    env().cancel(std::exchange(id, deadline_id::none));
}

void qp::note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at,
              std::uint64_t trace) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = where_.name;
  e.detail = std::move(detail);
  e.value = value;
  e.trace = trace;
  machine_.recorder().add(e.at, observe::entry_kind::note, 0, 0, static_cast<std::uint8_t>(kind), value);
  watch_.emit(std::move(e), at);
}

} // namespace actor_rdma::actors
