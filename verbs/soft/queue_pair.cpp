// SPDX-License-Identifier: Apache-2.0
//
// Birth, states and end of a queue pair.
#include "verbs/soft/queue_pair.hpp"

#include "verbs/soft/bond.hpp"
#include "verbs/soft/hazard.hpp"
#include "verbs/soft/qp_transitions.hpp"
#include "verbs/soft/shared_receive_queue.hpp"
#include "verbs/soft/tables.hpp"

#include <bit>
#include <cerrno>
#include <utility>

namespace actor_rdma::verbs::soft {

soft_qp::soft_qp(soft_context& owner, soft_pd& domain, const ibv_qp_init_attr& init, std::uint32_t index)
    : extended_qp{}, context_{owner}, pd_{domain}, send_cq_{soft_cq::of(init.send_cq)},
      recv_cq_{soft_cq::of(init.recv_cq)}, index_{index}, port_{&owner.device().entry()}, init_{init},
      rules_{owner.rt().rules(), owner.rt().tables(), owner.device().index(),
             entry().qpn.load(std::memory_order_relaxed)},
      srq_{init.srq == nullptr ? nullptr : &soft_srq::of(init.srq)}, own_receives_{owner.rt()},
      garbage_{owner.rt().random()}, receive_rules_{rules_}, receive_garbage_{garbage_()} {
  context = &owner.context;
  qp_context = init.qp_context;
  pd = &domain;
  send_cq = init.send_cq;
  recv_cq = init.recv_cq;
  qp_num = entry().qpn.load(std::memory_order_relaxed);
  handle = index;
  ibv_qp::state = IBV_QPS_RESET;
  qp_type = IBV_QPT_RC;
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
  ring_.allocate(init.cap.max_send_wr, init.cap.max_inline_data);
  send_cq_.users.fetch_add(1);
  recv_cq_.users.fetch_add(1);
  pd_.children.fetch_add(1);
  if (srq_ != nullptr)
    srq_->users.fetch_add(1);
  srq = init.srq;
  recv_cq_.add_receiver(*this);

  auto& e = entry();
  e.device.store(owner.device().index(), std::memory_order_relaxed);
  join_bond(owner.rt().tables(), owner.device().index(), slot_index());
  e.pd.store(pd_.handle, std::memory_order_relaxed);
  e.receive_cq.store(recv_cq_.index() + 1, std::memory_order_relaxed);
  if (srq_ != nullptr)
    e.receive_queue.store(srq_->receives().unit(), std::memory_order_relaxed);
  const auto generation = qp_generation(e.word.load(std::memory_order_relaxed));
  e.word.store(qp_word(generation, IBV_QPS_RESET), std::memory_order_seq_cst);
  owner.device().entry().open_qps.fetch_add(1, std::memory_order_relaxed);
  write_log(owner.rt().tables(), owner.rt().now(), log_kind::qp_created, owner.device().entry(), qp_num);
}

soft_qp::~soft_qp() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

// -- states
// ---------------------------------------------------------------------------------------------------------

std::uint32_t soft_qp::port_index() const noexcept {
  return static_cast<std::uint32_t>(port_ - context_.rt().tables().devices.data());
}

bool soft_qp::change_state(ibv_qp_state to) noexcept {
  auto word = entry().word.load(std::memory_order_seq_cst);
  // A reset begins another life: nothing that was sent to the old one may be taken for its own.
  const auto generation = qp_generation(word) + (to == IBV_QPS_RESET ? 1 : 0);
  const bool is_forced = to == IBV_QPS_RESET || to == IBV_QPS_ERR;
  do {
    if (!is_forced && !qp_is(word, current_state()))
      return false; // a peer moved us to ERR
  } while (!entry().word.compare_exchange_weak(word, qp_word(generation, to), std::memory_order_seq_cst));
  ibv_qp::state = to;
  return true;
}

int soft_qp::modify(const ibv_qp_attr& wanted, int mask) {
  auto& rt = context_.rt();
  auto to = IBV_QPS_RESET;
  {
    std::lock_guard lock{mutex_};
    if (retired_)
      return EINVAL;
    if (needs_reset_) {
      if (is_at_work_on_queue_pair(rt.tables(), rt.process(), index_))
        return EBUSY;
      drop_receives();
      needs_reset_ = false;
    }
    notice_remote_error(rt.now());
    const auto from = current_state();
    to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
    if ((mask & IBV_QP_CUR_STATE) != 0 && wanted.cur_qp_state != from)
      return EINVAL;
    if (const int error = check_transition(from, to, mask); error != 0)
      return error;
    if (to == IBV_QPS_ERR) {
      enter_error();
      flush(rt.now());
    } else if (to == IBV_QPS_RESET) {
      change_state(IBV_QPS_RESET);
      if (leaves_completions_)
        flush(rt.now());
      drop_work();
      is_hung_hard_ = false;
      if (!std::exchange(leaves_completions_, false))
        send_cq_.purge(*this);
      released_.store(posted_, std::memory_order_release);
      has_peer_ = false;
      give_back_reads();
      attributes_ = {};
    } else if (const int error = apply(wanted, mask); error != 0) {
      return error;
    } else {
      return to == from || change_state(to) ? 0 : EINVAL;
    }
  }
  // A peer that is in the middle of a copy on our behalf has not seen the change. Only when it is out of it
  // has the queue pair really stopped, which is what those who leave RTR or RTS this way rely on.
  const bool is_quiet = wait_for_queue_pair(rt.tables(), rt.process(), index_);
  std::lock_guard lock{mutex_};
  if (!retired_ && to == IBV_QPS_RESET) {
    needs_reset_ = !is_quiet;
    if (is_quiet)
      drop_receives();
  } else if (!retired_ && current_state() == IBV_QPS_ERR) {
    flush_receives_at_ = 0;
    flush_receives(rt.now());
  }
  return is_quiet ? 0 : EBUSY;
}

int soft_qp::apply(const ibv_qp_attr& wanted, int mask) {
  auto& e = entry();
  auto* const port = (mask & IBV_QP_PORT) != 0 ? context_.device().port_entry(wanted.port_num) : port_;
  if (port == nullptr)
    return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && wanted.pkey_index != 0)
    return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (wanted.path_mtu < IBV_MTU_256 || wanted.path_mtu > IBV_MTU_4096 ||
       128U << wanted.path_mtu > device().mtu.load(std::memory_order_relaxed)))
    return EINVAL;
  if ((mask & IBV_QP_TIMEOUT) != 0 && wanted.timeout > 31)
    return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && wanted.retry_cnt > 7)
    return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && wanted.rnr_retry > 7)
    return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && wanted.min_rnr_timer > 31)
    return EINVAL;
  const auto& limits = context_.device().limits();
  if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && wanted.max_rd_atomic > limits.max_qp_rd_atom) ||
      ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && wanted.max_dest_rd_atomic > limits.max_qp_rd_atom))
    return EINVAL;
  if ((mask & IBV_QP_AV) != 0)
    if (const int error = check_address_handle(device(), wanted.ah_attr); error != 0)
      return error;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && (wanted.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0 &&
      !context_.rt().memory().reserve(&context_.rt().tables().atomics[index_], sizeof(layout::atomic_entry)))
    return ENOMEM; // requesters will look there without asking
  // The last thing that may refuse: what is taken here would have to be given back.
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 &&
      !context_.device().allowances().reads.take(wanted.max_dest_rd_atomic, limits.max_res_rd_atom))
    return ENOMEM;
  if ((mask & IBV_QP_AV) != 0) {
    const auto& av = wanted.ah_attr;
    way_ = route_of(context_.rt().tables(), port_index(), av);
    // An address where nobody is does not fail here: on a real fabric neither.
    e.dest_path.store(path_to(context_.rt().tables(), way_), std::memory_order_relaxed);
    attributes_.ah_attr = av;
  }
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
    e.access.store(attributes_.qp_access_flags = wanted.qp_access_flags, std::memory_order_relaxed);
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    attributes_.path_mtu = wanted.path_mtu;
    mtu_shift_ = 7 + static_cast<std::uint32_t>(wanted.path_mtu);
    e.path_mtu.store(static_cast<std::uint16_t>(1U << mtu_shift_), std::memory_order_relaxed);
  }
  if ((mask & IBV_QP_DEST_QPN) != 0)
    e.dest_qpn.store(attributes_.dest_qp_num = wanted.dest_qp_num & 0xffffff, std::memory_order_relaxed);
  if ((mask & IBV_QP_RQ_PSN) != 0)
    e.expected_psn.store(attributes_.rq_psn = wanted.rq_psn & psn_mask, std::memory_order_relaxed);
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    e.max_dest_reads.store(attributes_.max_dest_rd_atomic = wanted.max_dest_rd_atomic,
                           std::memory_order_relaxed);
  if ((mask & IBV_QP_SQ_PSN) != 0)
    next_psn_ = attributes_.sq_psn = wanted.sq_psn & psn_mask;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    attributes_.max_rd_atomic = wanted.max_rd_atomic;
  if ((mask & IBV_QP_TIMEOUT) != 0)
    attributes_.timeout = wanted.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0)
    attributes_.retry_cnt = wanted.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0)
    attributes_.rnr_retry = wanted.rnr_retry;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
    e.rnr_timer.store(attributes_.min_rnr_timer = wanted.min_rnr_timer, std::memory_order_relaxed);
  if ((mask & IBV_QP_PORT) != 0)
    attributes_.port_num = wanted.port_num;
  if (port != port_) { // nothing was ever posted or received
    port_ = port;
    e.device.store(port_index(), std::memory_order_relaxed);
    rules_.is_of(port_index());
    receive_rules_.is_of(port_index());
    join_bond(context_.rt().tables(), port_index(), slot_index());
  }
  return 0;
}

void soft_qp::query(ibv_qp_attr& attributes, ibv_qp_init_attr& init) {
  std::lock_guard lock{mutex_};
  if (!retired_)
    notice_remote_error(context_.rt().now());
  attributes = attributes_;
  attributes.qp_state = current_state();
  attributes.cur_qp_state = attributes.qp_state;
  attributes.path_mig_state = IBV_MIG_MIGRATED;
  attributes.sq_psn = next_psn_;
  attributes.rq_psn = entry().expected_psn.load(std::memory_order_relaxed);
  attributes.cap = init_.cap;
  init = init_;
}

void soft_qp::give_back_reads() noexcept {
  context_.device().allowances().reads.give(std::exchange(attributes_.max_dest_rd_atomic, std::uint8_t{0}));
}

tier_counts soft_qp::tier_use() {
  std::lock_guard lock{mutex_};
  return tier_use_;
}

// -- the end
// --------------------------------------------------------------------------------------------------------

int soft_qp::retire(bool forced) {
  auto& rt = context_.rt();
  {
    std::lock_guard lock{mutex_};
    if (has_ended_)
      return 0;
    if (!retired_) {
      retired_ = true;
      const auto generation = qp_generation(entry().word.load(std::memory_order_seq_cst));
      entry().word.store((generation + 1) << 8, std::memory_order_seq_cst); // absent
      if (leaves_completions_) {
        flush(rt.now());
        send_cq_.orphan(*this);
      }
      drop_work();
      send_cq_.purge(*this);
      rt.remove_qp(index_);
    }
  }
  context_.async_events().drop(async_events_);
  if (!forced)
    async_events_.wait();
  if (!wait_for_queue_pair(rt.tables(), rt.process(), index_))
    return EBUSY;
  std::lock_guard lock{mutex_};
  if (std::exchange(has_ended_, true))
    return 0;
  drop_receives();
  recv_cq_.remove_receiver(*this);
  entry().receive_queue.store(0, std::memory_order_relaxed);
  own_receives_.close();
  if (srq_ != nullptr)
    srq_->users.fetch_sub(1);
  write_log(rt.tables(), rt.now(), log_kind::qp_destroyed, context_.device().entry(), qp_num);
  context_.device().entry().open_qps.fetch_sub(1, std::memory_order_relaxed);
  context_.device().allowances().qps.give(1);
  give_back_reads();
  release_queue_pair(rt.tables(), index_);
  send_cq_.users.fetch_sub(1);
  recv_cq_.users.fetch_sub(1);
  pd_.children.fetch_sub(1);
  return 0;
}

} // namespace actor_rdma::verbs::soft
