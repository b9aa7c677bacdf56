// SPDX-License-Identifier: Apache-2.0
//
// Asking rules about calls, and the calls for which they know more than an errno.
#include "verbs/soft/rules/ruled_verbs.hpp"

#include "verbs/soft/shared_receive_queue.hpp"

namespace actor_rdma::verbs::soft {

namespace {

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

verb_verdict judge_call(ibv_context* context, verb call, std::uint32_t qp_num, std::uint32_t from,
                        std::uint32_t to) {
  auto& c = soft_context::of(context);
  auto& rt = c.rt();
  if (c.is_dead() && call != verb::close_device) {
    verb_verdict dead;
    dead.error = c.die() == 0 ? EIO : EBUSY; // EIO says that no byte moves any more
    return dead;
  }
  if (rt.rules().epoch() == 0 || rt.is_forked_child())
    return {};
  const auto verdict = rt.rules().judge(rt.now(), c.device().index(), verb_facts{{}, call, qp_num, from, to});
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

int modify_by_rules(ibv_qp* qp, ibv_qp_attr* wanted, int mask, int (*modify)(ibv_qp*, ibv_qp_attr*, int)) {
  const auto from = static_cast<std::uint32_t>(qp->state);
  const auto to = (mask & IBV_QP_STATE) != 0 ? static_cast<std::uint32_t>(wanted->qp_state) : from;
  const auto verdict =
      judge_call(qp->context, verb::modify_qp, qp->qp_num, 1U << (from & 31), 1U << (to & 31));
  if (verdict.error != 0 || verdict.is_ignored)
    return verdict.error;
  if (verdict.leaves_cqes && to == IBV_QPS_RESET)
    soft_qp::of(qp).leave_completions();
  return modify(qp, wanted, mask);
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
