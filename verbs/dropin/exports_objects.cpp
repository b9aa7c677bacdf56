// SPDX-License-Identifier: Apache-2.0
//
// Exported: protection domains, memory, channels, completion queues, queue pairs.
#include "verbs/dropin/extended.hpp"
#include "verbs/dropin/library.hpp"
#include "verbs/soft/provider_table.hpp"

#include <cerrno>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace actor_rdma::verbs;
using dropin::nic;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return nic().alloc_pd(context);
}

int ibv_dealloc_pd(ibv_pd* pd) {
  return nic().dealloc_pd(pd);
}

// -- memory
// ---------------------------------------------------------------------------------------------------------

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                          static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned access) {
  // What is optional may be ignored, and some flags ask for nothing here: there are no windows to bind, and
  // pages are of any size.
  access &=
      ~(unsigned{IBV_ACCESS_OPTIONAL_RANGE} | unsigned{IBV_ACCESS_MW_BIND} | unsigned{IBV_ACCESS_HUGETLB});
  if (iova != reinterpret_cast<std::uintptr_t>(addr)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return nic().reg_mr(pd, addr, length, static_cast<int>(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

/// Its own codes as result, errno beside it.
int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_CMD;
}

int ibv_dereg_mr(ibv_mr* mr) {
  return nic().dereg_mr(mr);
}

// -- completions
// ----------------------------------------------------------------------------------------------------

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return nic().create_comp_channel(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return nic().destroy_comp_channel(channel);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector) {
  return nic().create_cq(context, entries, user, channel, vector);
}

int ibv_destroy_cq(ibv_cq* cq) {
  return nic().destroy_cq(cq);
}

int ibv_resize_cq(ibv_cq* cq, int entries) {
  return soft::resize_cq(cq, entries);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  return nic().get_cq_event(channel, cq, user);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  nic().ack_cq_events(cq, count);
}

// -- shared receive queues
// ------------------------------------------------------------------------------------------

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  return nic().create_srq(pd, wanted);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* wanted, int mask) {
  return nic().modify_srq(srq, wanted, mask);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  return nic().query_srq(srq, out);
}

int ibv_destroy_srq(ibv_srq* srq) {
  return nic().destroy_srq(srq);
}

// -- queue pairs
// ----------------------------------------------------------------------------------------------------

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  return nic().create_qp(pd, wanted);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  return nic().modify_qp(qp, wanted, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  return nic().query_qp(qp, attributes, mask, init);
}

int ibv_destroy_qp(ibv_qp* qp) {
  return nic().destroy_qp(qp);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return dropin::extended_interface(*qp);
}

/// Payload is moved with memmove or by the kernel: neither promises an order within a message.
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) {
  return 0;
}

/// Enhanced connection establishment is a matter between providers of one vendor.
int ibv_set_ece(ibv_qp*, ibv_ece* ece) {
  if (ece->vendor_id == 0)
    return 0;
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  *ece = {};
  return 0;
}

int ibv_attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return EOPNOTSUPP;
}

int ibv_detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return EOPNOTSUPP;
}

} // extern "C"
