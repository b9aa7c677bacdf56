// SPDX-License-Identifier: Apache-2.0
//
// A queue pair's own side of receiving: posting receives, what their completions say, and how they end when
// the queue pair does. Peers claim and finish them (responder_receive.cpp).
#include "verbs/soft/hazard.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/shared_receive_queue.hpp"
#include "verbs/soft/tables.hpp"

#include <cerrno>
#include <utility>

namespace actor_rdma::verbs::soft {

namespace {

/// While a peer is at work on a receive, those behind it wait for so long for their turn to be flushed.
constexpr nanos flush_patience = 10'000'000;
constexpr nanos flush_period = 200'000;

} // namespace

receive_queue& soft_qp::receives() noexcept {
  return srq_ != nullptr ? srq_->receives() : own_receives_;
}

int soft_qp::post_recv(ibv_recv_wr* first, ibv_recv_wr** bad) {
  std::lock_guard lock{mutex_};
  *bad = first;
  if (retired_ || srq_ != nullptr || current_state() == IBV_QPS_RESET)
    return context_.is_dead() ? EIO : EINVAL;
  if (!own_receives_.is_open()) {
    if (init_.cap.max_recv_wr == 0 ||
        !own_receives_.open(init_.cap.max_recv_wr, init_.cap.max_recv_sge, pd_.handle))
      return ENOMEM;
    entry().receive_queue.store(own_receives_.unit(), std::memory_order_seq_cst);
  }
  if (current_state() == IBV_QPS_ERR && !first_marker_)
    first_marker_ =
        ring_at(context_.rt().tables(), own_receives_.unit()).tail.load(std::memory_order_relaxed);
  for (; first != nullptr; first = first->next) {
    *bad = first;
    if (const int error = own_receives_.post(*first); error != 0)
      return error;
    receives_ended_ = false;
  }
  const auto now = context_.rt().now();
  if (!qp_is(entry().word.load(std::memory_order_seq_cst), current_state()))
    notice_remote_error(now);
  if (current_state() == IBV_QPS_ERR)
    flush_receives(now);
  return 0;
}

completion soft_qp::make_receive_completion(std::uint32_t at) {
  const auto& slot = receives()[at];
  completion c{};
  c.qp = this;
  c.release_to = frees_receive | at | ((slot.flags & layout::solicited) != 0 ? is_solicited : 0);
  c.wc.wr_id = slot.wr_id;
  c.wc.status = static_cast<ibv_wc_status>(slot.status);
  c.wc.qp_num = qp_num;
  if (c.wc.status != IBV_WC_SUCCESS) {
    c.wc.byte_len = slot.byte_len;
    c.wc.opcode = IBV_WC_RECV;
    c.wc.vendor_err = 0x600 + static_cast<std::uint32_t>(slot.status);
    return c;
  }
  c.wc.opcode = static_cast<ibv_wc_opcode>(slot.opcode);
  c.wc.byte_len = slot.byte_len;
  c.wc.src_qp = slot.src_qpn;
  if ((slot.flags & layout::with_imm) != 0) {
    c.wc.imm_data = slot.imm_data;
    c.wc.wc_flags = IBV_WC_WITH_IMM;
  }
  return c;
}

completion soft_qp::make_flushed_receive(std::uint64_t wr_id, std::uint64_t frees) {
  completion c{};
  c.qp = this;
  c.release_to = frees;
  fill_with_garbage(c.wc, garbage_);
  c.wc.wr_id = wr_id;
  c.wc.status = IBV_WC_WR_FLUSH_ERR;
  c.wc.vendor_err = 0x600 + static_cast<std::uint32_t>(c.wc.status);
  c.wc.qp_num = qp_num;
  return c;
}

void soft_qp::drop_receive(std::uint32_t slot) {
  // Called with the completion queue's lock: the rest is for whoever attends to signs.
  receives().release(slot);
  fail_by_receive(layout::no_room);
}

void soft_qp::fail_by_receive(std::uint32_t sign) noexcept {
  auto& rt = context_.rt();
  entry().signs.fetch_or(sign, std::memory_order_seq_cst);
  auto word = entry().word.load(std::memory_order_seq_cst);
  while (qp_responds(word) &&
         !entry().word.compare_exchange_weak(word, qp_word(qp_generation(word), IBV_QPS_ERR),
                                             std::memory_order_seq_cst)) {
  }
  rt.process().remote_errors.store(1, std::memory_order_seq_cst);
  rt.ring(rt.process_index());
}

void soft_qp::flush_receives(nanos now) {
  if (receives_ended_ || now < flush_receives_at_)
    return;
  auto& rt = context_.rt();
  if (flush_anyway_at_ == never)
    flush_anyway_at_ = now + flush_patience;
  // In this order: who is not at work now finds ERR before it claims, and what it had finished is on the
  // list.
  const bool is_quiet = !is_at_work_on_queue_pair(rt.tables(), rt.process(), index_);
  recv_cq_.hurry(*this);
  recv_cq_.collect();
  const bool takes_posted = srq_ == nullptr && (is_quiet || now >= flush_anyway_at_);
  for (const auto& taken : receives().take_back(index_, takes_posted, is_quiet)) {
    const auto frees = frees_receive | taken.slot;
    const auto wr_id = receives()[taken.slot].wr_id;
    const bool is_marker =
        first_marker_ && static_cast<std::int32_t>(taken.ticket - *first_marker_) >= 0; // counters wrap
    if (!taken.is_done && rules_.suppresses_flush(facts_of_receive(taken.ticket, wr_id, 0), now, is_marker))
      continue;
    const auto c = taken.is_done ? make_receive_completion(taken.slot) : make_flushed_receive(wr_id, frees);
    if (!recv_cq_.push({&c, 1}))
      receives().release(taken.slot);
  }
  if (is_quiet) {
    receives_ended_ = true;
    flush_anyway_at_ = never;
    flush_receives_at_ = 0;
    if (srq_ != nullptr)
      raise(IBV_EVENT_QP_LAST_WQE_REACHED);
  } else {
    flush_receives_at_ = now + flush_period;
  }
  reschedule();
}

void soft_qp::drop_receives() {
  recv_cq_.collect();
  recv_cq_.purge(*this, true);
  receives().reclaim(index_, srq_ == nullptr);
  entry().receiving.store(0, std::memory_order_seq_cst);
  entry().signs.store(0, std::memory_order_seq_cst);
  receives_ended_ = told_established_ = false;
  first_marker_.reset();
  flush_anyway_at_ = never;
  flush_receives_at_ = 0;
}

void soft_qp::read_signs() {
  const auto signs = entry().signs.load(std::memory_order_seq_cst);
  if ((signs & layout::established) != 0 && !std::exchange(told_established_, true))
    raise(IBV_EVENT_COMM_EST);
}

} // namespace actor_rdma::verbs::soft
