// SPDX-License-Identifier: Apache-2.0
// The verbs control path as a table of functions, so that the same code runs on the system's libibverbs and
// on the software NIC, chosen at run time. The data path needs no table: the inlines of <infiniband/verbs.h>
// go through ibv_context::ops. Nothing is ever linked with -libverbs, so a call that goes round the table is
// a link error and not a crash on somebody else's context.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs {

/// Entry points of one verbs implementation. Return conventions are libibverbs' own (ibv_modify_qp(3) and
/// friends: errno as result, or NULL / -1 with errno set). No member carries the ibv_ prefix, because
/// ibv_query_port and ibv_reg_mr are function-like macros. The table must outlive every object made through
/// it.
struct provider {
  const char* name = "";
  /// Devices of this implementation, or why there are none. The pointers stay valid as long as the table.
  std::function<base::expected<std::vector<ibv_device*>>()> list_devices;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;
  void (*ack_async_event)(ibv_async_event*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*) = nullptr;
  int (*query_gid)(ibv_context*, std::uint8_t, int, union ibv_gid*) = nullptr;
  /// Type (RoCE v1, v2, IB) and interface index of one GID; ENODATA for an empty slot.
  int (*query_gid_ex)(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*) = nullptr;
  /// Whether the network interface behind a GID is up; true where there is none (InfiniBand).
  bool (*interface_is_up)(ibv_context*, const ibv_gid_entry&) = nullptr;
  int (*query_pkey)(ibv_context*, std::uint8_t port, int index, std::uint16_t*) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel*) = nullptr;
  /// Closes the descriptor of one that refuses to be destroyed and is never used again. Not part of
  /// libibverbs.
  void (*abandon_comp_channel)(ibv_comp_channel*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*resize_cq)(ibv_cq*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  void (*ack_cq_events)(ibv_cq*, unsigned int) = nullptr;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*) = nullptr;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int) = nullptr;
  int (*query_srq)(ibv_srq*, ibv_srq_attr*) = nullptr;
  int (*destroy_srq)(ibv_srq*) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) = nullptr;
  int (*destroy_qp)(ibv_qp*) = nullptr;
  const char* (*wc_status_str)(ibv_wc_status) = nullptr;
  const char* (*event_type_str)(ibv_event_type) = nullptr;
};

/// The system's libibverbs by dlopen, or a sentence for the user that says why not. The table lives for ever.
base::expected<const provider*> system_provider();

} // namespace actor_rdma::verbs
