// SPDX-License-Identifier: Apache-2.0
//
// Queries. None of them blocks or changes anything.
#include "verbs/soft/attributes.hpp"

#include "verbs/soft/addressing.hpp"
#include "verbs/soft/port_control.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/routing.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <endian.h>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::uint8_t phys_polling = 2; // as in sysfs' phys_state
constexpr std::uint8_t phys_link_up = 5;

/// As derived from the device's MAC address.
std::uint64_t guid_of(std::uint32_t device) {
  std::uint64_t guid = 0;
  const auto gid = make_gid(device, 0);
  std::memcpy(&guid, &gid.raw[8], sizeof guid);
  return guid;
}

} // namespace

int query_device(ibv_context* context, ibv_device_attr* out) {
  const auto& device = soft_context::of(context).device();
  const auto& limits = device.limits();
  ibv_device_attr a{};
  std::snprintf(a.fw_ver, sizeof a.fw_ver, "soft-1");
  a.node_guid = a.sys_image_guid = guid_of(device.index());
  a.max_mr_size = limits.max_mr_size;
  a.page_size_cap = 0xfffff000;
  a.vendor_id = 0x5246;
  a.vendor_part_id = 1;
  a.max_qp = static_cast<int>(limits.max_qp);
  a.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  a.device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID;
  a.max_sge = a.max_sge_rd = static_cast<int>(limits.max_sge);
  a.max_cq = static_cast<int>(limits.max_cq);
  a.max_cqe = static_cast<int>(limits.max_cqe);
  a.max_mr = static_cast<int>(limits.max_mr);
  a.max_pd = 1 << 16;
  a.max_qp_rd_atom = a.max_qp_init_rd_atom = static_cast<int>(limits.max_qp_rd_atom);
  a.max_res_rd_atom = static_cast<int>(limits.max_res_rd_atom);
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_srq = static_cast<int>(limits.max_srq);
  a.max_srq_wr = static_cast<int>(limits.max_srq_wr);
  a.max_srq_sge = a.max_sge;
  a.max_pkeys = 1;
  a.local_ca_ack_delay = 12;
  a.phys_port_cnt = static_cast<std::uint8_t>(device.ports());
  *out = a;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size) {
  const auto* const found = soft_context::of(context).device().port_entry(port);
  if (found == nullptr)
    return EINVAL;
  const auto& entry = *found;
  const bool is_up = entry.link_seq.load(std::memory_order_acquire) % 2 == 0;
  const bool is_ib = is_infiniband(entry);
  ibv_port_attr a{};
  a.state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a.max_mtu = IBV_MTU_4096;
  a.active_mtu = mtu_value(entry.mtu.load(std::memory_order_acquire));
  a.lid = static_cast<std::uint16_t>(entry.lid.load(std::memory_order_acquire));
  a.gid_tbl_len = static_cast<int>(layout::gids_per_port);
  a.port_cap_flags = IBV_PORT_CM_SUP;
  if (!is_ib)
    a.port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
  a.max_msg_sz = max_message_bytes;
  a.pkey_tbl_len = 1;
  a.max_vl_num = 1;
  a.active_width = width_code(entry.lanes.load(std::memory_order_acquire)).value_or(0);
  a.active_speed = static_cast<std::uint8_t>(entry.lane_speed.load(std::memory_order_acquire));
  a.phys_state = is_up ? phys_link_up : phys_polling;
  a.link_layer = static_cast<std::uint8_t>(entry.link_layer.load(std::memory_order_relaxed));
  if (is_ib) {
    a.sm_lid = subnet_manager_lid;
    a.subnet_timeout = 18; // 1.07 s, what subnet managers set
    if (is_up && a.lid == 0) {
      a.state = IBV_PORT_INIT; // the link is there, and no subnet manager has come by
      a.sm_lid = 0;
    }
  }
  std::memcpy(out, &a, std::min(size, sizeof a));
  return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  const auto* const entry = soft_context::of(context).device().port_entry(port);
  if (entry == nullptr || index < 0 || static_cast<std::uint32_t>(index) >= layout::gids_per_port) {
    errno = EINVAL;
    return -1;
  }
  *out = {}; // an empty place reads as zeros
  if (const auto row = read_gid(*entry, static_cast<std::uint32_t>(index)))
    *out = row->value;
  return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* out) {
  const auto* const entry = soft_context::of(context).device().port_entry(port);
  if (entry == nullptr || index >= layout::gids_per_port)
    return EINVAL;
  const auto row = read_gid(*entry, index);
  if (!row)
    return ENODATA;
  *out = {};
  out->gid = row->value;
  out->gid_index = index;
  out->port_num = port;
  out->gid_type = row->type;
  out->ndev_ifindex = row->interface_index;
  return 0;
}

bool interface_is_up(ibv_context* context, const ibv_gid_entry& gid) {
  const auto* const entry = soft_context::of(context).device().port_entry(gid.port_num);
  const auto row = entry != nullptr ? read_gid(*entry, gid.gid_index) : std::nullopt;
  return row && row->interface_up;
}

int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* out) {
  if (soft_context::of(context).device().port_entry(port) == nullptr || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *out = 0xffff; // full membership of the default partition, the same in either byte order
  return 0;
}

const char* wc_status_name(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> names{"success",
                                                     "local length error",
                                                     "local QP operation error",
                                                     "local EE context operation error",
                                                     "local protection error",
                                                     "Work Request Flushed Error",
                                                     "memory management operation error",
                                                     "bad response error",
                                                     "local access error",
                                                     "remote invalid request error",
                                                     "remote access error",
                                                     "remote operation error",
                                                     "transport retry counter exceeded",
                                                     "RNR retry counter exceeded",
                                                     "local RDD violation error",
                                                     "remote invalid RD request",
                                                     "aborted error",
                                                     "invalid EE context number",
                                                     "invalid EE context state",
                                                     "fatal error",
                                                     "response timeout error",
                                                     "general error",
                                                     "TM error",
                                                     "TM software rendezvous"};
  const auto i = static_cast<std::size_t>(status);
  return i < names.size() ? names[i] : "unknown";
}

const char* event_type_name(ibv_event_type type) {
  switch (type) {
  case IBV_EVENT_CQ_ERR: return "CQ error";
  case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
  case IBV_EVENT_QP_REQ_ERR: return "invalid request local work queue error";
  case IBV_EVENT_COMM_EST: return "communication established";
  case IBV_EVENT_SRQ_ERR: return "SRQ catastrophic error";
  case IBV_EVENT_SRQ_LIMIT_REACHED: return "SRQ limit reached";
  case IBV_EVENT_QP_LAST_WQE_REACHED: return "last WQE reached";
  case IBV_EVENT_QP_ACCESS_ERR: return "local access violation work queue error";
  case IBV_EVENT_PORT_ACTIVE: return "port active";
  case IBV_EVENT_PORT_ERR: return "port error";
  case IBV_EVENT_GID_CHANGE: return "GID table change";
  case IBV_EVENT_LID_CHANGE: return "LID change";
  case IBV_EVENT_PKEY_CHANGE: return "P_Key change";
  case IBV_EVENT_SM_CHANGE: return "SM change";
  case IBV_EVENT_CLIENT_REREGISTER: return "client reregistration";
  case IBV_EVENT_DEVICE_FATAL: return "local catastrophic error";
  default: return "unknown";
  }
}

} // namespace actor_rdma::verbs::soft
