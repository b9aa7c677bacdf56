// SPDX-License-Identifier: Apache-2.0
//
// Verbs behind rules: each entry point of the provider table is wrapped, so that a rule can make the call
// fail, take long or do nothing before the verb itself sees it. Without rules that is one load.
#pragma once

#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/rules/rule_book.hpp"

#include <cerrno>
#include <type_traits>
#include <utility>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// What rules make of a call on this context now; it has waited as long as they want.
[[nodiscard]] verb_verdict judge_call(ibv_context* context, const verb_facts& facts);
[[nodiscard]] inline verb_verdict judge_call(ibv_context* context, verb call, std::uint32_t qp_num = 0) {
  return judge_call(context, verb_facts{{}, call, qp_num});
}

/// The errno with which opening the device fails, or 0.
[[nodiscard]] int judge_open(soft_device& device);

/// How a call reports an errno.
enum class reports : std::uint8_t { as_result, minus_one, negative };

namespace detail {

template <class Handle>
ibv_context* context_of(Handle* handle) noexcept {
  if constexpr (std::is_same_v<Handle, ibv_context>)
    return handle;
  else
    return handle->context;
}
template <class Handle>
std::uint32_t qp_of(Handle* handle) noexcept {
  if constexpr (std::is_same_v<Handle, ibv_qp>)
    return handle->qp_num;
  else
    return 0;
}

template <verb Call, auto Function, reports How, class Type>
struct ruled;
template <verb Call, auto Function, reports How, class Result, class Handle, class... Rest>
struct ruled<Call, Function, How, Result (*)(Handle*, Rest...)> {
  static Result call(Handle* handle, Rest... rest) {
    const auto verdict = judge_call(context_of(handle), Call, qp_of(handle));
    if (verdict.error == 0)
      return Function(handle, std::forward<Rest>(rest)...);
    if constexpr (std::is_pointer_v<Result>) {
      errno = verdict.error;
      return nullptr;
    } else if constexpr (How == reports::minus_one) {
      errno = verdict.error;
      return -1;
    } else if constexpr (How == reports::negative) {
      return -verdict.error;
    } else {
      return verdict.error;
    }
  }
};

} // namespace detail

template <verb Call, auto Function, reports How = reports::as_result>
inline constexpr auto ruled = detail::ruled<Call, Function, How, decltype(Function)>::call;

/// As the unruled calls, with what rules add beyond an errno.
[[nodiscard]] ibv_mr* reg_mr_by_rules(ibv_pd* pd, void* addr, std::size_t length, int access,
                                      ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int));
[[nodiscard]] ibv_cq* create_cq_by_rules(ibv_context* context, int entries, void* user,
                                         ibv_comp_channel* channel, int vector,
                                         ibv_cq* (*create)(ibv_context*, int, void*, ibv_comp_channel*, int));
[[nodiscard]] int resize_cq_by_rules(ibv_cq* cq, int entries, int (*resize)(ibv_cq*, int));
[[nodiscard]] ibv_srq* create_srq_by_rules(ibv_pd* pd, ibv_srq_init_attr* wanted,
                                           ibv_srq* (*create)(ibv_pd*, ibv_srq_init_attr*));
[[nodiscard]] ibv_qp* create_qp_by_rules(ibv_pd* pd, ibv_qp_init_attr* wanted,
                                         ibv_qp* (*create)(ibv_pd*, ibv_qp_init_attr*));
[[nodiscard]] int modify_by_rules(ibv_qp* qp, ibv_qp_attr* wanted, int mask,
                                  int (*modify)(ibv_qp*, ibv_qp_attr*, int));
[[nodiscard]] int destroy_by_rules(ibv_qp* qp, int (*destroy)(ibv_qp*));
/// Posts up to the element at which a rule lets the call fail.
[[nodiscard]] int post_send_by_rules(soft_qp& qp, ibv_send_wr* first, ibv_send_wr** bad);
[[nodiscard]] int post_recv_by_rules(soft_qp& qp, ibv_recv_wr* first, ibv_recv_wr** bad);
[[nodiscard]] int post_srq_recv_by_rules(soft_srq& srq, ibv_recv_wr* first, ibv_recv_wr** bad);
/// Waits like ibv_get_async_event, but a rule that comes meanwhile ends it.
[[nodiscard]] int get_async_event_by_rules(ibv_context* context, ibv_async_event* out,
                                           int (*get)(ibv_context*, ibv_async_event*));
[[nodiscard]] int get_cq_event_by_rules(ibv_comp_channel* channel, ibv_cq** cq, void** user,
                                        int (*get)(ibv_comp_channel*, ibv_cq**, void**));

} // namespace actor_rdma::verbs::soft
