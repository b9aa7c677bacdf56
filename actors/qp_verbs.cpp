// SPDX-License-Identifier: Apache-2.0
// A QP's verbs: making, connecting, posting, probing, and the way out (ERR, flush, destroy). Calls that may
// take long run through run_slow; the one that posts does not.
#include "actors/qp.hpp"

#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

// -- making and connecting ------------------------------------------------------------------------

void qp::begin() {
  const auto on = device_->parts();
  if (!on)
    return raise(qp_event::attempt_failed, device_->name() + " is lost");
  if (!indexed_) {
    const auto index = device_->add_qp(*this, room_of(config_, where_.initiator));
    if (!index) {
      raise(qp_event::attempt_failed,
            fmt::format("the CQ of {} has no room for another QP (cq_entries)", device_->name()));
      return;
    }
    device_index_ = *index;
    indexed_ = true;
  }
  auto born = std::make_shared<qp_incarnation>();
  born->psn = static_cast<std::uint32_t>(env().random()) & 0xffffff;
  born_ = born;
  err_done_ = destroying_ = quarantined_ = false;
  reissued_upto_ = ledger_.next();
  served_ = 0;
  arm(timer::attempt, config_.connect_deadline);
  env().run_slow(
      device_->number(),
      [born, on, depth = wrs_of(config_, where_.initiator)] { make_qp(*on, depth, *born); },
      [self = shared(this), born] { self->guarded([&] { self->created(born); }); });
}

void qp::created(const std::shared_ptr<qp_incarnation>& born) {
  if (born != born_)
    return device_->bury(born);
  if (machine_.state() != qp_state::rebuilding)
    return;
  if (born->failure.why != base::reason::none)
    return abandon_with(born->failure.to_string());
  number_ = born->pair.number();
  if (born->send_wrs < wrs_of(config_, where_.initiator))
    note(observe::event_kind::less_room,
         fmt::format("a send queue of {} was asked for, and one of {} was made",
                     wrs_of(config_, where_.initiator), born->send_wrs),
         born->send_wrs, base::level::info);
  report(qp_step::created);
}

void qp::connect() {
  // An initiator's QP serves no READs: only initiators post.
  if (!where_.initiator) {
    born_->reads = device_->take_reads(device_->address().read_depth);
    if (born_->reads == 0)
      return abandon_with(device_->name() +
                          " serves as many reads at once as it can, none are left for another QP");
  }
  env().run_slow(
      device_->number(),
      [born = born_, link = parameters_of(*device_, peer_, born_->reads, config_)] {
        connect_qp(*born, link);
      },
      [self = shared(this), born = born_] { self->guarded([&] { self->connected(born); }); });
}

void qp::connected(const std::shared_ptr<qp_incarnation>& born) {
  if (born != born_)
    return device_->bury(born);
  if (machine_.state() != qp_state::rebuilding)
    return;
  if (born->failure.why != base::reason::none)
    return abandon_with(born->failure.to_string());
  if (!where_.initiator) {
    if (born->served_reads != 0 && born->served_reads < born->reads)
      device_->give_reads(
          static_cast<std::uint8_t>(std::exchange(born->reads, born->served_reads) - born->served_reads));
    return raise(qp_event::ready, "connected");
  }
  probing_for_ = -1;
  if (!post_probe())
    return abandon_with("no probe could be posted");
  arm(timer::probe, config_.probe_deadline);
}

/// The attempt is over: what there is of its QP goes, and the endpoint hears why once it has gone.
void qp::abandon() {
  disarm(timer::attempt);
  disarm(timer::probe);
  probe_out_ = false;
  number_ = 0;
  if (auto born = std::exchange(born_, nullptr))
    device_->bury(born); // nothing but its own probe was ever posted on it
  raise(qp_event::attempt_failed, cause_);
}

void qp::abandon_with(const std::string& why) {
  raise(qp_event::fence, why);
}

// -- probing --------------------------------------------------------------------------------------

bool qp::post_probe() {
  if (number_ == 0)
    return false;
  *device_->landing(device_index_) = 0;
  ibv_sge target{};
  target.addr = reinterpret_cast<std::uint64_t>(device_->landing(device_index_));
  target.length = sizeof(std::uint64_t);
  target.lkey = device_->probe_lkey();
  ibv_send_wr wr{};
  wr.wr_id = pack({device_index_, generation_, probe_position});
  wr.sg_list = &target;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = peer_.probe_addr;
  wr.wr.rdma.rkey = peer_.probe_rkey;
  ibv_send_wr* bad = nullptr;
  probe_out_ = ::ibv_post_send(born_->pair.get(), &wr, &bad) == 0;
  probe_posted_ = env().now();
  lost_at_probe_ = env().lost_time();
  return probe_out_;
}

void qp::probe_ended(ibv_wc_status status) {
  probe_out_ = false;
  const bool answered =
      status == IBV_WC_SUCCESS && *device_->landing(device_index_) == peer_.peer_incarnation;
  if (status == IBV_WC_SUCCESS)
    progress_made(0, 0, env().now());
  disarm(timer::probe);
  if (probing_for_ >= 0) {
    if (answered) {
      qp_report r;
      r.step = qp_step::probe_answered;
      r.index = static_cast<std::uint16_t>(probing_for_);
      caf::anon_send(where_.endpoint, std::move(r));
    }
    return;
  }
  if (machine_.state() == qp_state::rebuilding) {
    if (answered)
      raise(qp_event::ready, "probe answered");
    else
      abandon_with(status == IBV_WC_SUCCESS ? "the probe met another incarnation"
                                            : "probe: " + device_->status_text(status));
  } else if (machine_.state() == qp_state::paused && std::exchange(paused_.proving, false) && !paused_.held) {
    if (!answered)
      raise(qp_event::fence, "the probe failed");
    else if (!paused_.stalled)
      raise(qp_event::resume, "probe answered");
  }
}

// -- posting --------------------------------------------------------------------------------------

void qp::handle(post& m) {
  const auto* const c = m.slices.get();
  if (machine_.state() != qp_state::active || c->generation != generation_ || c->count > room())
    return salvage(m);
  const auto now = env().now();
  if (ledger_.empty())
    start_stall_clock();
  const auto n = c->count;
  std::uint64_t unsignalled = 0; // bytes
  for (std::size_t i = 0; i < n; ++i) {
    const auto& s = c->slices[i].what;
    const auto position = ledger_.push(s, now);
    device_->bytes_in_flight += s.length;
    auto& sge = sges_[i];
    sge.addr = s.item->local + s.offset;
    sge.length = s.length;
    sge.lkey = s.lkey;
    auto& wr = wrs_[i];
    wr.wr_id = pack({device_index_, generation_, position});
    wr.next = i + 1 < n ? &wrs_[i + 1] : nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = s.item->op == operation::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    // A CQE retires everything before it. An unsignalled tail would look like a stall.
    unsignalled += s.length;
    const bool signals = i + 1 == n || unsignalled >= config_.signal_interval_bytes;
    unsignalled = signals ? 0 : unsignalled;
    wr.send_flags = signals ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
    wr.wr.rdma.remote_addr = s.item->remote + s.offset;
    wr.wr.rdma.rkey = s.rkey;
  }
  chunks_.give(std::move(m.slices));
  ibv_send_wr* bad = nullptr;
  const auto error = ::ibv_post_send(born_->pair.get(), wrs_, &bad);
  if (error != 0) [[unlikely]]
    refused_post(error, n, bad);
}

/// Slices that the ledger does not have go back as they came.
void qp::salvage(post& m) {
  const auto c = std::exchange(m.slices, nullptr);
  for (std::size_t i = 0; c && i < c->count; ++i)
    keep_ended(c->slices[i].what, wr_end::unposted);
  flush_ended();
}

/// The device took the chain up to `bad`. What it took may be unsignalled, so the QP is fenced to learn its
/// end.
void qp::refused_post(int error, std::size_t n, const ibv_send_wr* bad) {
  const auto taken = bad == nullptr ? 0u : static_cast<std::uint32_t>(bad - wrs_);
  ledger_.unpush(static_cast<std::uint32_t>(n) - taken,
                 [&](const slice& s) { give_back(s, wr_end::unposted); });
  flush_ended();
  raise(qp_event::fence, "ibv_post_send: " + base::errno_text(error));
}

void qp::on_async(ibv_event_type type) {
  guarded([&] { raise(qp_event::fence, device_->event_text(type)); });
}

// -- the way out ----------------------------------------------------------------------------------

/// Its last step is the deadline: where that is missing, it is done again.
void qp::drain() {
  for (const auto t : {timer::attempt, timer::stall, timer::path_fence, timer::probe})
    disarm(t);
  paused_ = {};
  set_aside(true);
  probe_out_ = false;
  tell_slot(false);
  report(qp_step::fencing);
  if (!born_)
    return destroy();
  env().run_slow(
      device_->number(), [born = born_] { move_to_error(*born); },
      [self = shared(this), born = born_] {
        self->guarded([&] {
          if (born != self->born_)
            return;
          self->err_done_ = true;
          // Where the move to ERR fails no flush will come; destroying is the proof that is left.
          if (self->ledger_.empty() || born->failure.why != base::reason::none)
            self->destroy();
        });
      });
  arm(timer::drain, config_.drain_deadline);
}

void qp::destroy() {
  if (destroying_)
    return;
  disarm(timer::drain);
  if (!born_)
    return destroyed(nullptr);
  env().run_slow(
      device_->number(), [born = born_] { destroy_qp(*born); },
      [self = shared(this), born = born_] { self->guarded([&] { self->destroyed(born); }); });
  destroying_ = true;
}

void qp::destroyed(const std::shared_ptr<qp_incarnation>& gone) {
  destroying_ = false;
  if (gone && !gone->destroyed) {
    // Not a fence. The WRs stay out, the memory stays registered, and it is tried again for as long as it
    // takes.
    cause_ = gone->failure.to_string();
    gone->refused = true;
    arm(timer::destroy_again, config_.drain_deadline);
    // Of a lost device it goes when the context is closed; if that fails, the device says so.
    if (!device_->is_lost() && !std::exchange(quarantined_, true))
      note(observe::event_kind::quarantined, cause_, gone->pair.number(), base::level::error);
    return device_->destroy_refused();
  }
  quarantined_ = false;
  if (gone)
    device_->give_reads(std::exchange(gone->reads, std::uint8_t{0}));
  ledger_.retire_all(wr_end::flushed, [&](const slice& s, wr_end how) { give_back(s, how); });
  flush_ended();
  note(observe::event_kind::fenced, "no WR of this generation can touch our memory", generation_,
       base::level::debug);
  born_ = nullptr;
  number_ = 0;
  if (for_good_ && indexed_) {
    device_->remove_qp(device_index_, room_of(config_, where_.initiator));
    indexed_ = false;
  }
  raise(for_good_ ? qp_event::fenced_for_good : qp_event::fenced, cause_);
}

void qp::on_context_closed() {
  guarded([&] {
    if (refuses_to_go()) {
      disarm(timer::destroy_again);
      destroy();
    }
  });
}

} // namespace actor_rdma::actors
