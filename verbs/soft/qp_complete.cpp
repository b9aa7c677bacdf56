// SPDX-License-Identifier: Apache-2.0
//
// How work requests end: with success, with an error that takes the queue pair to ERR, flushed behind one, or
// without a word when the queue pair is reset or destroyed.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/tables.hpp"

#include <utility>

namespace actor_rdma::verbs::soft {

namespace {

constexpr ibv_wc_opcode opcode_of(std::uint8_t wr_opcode) noexcept {
  constexpr ibv_wc_opcode of[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,     IBV_WC_SEND,
                                  IBV_WC_RDMA_READ,  IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD};
  static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_RDMA_WRITE_WITH_IMM == 1 && IBV_WR_SEND == 2 &&
                IBV_WR_SEND_WITH_IMM == 3 && IBV_WR_RDMA_READ == 4 && IBV_WR_ATOMIC_CMP_AND_SWP == 5 &&
                IBV_WR_ATOMIC_FETCH_AND_ADD == 6);
  return of[wr_opcode];
}

} // namespace

/// Only status, wr_id, qp_num and vendor_err mean anything in an error completion: let nobody rely on the
/// others.
void soft_qp::fill_with_garbage(ibv_wc& wc, base::rng& from) {
  wc.opcode = static_cast<ibv_wc_opcode>(from.next() & 0xff);
  wc.byte_len = static_cast<std::uint32_t>(from.next());
  wc.imm_data = static_cast<std::uint32_t>(from.next());
  wc.src_qp = static_cast<std::uint32_t>(from.next());
  wc.wc_flags = static_cast<unsigned>(from.next());
  wc.pkey_index = static_cast<std::uint16_t>(from.next());
  wc.slid = static_cast<std::uint16_t>(from.next());
  wc.sl = static_cast<std::uint8_t>(from.next());
  wc.dlid_path_bits = static_cast<std::uint8_t>(from.next());
}

completion soft_qp::make_completion(std::uint64_t wr, ibv_wc_status status) {
  const auto& slot = ring_[wr];
  completion c{};
  c.qp = this;
  c.release_to = wr + 1;
  if (status != IBV_WC_SUCCESS) {
    fill_with_garbage(c.wc, garbage_);
    c.wc.vendor_err = 0x500 + static_cast<std::uint32_t>(status);
  } else {
    c.wc.opcode = opcode_of(slot.opcode);
    c.wc.byte_len = slot.length;
  }
  c.wc.wr_id = slot.wr_id;
  c.wc.status = status;
  c.wc.qp_num = qp_num;
  return c;
}

void soft_qp::complete_success(std::uint64_t wr) {
  const auto& slot = ring_[wr];
  reads_in_flight_ -= slot.is_read ? 1 : 0;
  if (slot.is_packet)
    packets_.erase(wr);
  ++done_;
  if (const auto* const fate = rules_.find(wr); fate != nullptr) {
    if (const auto hold = fate->hold; hold) {
      send_cq_.push_held({this, false},
                         slot.is_signaled ? std::optional{make_completion(wr, IBV_WC_SUCCESS)} : std::nullopt,
                         *hold);
      rules_.end(wr);
      return;
    }
    rules_.end(wr);
  }
  if (!slot.is_signaled)
    return;
  const auto c = make_completion(wr, IBV_WC_SUCCESS);
  if (!send_cq_.push({&c, 1}))
    overrun();
}

void soft_qp::fail_head(ibv_wc_status status, nanos now) {
  const auto kind =
      status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ? log_kind::retry_exceeded
      : status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR      ? log_kind::local_protection_error
                                                                           : log_kind::remote_access_error;
  log(now, kind, done_, static_cast<std::uint32_t>(status));
  auto c = make_completion(done_, status);
  if (const auto* const fate = rules_.find(done_); fate != nullptr && fate->is_garbage)
    c.wc.vendor_err = static_cast<std::uint32_t>(garbage_.next());
  enter_error();
  send_cq_.hurry(*this);
  ++done_;
  if (!send_cq_.push({&c, 1})) {
    overrun();
    return;
  }
  flush(now);
  flush_receives(now);
}

void soft_qp::enter_error() noexcept {
  auto word = entry().word.load(std::memory_order_seq_cst);
  while (!qp_is(word, IBV_QPS_ERR) &&
         !entry().word.compare_exchange_weak(word, qp_word(qp_generation(word), IBV_QPS_ERR),
                                             std::memory_order_seq_cst)) {
  }
  ibv_qp::state = IBV_QPS_ERR;
}

void soft_qp::flush(nanos now, bool is_marker) {
  if (is_hung_hard_) {
    swallow(now, true);
    return;
  }
  send_cq_.hurry(*this);
  bool has_room = true;
  for (auto wr = done_; wr < posted_ && has_room; ++wr) {
    const auto packet = packets_.find(wr);
    if (packet != packets_.end() && wr < landed_ && ring_[wr].is_read)
      log(now, log_kind::dropped_late, wr); // an answer that finds nobody
    if (rules_.suppresses_flush(facts_of(wr), now, is_marker))
      continue;
    log(now, log_kind::flushed, wr);
    const auto c = make_completion(wr, IBV_WC_WR_FLUSH_ERR);
    has_room = send_cq_.push({&c, 1});
  }
  drop_work();
  if (!has_room)
    overrun();
}

void soft_qp::drop_work() noexcept {
  if (is_hung_)
    device().stuck_wrs.fetch_sub(stuck_, std::memory_order_relaxed);
  is_hung_ = is_lost_ = is_not_ready_ = is_failing_ = is_retrying_ = false;
  not_ready_count_ = 0;
  stuck_ = 0;
  done_ = landed_ = sent_ = posted_;
  packets_.clear(); // those on the wire travel on
  reads_in_flight_ = 0;
  moved_bytes_ = 0;
  ask_again_ = 0;
  probe_at_ = resend_at_ = never;
  rules_.end_all(posted_);
  last_land_at_ = last_done_at_ = acknowledged_until_ = 0;
  send_cq_.line().remove(*this);
  is_scheduled_ = false;
}

void soft_qp::overrun() {
  enter_error();
  drop_work();
  raise(IBV_EVENT_QP_FATAL);
  flush_receives(context_.rt().now());
}

void soft_qp::adopt_remote_error(nanos now) {
  std::lock_guard lock{mutex_};
  if (!retired_)
    notice_remote_error(now);
}

void soft_qp::answer_atomics() {
  std::lock_guard lock{mutex_};
  if (!retired_ && (attributes_.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0)
    answer_atomic(context_.rt(), index_);
}

void soft_qp::notice_remote_error(nanos now) {
  read_signs();
  const bool is_connected = current_state() == IBV_QPS_RTR || current_state() == IBV_QPS_RTS;
  if (!is_connected || !qp_is(entry().word.load(std::memory_order_seq_cst), IBV_QPS_ERR))
    return;
  ibv_qp::state = IBV_QPS_ERR;
  const auto why = entry().signs.load(std::memory_order_seq_cst);
  if ((why & layout::no_room) != 0)
    raise(IBV_EVENT_QP_FATAL);
  else if ((why & layout::told_by_receive) == 0)
    raise((why & layout::invalid_request) != 0 ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR);
  flush(now);
  flush_receives(now);
}

void soft_qp::raise(ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = this;
  context_.raise(event, &async_events_);
}

void soft_qp::log(nanos now, log_kind kind, std::uint64_t wr, std::uint32_t detail) {
  const auto& slot = ring_[wr];
  write_log(context_.rt().tables(), now, kind, device(), qp_num, detail,
            {slot.wr_id, slot.remote_addr, slot.length});
}

} // namespace actor_rdma::verbs::soft
