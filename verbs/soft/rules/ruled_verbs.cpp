// SPDX-License-Identifier: Apache-2.0
//
// Asking rules about calls, and the calls for which they know more than an errno.
#include "verbs/soft/rules/ruled_verbs.hpp"

#include "verbs/soft/shared_receive_queue.hpp"

namespace actor_rdma::verbs::soft {

namespace {

/// Of nothing nothing, and at least one of the rest.
template <class Number>
constexpr Number half_of(Number asked) noexcept {
  return asked > 1 ? static_cast<Number>(asked / 2) : asked;
}

/// `Wr` is ibv_send_wr or ibv_recv_wr: the list is cut before the element that is to fail.
template <class Wr, class Post>
int post_by_rules(ibv_context* context, verb call, std::uint32_t qp_num, Wr* first, Wr** bad, Post post) {
  Wr* last = nullptr;
  for (auto* wr = first; wr != nullptr; last = wr, wr = wr->next) {
    const int error = judge_call(context, call, qp_num).error;
    if (error == 0)
      continue;
    if (last != nullptr) {
      last->next = nullptr;
      const int before = post(first, bad);
      last->next = wr;
      if (before != 0)
        return before;
    }
    *bad = wr;
    return error;
  }
  return post(first, bad);
}

/// Repeats a call that a change of the rules woke up, once they were asked again.
template <class Get>
int wait_by_rules(ibv_context* context, verb call, Get get) {
  auto& c = soft_context::of(context);
  auto& rt = c.rt();
  // DEVICE_FATAL itself, which may be about to come, goes before every error that the loss makes; the device
  // may die anywhere in here. Asked in this order, since it is raised before it counts as told.
  const auto is_fatal_due = [&] {
    return call == verb::get_async_event && (c.is_dead() || c.outlived_its_device()) &&
           (!c.has_told_loss() || c.async_events().has_any());
  };
  if (is_fatal_due())
    return get();
  if (const int error = judge_call(context, call).error; error != 0) {
    if (is_fatal_due())
      return get();
    errno = error;
    return -1;
  }
  const int result = get();
  if (result != 0 && c.has_told_loss()) { // it died while this waited
    if (is_fatal_due())
      return get();
    errno = EIO;
    return -1;
  }
  const auto device = c.device().index();
  if (result == 0 || errno != EINTR || !rt.rules().is_dead(rt.now(), device, call))
    return result;
  c.wake_waiting_calls(); // for the next one that looks at the descriptor
  const int error = judge_call(context, call).error;
  errno = error != 0 ? error : EINTR;
  return -1;
}

} // namespace

verb_verdict judge_call(ibv_context* context, const verb_facts& facts) {
  auto& c = soft_context::of(context);
  auto& rt = c.rt();
  if (c.is_dead() && facts.call != verb::close_device) {
    verb_verdict dead;
    dead.error = c.die() == 0 ? EIO : EBUSY; // EIO says that no byte moves any more
    return dead;
  }
  if (rt.rules().epoch() == 0 || rt.is_forked_child())
    return {};
  const auto verdict = rt.rules().judge(rt.now(), c.device().index(), facts);
  if (verdict.takes != 0)
    rt.take_time(verdict.takes);
  return verdict;
}

int judge_open(soft_device& device) {
  auto& rt = device.rt();
  const auto verdict = rt.rules().judge(rt.now(), device.index(), verb_facts{{}, verb::open_device});
  if (verdict.takes != 0)
    rt.take_time(verdict.takes);
  return verdict.error;
}

ibv_mr* reg_mr_by_rules(ibv_pd* pd, void* addr, std::size_t length, int access,
                        ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int)) {
  const auto verdict = judge_call(pd->context, {{}, verb::reg_mr, 0, 0, 0, length});
  if (verdict.error == 0)
    return reg_mr(pd, addr, length, access);
  errno = verdict.error;
  return nullptr;
}

ibv_cq* create_cq_by_rules(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                           int vector, ibv_cq* (*create)(ibv_context*, int, void*, ibv_comp_channel*, int)) {
  const auto verdict = judge_call(context, verb::create_cq);
  if (verdict.error == 0)
    return create(context, verdict.is_half ? half_of(entries) : entries, user, channel, vector);
  errno = verdict.error;
  return nullptr;
}

int resize_cq_by_rules(ibv_cq* cq, int entries, int (*resize)(ibv_cq*, int)) {
  const auto verdict = judge_call(cq->context, verb::resize_cq);
  return verdict.error != 0 ? verdict.error : resize(cq, verdict.is_half ? half_of(entries) : entries);
}

ibv_srq* create_srq_by_rules(ibv_pd* pd, ibv_srq_init_attr* wanted,
                             ibv_srq* (*create)(ibv_pd*, ibv_srq_init_attr*)) {
  const auto verdict = judge_call(pd->context, verb::create_srq);
  if (verdict.error != 0) {
    errno = verdict.error;
    return nullptr;
  }
  if (verdict.is_half)
    wanted->attr.max_wr = half_of(wanted->attr.max_wr);
  return create(pd, wanted);
}

ibv_qp* create_qp_by_rules(ibv_pd* pd, ibv_qp_init_attr* wanted,
                           ibv_qp* (*create)(ibv_pd*, ibv_qp_init_attr*)) {
  const auto verdict = judge_call(pd->context, verb::create_qp);
  if (verdict.error != 0) {
    errno = verdict.error;
    return nullptr;
  }
  if (verdict.is_half) {
    auto& cap = wanted->cap; // what is written there is what there is
    for (auto* const of : {&cap.max_send_wr, &cap.max_recv_wr, &cap.max_send_sge, &cap.max_recv_sge})
      *of = half_of(*of);
    cap.max_inline_data /= 2;
  }
  return create(pd, wanted);
}

int modify_by_rules(ibv_qp* qp, ibv_qp_attr* wanted, int mask, int (*modify)(ibv_qp*, ibv_qp_attr*, int)) {
  const auto from = static_cast<std::uint32_t>(qp->state);
  const auto to = (mask & IBV_QP_STATE) != 0 ? static_cast<std::uint32_t>(wanted->qp_state) : from;
  const auto verdict =
      judge_call(qp->context, {{}, verb::modify_qp, qp->qp_num, 1U << (from & 31), 1U << (to & 31)});
  if (verdict.error != 0 || verdict.is_ignored)
    return verdict.error;
  if (verdict.leaves_cqes && to == IBV_QPS_RESET)
    soft_qp::of(qp).leave_completions();
  if (!verdict.is_half)
    return modify(qp, wanted, mask);
  auto less = *wanted; // the caller's own stays as it was: only a query tells
  less.max_rd_atomic = half_of(less.max_rd_atomic);
  less.max_dest_rd_atomic = half_of(less.max_dest_rd_atomic);
  return modify(qp, &less, mask);
}

int destroy_by_rules(ibv_qp* qp, int (*destroy)(ibv_qp*)) {
  const auto verdict = judge_call(qp->context, verb::destroy_qp, qp->qp_num);
  if (verdict.error != 0)
    return verdict.error;
  if (verdict.leaves_cqes)
    soft_qp::of(qp).leave_completions();
  return destroy(qp);
}

int post_send_by_rules(soft_qp& qp, ibv_send_wr* first, ibv_send_wr** bad) {
  return post_by_rules(qp.context, verb::post_send, qp.qp_num, first, bad,
                       [&](ibv_send_wr* from, ibv_send_wr** failed) { return qp.post_send(from, failed); });
}

int post_recv_by_rules(soft_qp& qp, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return post_by_rules(qp.context, verb::post_recv, qp.qp_num, first, bad,
                       [&](ibv_recv_wr* from, ibv_recv_wr** failed) { return qp.post_recv(from, failed); });
}

int post_srq_recv_by_rules(soft_srq& srq, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return post_by_rules(srq.context, verb::post_srq_recv, 0, first, bad,
                       [&](ibv_recv_wr* from, ibv_recv_wr** failed) { return srq.post(from, failed); });
}

int get_async_event_by_rules(ibv_context* context, ibv_async_event* out,
                             int (*get)(ibv_context*, ibv_async_event*)) {
  return wait_by_rules(context, verb::get_async_event, [&] { return get(context, out); });
}

int get_cq_event_by_rules(ibv_comp_channel* channel, ibv_cq** cq, void** user,
                          int (*get)(ibv_comp_channel*, ibv_cq**, void**)) {
  return wait_by_rules(channel->context, verb::get_cq_event, [&] { return get(channel, cq, user); });
}

} // namespace actor_rdma::verbs::soft
