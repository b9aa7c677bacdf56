// SPDX-License-Identifier: Apache-2.0
//
// Posting: work requests are checked and copied into the ring, and, on a device that executes at once and has
// nothing in its way, executed there and then without looking at a clock.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace actor_rdma::verbs::soft {

/// Collects completions, so that the completion queue is locked once per several work requests.
class soft_qp::completion_batch {
public:
  explicit completion_batch(soft_qp& qp) : qp_{qp} {}

  [[nodiscard]] bool add(std::uint64_t wr) {
    if (!qp_.ring_[wr].is_signaled)
      return true;
    entries_[count_++] = qp_.make_completion(wr, IBV_WC_SUCCESS);
    return count_ < entries_.size() || flush();
  }
  [[nodiscard]] bool flush() { return qp_.send_cq_.push({entries_.data(), std::exchange(count_, 0)}); }

private:
  soft_qp& qp_;
  std::array<completion, 16> entries_;
  std::size_t count_ = 0;
};

int soft_qp::append(const ibv_send_wr& wr) {
  bool is_read = false;
  bool is_atomic = false;
  bool takes_receive = false;
  switch (wr.opcode) {
  case IBV_WR_RDMA_WRITE: break;
  case IBV_WR_RDMA_READ: is_read = true; break;
  case IBV_WR_RDMA_WRITE_WITH_IMM:
  case IBV_WR_SEND:
  case IBV_WR_SEND_WITH_IMM: takes_receive = true; break;
  case IBV_WR_ATOMIC_CMP_AND_SWP:
  case IBV_WR_ATOMIC_FETCH_AND_ADD: is_read = is_atomic = true; break;
  default: return EINVAL;
  }
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > init_.cap.max_send_sge)
    return EINVAL;
  if (posted_ - released_.load(std::memory_order_acquire) >= init_.cap.max_send_wr)
    return ENOMEM;
  auto& slot = ring_[posted_];
  slot.wr_id = wr.wr_id;
  slot.remote_addr = wr.wr.rdma.remote_addr;
  slot.rkey = wr.wr.rdma.rkey;
  slot.is_read = is_read;
  slot.is_atomic = is_atomic;
  slot.takes_receive = takes_receive;
  slot.opcode = static_cast<std::uint8_t>(wr.opcode);
  slot.imm_data = wr.imm_data;
  slot.is_solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  slot.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  slot.is_signaled = init_.sq_sig_all != 0 || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  slot.is_fenced = (wr.send_flags & IBV_SEND_FENCE) != 0;
  slot.is_packet = false;
  slot.num_sge = static_cast<std::uint8_t>(wr.num_sge);
  slot.status = IBV_WC_SUCCESS;
  std::uint64_t length = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    slot.sge[i] = wr.sg_list[i];
    length += wr.sg_list[i].length;
  }
  // What is too long to be a message fails when it is executed, as on hardware.
  slot.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
  if (is_atomic) { // the operands lie where further pieces would
    if (wr.num_sge != 1 || length != sizeof(std::uint64_t))
      return EINVAL;
    slot.remote_addr = wr.wr.atomic.remote_addr;
    slot.rkey = wr.wr.atomic.rkey;
    slot.sge[1].addr = wr.wr.atomic.compare_add;
    slot.sge[2].addr = wr.wr.atomic.swap;
  }
  if (slot.is_inline) {
    if (is_read || length > init_.cap.max_inline_data)
      return EINVAL;
    auto* to = ring_.inline_data(posted_);
    for (int i = 0; i < wr.num_sge; ++i) {
      std::memcpy(to, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length);
      to += wr.sg_list[i].length;
    }
  }
  ++posted_;
  return 0;
}

int soft_qp::post_send(ibv_send_wr* first, ibv_send_wr** bad) {
  auto& rt = context_.rt();
  std::lock_guard lock{mutex_};
  *bad = first;
  if (retired_ || (current_state() != IBV_QPS_RTS && current_state() != IBV_QPS_ERR))
    return context_.is_dead() ? EIO : EINVAL;
  const auto posted_before = posted_;
  int error = 0;
  for (; first != nullptr && error == 0; first = first->next) {
    *bad = first;
    error = append(*first);
  }
  if (posted_ == posted_before)
    return error;

  if (may_log_posts(rt.tables()) && logs_posts(rt.tables(), rt.now()))
    for (auto wr = posted_before; wr < posted_; ++wr)
      log(rt.now(), log_kind::posted, wr);
  if (!qp_is(entry().word.load(std::memory_order_seq_cst), IBV_QPS_RTS))
    notice_remote_error(rt.now());
  if (current_state() == IBV_QPS_ERR) {
    flush(rt.now(), true); // what is posted now, like what was there
    return error;
  }
  if (is_hung_) {
    swallow(rt.now(), is_hung_hard_);
    return error;
  }
  // Behind what was lost it is out of sequence: the peer says so, and that is answered by all of it.
  if (is_lost_ && !is_not_ready_ && attributes_.timeout == 0 && find_responder() && is_wire_open())
    go_back();
  copy_budget budget = budget_per_call;
  if (is_clear() && is_wire_open())
    run_straight(budget);
  if (sent_ == posted_ || current_state() != IBV_QPS_RTS)
    return error;
  const auto now = rt.now();
  for (auto wr = std::max(sent_, posted_before); wr < posted_; ++wr)
    ring_[wr].left_at = now;
  if (rt.is_virtual()) { // what is due happens when time advances
    (void)send(now);
    reschedule();
  } else if (done_ == sent_ || next_due() > now) {
    progress(now, budget);
  } else {
    reschedule(); // late: whoever polls catches up first, each step at its own time
  }
  return error;
}

bool soft_qp::is_clear() noexcept {
  const auto& own = device();
  return done_ == sent_ && !is_lost_ && !is_hung_ && !rules_.any() &&
         !is_paced(static_cast<nic_mode>(own.mode.load(std::memory_order_relaxed))) &&
         own.hang.load(std::memory_order_relaxed) == 0 && own.delay.load(std::memory_order_relaxed) == 0 &&
         ((has_peer_ && is_still_addressed()) || find_responder()) &&
         context_.rt().tables().devices[peer_.device].delay.load(std::memory_order_relaxed) == 0;
}

void soft_qp::run_straight(copy_budget& budget) {
  auto& rt = context_.rt();
  completion_batch batch{*this};
  std::uint64_t bytes = 0;
  std::uint32_t reads = 0; // that leave at one time
  bool has_room = true;
  auto failure = IBV_WC_SUCCESS;
  {
    execution at_work{rt.process()};
    while (sent_ < posted_ && budget > 0 && has_room) {
      auto& slot = ring_[sent_];
      slot.psn = next_psn_;
      slot.packets = packets_of(slot.length);
      if (slot.is_read) {
        slot.reads_ahead =
            slot.is_fenced
                ? 0
                : std::min<std::uint32_t>(reads, std::max<std::uint32_t>(attributes_.max_rd_atomic, 1) - 1);
        reads = slot.reads_ahead + 1;
      }
      failure = check_local(sent_);
      if (failure == IBV_WC_SUCCESS) {
        const auto result = execute(at_work, sent_, budget);
        if (result == verdict::unfinished || result == verdict::lost || result == verdict::not_ready ||
            result == verdict::asked)
          break; // the general way knows what to do about it
        failure = result == verdict::executed ? IBV_WC_SUCCESS : status_of(result);
      }
      next_psn_ = (next_psn_ + slot.packets) & psn_mask;
      ++sent_;
      ++landed_;
      if (failure != IBV_WC_SUCCESS)
        break;
      bytes += slot.length;
      has_room = batch.add(done_++);
    }
  }
  device().bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  if (!batch.flush() || !has_room)
    overrun();
  else if (failure != IBV_WC_SUCCESS)
    fail_head(failure, rt.now());
}

} // namespace actor_rdma::verbs::soft
