// SPDX-License-Identifier: Apache-2.0
//
// What a queue pair does differently when rules have a say in its work: packets that are lost, late, doubled
// or in disorder, and acknowledgements that do not come back.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/shared_receive_queue.hpp"

#include <algorithm>

namespace actor_rdma::verbs::soft {

namespace {

/// Of the region that lives under a local or a remote key.
std::uint64_t region_length(const layout::tables& t, std::uint32_t key, bool is_remote) noexcept {
  const auto& mr = t.mrs[index_of_key(t, key)];
  const auto state = mr.state.load(std::memory_order_relaxed);
  const auto its = is_remote ? static_cast<std::uint32_t>(state) : mr.lkey.load(std::memory_order_relaxed);
  return state != 0 && its == key ? mr.length.load(std::memory_order_relaxed) : 0;
}

} // namespace

wr_facts soft_qp::facts_of(std::uint64_t wr) noexcept {
  const auto& slot = ring_[wr];
  wr_facts f;
  f.wr = wr;
  const bool is_send = slot.opcode == IBV_WR_SEND || slot.opcode == IBV_WR_SEND_WITH_IMM;
  f.op = slot.is_atomic ? work_op::atomic
         : slot.is_read ? work_op::read
         : is_send      ? work_op::send
                        : work_op::write;
  f.peer_device = device_of_path(entry().dest_path.load(std::memory_order_relaxed));
  f.peer_qp = entry().dest_qpn.load(std::memory_order_relaxed);
  const auto& t = context_.rt().tables();
  if (!slot.is_inline && slot.num_sge > 0)
    f.region = region_length(t, slot.sge[0].lkey, false);
  if (!is_send)
    f.peer_region = region_length(t, slot.rkey, true);
  f.work = {slot.wr_id, slot.remote_addr, slot.length};
  return f;
}

/// nullptr: the port is up, or no rule says what a request does that finds it down.
const wr_fate* soft_qp::meet_own_port(nanos now) {
  const bool is_up = device().link_seq.load(std::memory_order_relaxed) % 2 == 0;
  return is_up || !rules_.any() ? nullptr : rules_.meet_link_down(facts_of(landed_), now);
}

/// One transmission. `is_late`: it travels as a packet of its own.
void soft_qp::place_by_rules(std::uint64_t wr, nanos now, bool& is_late) {
  auto* const fate = rules_.transmit(facts_of(wr), now);
  auto& slot = ring_[wr];
  // The answer of a read must not be in memory before it is known to arrive. It takes no longer for that.
  if (slot.is_read && !is_late && has_peer_ && is_wire_open()) {
    is_late = true;
    slot.land_at -= latency();
  }
  if (fate == nullptr)
    return;
  if (fate->dma_late && !fate->is_dma_out && has_peer_) {
    if (slot.is_read) { // its answer is what touches memory: it comes late, if anybody still wants it
      fate->late += *fate->dma_late;
    } else {
      fate->is_dma_out = fate->is_lost = true;
      if (const auto p = make_packet(wr, false); p)
        p->launch(slot.land_at + *fate->dma_late);
    }
  }
  if (fate->is_lost) {
    is_late = false;
    return;
  }
  if (!has_peer_ || !is_wire_open())
    return;
  slot.land_at = std::max(slot.land_at + fate->late, last_land_at_);
  is_late = (is_late || fate->late != 0 || fate->pieces.has_value()) && !fate->moves_nothing();
  if (fate->again)
    if (const auto p = make_packet(wr, false); p) {
      p->set_duplicate();
      p->launch(slot.land_at + *fate->again);
    }
}

bool soft_qp::is_answer_lost(std::uint64_t wr, nanos landed_at, nanos& done_at) {
  const auto answer = rules_.acknowledge(facts_of(wr), landed_at);
  done_at += answer.late;
  if (!answer.is_lost)
    return false;
  const auto wait = ack_timeout(attributes_.timeout);
  if (!ring_[wr].is_read && resend_at_ == never && wait != never)
    resend_at_ = landed_at + wait;
  if (!is_retrying_)
    retrying_since_ = landed_at;
  is_retrying_ = true;
  return true;
}

/// An acknowledgement speaks for everything before it too.
void soft_qp::cover_unacknowledged(std::uint64_t wr) noexcept {
  for (auto earlier = done_; earlier < wr; ++earlier)
    ring_[earlier].done_at = std::min(ring_[earlier].done_at, ring_[wr].done_at);
  resend_at_ = never;
}

/// No acknowledgement came in time: everything that lacks one is sent again. The responder has seen it, and
/// acknowledges without doing it again.
void soft_qp::resend_unacknowledged() noexcept {
  resend_at_ = never;
  auto first = done_;
  while (first < landed_ && ring_[first].done_at != never)
    ++first;
  landed_ = first;
  go_back();
}

wr_facts soft_qp::facts_of_receive(std::uint32_t ticket, std::uint64_t wr_id,
                                   std::uint32_t length) const noexcept {
  wr_facts f;
  f.wr = ticket;
  f.op = work_op::recv;
  f.peer_device = device_of_path(entry().dest_path.load(std::memory_order_relaxed));
  f.peer_qp = entry().dest_qpn.load(std::memory_order_relaxed);
  f.work = {wr_id, 0, length};
  return f;
}

std::optional<cqe_hold> soft_qp::rule_receive(completion& c, nanos now) {
  if (!receive_rules_.any())
    return std::nullopt;
  const auto slot = static_cast<std::uint32_t>(c.release_to);
  const auto ticket = ticket_of(receives()[slot].word.load(std::memory_order_relaxed));
  const auto fate = receive_rules_.receive(facts_of_receive(ticket, c.wc.wr_id, c.wc.byte_len), now);
  if (fate.status) {
    c.wc.status = static_cast<ibv_wc_status>(*fate.status);
    if (c.wc.status != IBV_WC_SUCCESS) {
      fill_with_garbage(c.wc, receive_garbage_);
      c.wc.vendor_err = fate.is_garbage ? static_cast<std::uint32_t>(receive_garbage_.next())
                                        : 0x600 + static_cast<std::uint32_t>(c.wc.status);
      fail_by_receive(layout::told_by_receive);
    }
  }
  return fate.hold;
}

void soft_qp::raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) {
  std::lock_guard lock{mutex_};
  if (retired_ || device != context_.device().index())
    return;
  switch (subject_of(type)) {
  case event_subject::queue_pair:
    for (std::uint32_t i = 0; i < times; ++i)
      raise(type);
    break;
  case event_subject::completion_queue:
    send_cq_.raise_on_demand(type, device, times);
    if (&recv_cq_ != &send_cq_)
      recv_cq_.raise_on_demand(type, device, times);
    break;
  case event_subject::shared_receive_queue:
    if (srq_ != nullptr)
      srq_->raise_on_demand(type, device, times);
    break;
  case event_subject::device: break;
  }
}

void soft_qp::leave_completions() {
  std::lock_guard lock{mutex_};
  leaves_completions_ = true;
}

} // namespace actor_rdma::verbs::soft
