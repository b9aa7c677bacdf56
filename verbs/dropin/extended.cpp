// SPDX-License-Identifier: Apache-2.0
//
// The operations around a context.
#include "verbs/dropin/extended.hpp"

#include "verbs/dropin/library.hpp"
#include "verbs/soft/queue_pair.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <sched.h>

namespace actor_rdma::verbs::dropin {

namespace {

std::nullptr_t refuse(int error) noexcept {
  errno = error;
  return nullptr;
}

/// The NIC's own, which every context has.
std::atomic<int (*)(ibv_cq*, int, ibv_wc*)> nic_poll{nullptr};

/// Who polls in a loop on a machine with fewer cores than loops keeps his peer from doing what he waits for.
int poll_and_yield(ibv_cq* cq, int limit, ibv_wc* out) {
  thread_local unsigned empty_polls = 0;
  const int n = nic_poll.load(std::memory_order_relaxed)(cq, limit, out);
  if (n != 0) {
    empty_polls = 0;
  } else if (const auto limit_of_them = yield_after(); limit_of_them != 0 && ++empty_polls >= limit_of_them) {
    empty_polls = 0;
    ::sched_yield();
  }
  return n;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size) {
  if (input != nullptr && input->comp_mask != 0)
    return EINVAL;
  if (size < offsetof(ibv_device_attr_ex, comp_mask) + sizeof out->comp_mask)
    return EINVAL;
  ibv_device_attr_ex a{};
  if (const int error = nic().query_device(context, &a.orig_attr); error != 0)
    return error;
  a.completion_timestamp_mask = UINT64_MAX;
  a.hca_core_clock = 1'000'000; // kHz: the raw clock counts nanoseconds
  a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
  a.phys_port_cnt_ex = a.orig_attr.phys_port_cnt;
  std::memset(out, 0, size);
  std::memcpy(out, &a, std::min(size, sizeof a));
  return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0)
    return EINVAL;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  values->raw_clock = now;
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  constexpr std::uint32_t known_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t known_flags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  const bool has_flags = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((wanted->comp_mask & ~known_mask) != 0 || (has_flags && (wanted->flags & ~known_flags) != 0) ||
      (wanted->wc_flags & ~completion_fields()) != 0)
    return refuse(EOPNOTSUPP);
  auto* const cq = nic().create_cq(context, static_cast<int>(wanted->cqe), wanted->cq_context,
                                   wanted->channel, static_cast<int>(wanted->comp_vector));
  if (cq == nullptr)
    return nullptr;
  add_extended_interface(*cq, has_flags && (wanted->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0);
  return &soft::soft_cq::of(cq).ex();
}

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* wanted) {
  constexpr std::uint32_t known_mask =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto mask = wanted->comp_mask;
  if ((mask & ~known_mask) != 0 || ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted->create_flags != 0))
    return refuse(EOPNOTSUPP);
  if ((mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted->pd == nullptr)
    return refuse(EINVAL);
  const bool has_operations = (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (has_operations && (wanted->send_ops_flags & ~send_operations()) != 0)
    return refuse(EOPNOTSUPP);
  ibv_qp_init_attr plain{};
  static_assert(offsetof(ibv_qp_init_attr_ex, sq_sig_all) == offsetof(ibv_qp_init_attr, sq_sig_all));
  std::memcpy(&plain, wanted, offsetof(ibv_qp_init_attr, sq_sig_all) + sizeof plain.sq_sig_all);
  auto* const qp = nic().create_qp(wanted->pd, &plain);
  if (qp == nullptr)
    return nullptr;
  wanted->cap = plain.cap;
  if (has_operations)
    add_extended_interface(*qp);
  return qp;
}

} // namespace

void extend(verbs_context& context) noexcept {
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.create_cq_ex = create_cq_ex;
  context.create_qp_ex = create_qp_ex;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  nic_poll.store(context.context.ops.poll_cq, std::memory_order_relaxed);
  context.context.ops.poll_cq = poll_and_yield;
}

} // namespace actor_rdma::verbs::dropin
