// SPDX-License-Identifier: Apache-2.0
// Attributes of each transition.
#include "actors/qp_connect.hpp"

#include "actors/device.hpp"
#include "actors/port_path.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

ibv_mtu mtu_value(std::uint32_t bytes) noexcept {
  if (bytes >= 4096)
    return IBV_MTU_4096;
  if (bytes >= 2048)
    return IBV_MTU_2048;
  if (bytes >= 1024)
    return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

constexpr std::uint8_t min_rnr_timer = 12; // 0.64 ms
constexpr std::uint8_t rnr_retry = 6;      // 7 would be endless

void keep_failure(qp_incarnation& qp, const base::expected<void>& outcome) {
  if (!outcome)
    qp.failure = outcome.error();
}

} // namespace

link_parameters parameters_of(const device& dev, const qp_connect& peer, std::uint8_t served_reads,
                              const settings& config) {
  link_parameters p;
  p.peer = peer.peer;
  p.local = peer.local;
  p.peer_port = peer.peer_port;
  p.port = dev.recipe().port;
  p.gid_index = dev.gid_index_of(peer.local);
  p.mtu = std::min(peer.local.mtu, peer.peer_port.mtu);
  p.max_dest_reads = served_reads;
  p.max_reads = std::min(peer.local.read_depth, peer.peer_port.read_depth);
  p.timeout = config.qp_timeout;
  p.retry_count = config.retry_count;
  return p;
}

void make_qp(const open_device& on, std::uint32_t depth, qp_incarnation& out) {
  ibv_qp_init_attr init{};
  init.send_cq = on.cq.get();
  init.recv_cq = on.cq.get();
  init.cap.max_send_wr = depth;
  init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 0;
  auto made = verbs::queue_pair::create(on.pd, init);
  if (!made) {
    out.failure = made.error();
    out.failure.what += fmt::format(" with {} send WRs", depth);
    if (const auto limits = on.ctx.query_device())
      out.failure.what +=
          fmt::format(", limits of the device: max_qp {}, max_qp_wr {}", limits->max_qp, limits->max_qp_wr);
    return;
  }
  out.pair = std::move(*made);
  out.send_wrs = std::min(depth, init.cap.max_send_wr);
  if (out.send_wrs < std::min(depth, 2u)) {
    out.failure = {
        base::reason::resource,
        "QP",
        on.recipe.name,
        {},
        {},
        fmt::format("a send queue of {} was asked for, and one of {} was made", depth, init.cap.max_send_wr)};
    return;
  }
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = 0;
  attr.port_num = on.recipe.port;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  keep_failure(out,
               out.pair.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

void connect_qp(qp_incarnation& qp, const link_parameters& link) {
  const auto layer = link_layer_of(link.local);
  const auto route = [&] {
    auto text = fmt::format("path MTU {} (our port {}, the peer's {}), from GID {} {} to {}", link.mtu,
                            link.local.mtu, link.peer_port.mtu,
                            link.gid_index ? std::to_string(*link.gid_index) : "?", gid_text(link.local.gid),
                            gid_text(link.peer_port.gid));
    if (layer == IBV_LINK_LAYER_INFINIBAND)
      text += fmt::format(", from LID {} to {} {} GRH", link.local.lid, link.peer_port.lid,
                          needs_grh(link.local, link.peer_port) ? "with" : "without");
    return text;
  };
  if (const auto theirs = link_layer_of(link.peer_port); theirs != layer) {
    qp.failure = {base::reason::unsupported,
                  "QP",
                  link.local.device,
                  {},
                  {},
                  fmt::format("our port's link layer is {}, and that of the peer's {} is {}",
                              link_layer_text(layer), link.peer_port.device, link_layer_text(theirs))};
    return;
  }
  if (!link.gid_index) {
    qp.failure = {base::reason::local_device,
                  "QP",
                  link.local.device,
                  {},
                  {},
                  "the port has lost the address that the peer was told; " + route()};
    return;
  }
  ibv_qp_attr rtr{};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = mtu_value(link.mtu);
  rtr.dest_qp_num = link.peer.qp_num;
  rtr.rq_psn = link.peer.psn & 0xffffff;
  rtr.max_dest_rd_atomic = link.max_dest_reads;
  rtr.min_rnr_timer = min_rnr_timer;
  rtr.ah_attr = address_handle(link.local, link.port, *link.gid_index, link.peer_port);
  auto outcome = qp.pair.modify(rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (!outcome) {
    outcome.error().what += "; " + route();
    return keep_failure(qp, outcome);
  }
  // The device may serve less than it was asked to, and does not say so by itself; more would be refused.
  if (link.max_dest_reads > 1)
    if (const auto served = qp.pair.query_served_reads())
      qp.served_reads = *served;
  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = qp.psn;
  rts.timeout = link.timeout;
  rts.retry_cnt = link.retry_count;
  rts.rnr_retry = rnr_retry;
  rts.max_rd_atomic = link.max_reads;
  keep_failure(qp, qp.pair.modify(rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

void move_to_error(qp_incarnation& qp) {
  if (qp.destroyed)
    return;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  keep_failure(qp, qp.pair.modify(attr, IBV_QP_STATE));
}

void destroy_qp(qp_incarnation& qp) {
  if (qp.destroyed || !qp.pair) {
    qp.destroyed = true;
    return;
  }
  const auto outcome = qp.pair.destroy();
  qp.destroyed = outcome.has_value();
  keep_failure(qp, outcome);
}

wr_end classify(ibv_wc_status status) noexcept {
  switch (status) {
  case IBV_WC_SUCCESS: return wr_end::success;
  case IBV_WC_WR_FLUSH_ERR: return wr_end::flushed;
  case IBV_WC_LOC_LEN_ERR:
  case IBV_WC_LOC_ACCESS_ERR: return wr_end::refused;
  case IBV_WC_LOC_PROT_ERR: return wr_end::no_reach;
  case IBV_WC_REM_ACCESS_ERR: return wr_end::no_access;
  case IBV_WC_RETRY_EXC_ERR:
  case IBV_WC_RNR_RETRY_EXC_ERR:
  case IBV_WC_RESP_TIMEOUT_ERR: return wr_end::error;
  // rxe calls valid requests invalid too, when packets of them were sent again.
  default: return wr_end::fault; // REM_INV_REQ_ERR, LOC_QP_OP_ERR, REM_OP_ERR, BAD_RESP_ERR, GENERAL_ERR, ...
  }
}

} // namespace actor_rdma::actors
