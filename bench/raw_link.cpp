// SPDX-License-Identifier: Apache-2.0
// Opening, connecting and closing without a transport.
#include "bench/raw_link.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr std::uint8_t port_number = 1;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::uint32_t first_psn = 4711;

verbs::soft::nic_mode mode_of(const std::string& name) {
  if (name == "paced")
    return verbs::soft::nic_mode::paced;
  return name == "null" ? verbs::soft::nic_mode::null : verbs::soft::nic_mode::immediate;
}

bool is_better(const verbs::gid_entry& a, const verbs::gid_entry& b) {
  const auto rank = [](const verbs::gid_entry& g) {
    const bool is_link_local = g.gid.raw[0] == 0xfe && (g.gid.raw[1] & 0xc0) == 0x80;
    return (g.type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0) + (is_link_local ? 0 : 1);
  };
  return rank(a) > rank(b);
}

base::expected<void> move_to(verbs::queue_pair& qp, ibv_qp_attr attr, ibv_qp_state state, int mask) {
  attr.qp_state = state;
  return qp.modify(attr, mask | IBV_QP_STATE);
}

template <class Object>
base::expected<void> keep(Object& in, base::expected<Object> made) {
  if (!made)
    return base::fail(made.error());
  in = std::move(*made);
  return {};
}

} // namespace

std::vector<verbs::soft::device_options> soft_devices(const settings& what) {
  std::vector<verbs::soft::device_options> all(what.nics);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = fmt::format("soft{}", i);
    all[i].mode = mode_of(what.nic_mode);
    all[i].rate_gbit_s = what.rate_gbit_s;
    all[i].latency = what.latency;
    all[i].link_layer = verbs::soft::parse_link_layer(what.link_layer).value_or(all[i].link_layer);
  }
  return all;
}

base::expected<void> raw_link::end::open(const verbs::provider& table, ibv_device* device,
                                         std::span<std::byte> memory, const settings& what) {
  auto done = keep(ctx, verbs::context::open(table, device));
  if (done)
    done = keep(pd, verbs::protection_domain::alloc(ctx));
  if (done)
    done = keep(cq, verbs::completion_queue::create(ctx, static_cast<int>(what.qps * (what.send_queue + 2)),
                                                    no_channel));
  if (done)
    done = keep(mr, verbs::memory_region::reg(pd, memory.data(), memory.size(), all_access));
  for (std::uint32_t i = 0; done && i < what.qps; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq.get();
    init.cap.max_send_wr = what.send_queue;
    init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    auto made = verbs::queue_pair::create(pd, init);
    if (!made)
      return base::fail(made.error());
    ibv_qp_attr attr{};
    attr.port_num = port_number;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    done = move_to(*made, attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    qps.push_back(std::move(*made));
  }
  if (!done)
    return done;
  const auto attributes = ctx.query_port(port_number);
  const auto gids = ctx.query_gids(port_number);
  if (!attributes || !gids)
    return base::fail(attributes ? gids.error() : attributes.error());
  if (gids->empty())
    return base::fail(base::reason::local_device, "bench", ctx.name() + " has no GID");
  port = *attributes;
  gid = *std::min_element(gids->begin(), gids->end(), is_better);
  return {};
}

base::expected<void> raw_link::end::connect(std::size_t qp, const end& peer) {
  ibv_qp_attr rtr{};
  rtr.path_mtu = std::min(port.active_mtu, peer.port.active_mtu);
  rtr.dest_qp_num = peer.qps[qp].number();
  rtr.rq_psn = first_psn;
  rtr.max_dest_rd_atomic = options{}.read_depth;
  rtr.min_rnr_timer = 12;
  // Both ends are in one subnet, where InfiniBand needs no more than the LID.
  rtr.ah_attr.is_global =
      port.link_layer != IBV_LINK_LAYER_INFINIBAND || (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  rtr.ah_attr.grh.dgid = peer.gid.gid;
  rtr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid.index);
  rtr.ah_attr.grh.hop_limit = 64;
  rtr.ah_attr.dlid = peer.port.lid;
  rtr.ah_attr.port_num = port_number;
  auto done = move_to(qps[qp], rtr, IBV_QPS_RTR,
                      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (!done)
    return done;
  ibv_qp_attr rts{};
  rts.sq_psn = first_psn;
  rts.timeout = options{}.qp_timeout;
  rts.retry_cnt = options{}.retry_count;
  rts.rnr_retry = 6;
  rts.max_rd_atomic = options{}.read_depth;
  return move_to(qps[qp], rts, IBV_QPS_RTS,
                 IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_MAX_QP_RD_ATOMIC);
}

base::expected<void> raw_link::end::close() {
  base::expected<void> first;
  const auto destroy = [&](auto& object) {
    if (!object)
      return;
    if (auto done = object.destroy(); !done && first)
      first = std::move(done);
  };
  for (auto& qp : qps)
    destroy(qp);
  destroy(mr);
  destroy(cq);
  destroy(pd);
  destroy(ctx);
  return first;
}

base::expected<std::unique_ptr<raw_link>> raw_link::open(const settings& what, run_memory memory,
                                                         const std::shared_ptr<verbs::soft::fabric>& net) {
  std::unique_ptr<raw_link> link(new raw_link);
  const verbs::provider* near_table = nullptr;
  const verbs::provider* far_table = nullptr;
  if (net != nullptr) {
    for (auto [host, name] :
         {std::pair{&link->near_host_, what.soft_host}, std::pair{&link->far_host_, std::string("target")}}) {
      auto attached = net->attach(name, soft_devices(what));
      if (!attached)
        return base::fail(attached.error());
      *host = std::move(*attached);
    }
    near_table = &link->near_host_->verbs();
    far_table = &link->far_host_->verbs();
  } else {
    auto table = verbs::system_provider();
    if (!table)
      return base::fail(table.error());
    near_table = far_table = *table;
  }
  const auto near_devices = near_table->list_devices();
  const auto far_devices = far_table->list_devices();
  if (!near_devices || !far_devices)
    return base::fail(near_devices ? far_devices.error() : near_devices.error());
  for (std::size_t i = 0; i < near_devices->size(); ++i) {
    auto& r = link->rails_.emplace_back();
    auto done = r.near.open(*near_table, (*near_devices)[i], memory.local, what);
    if (done)
      done = r.far.open(*far_table, (*far_devices)[i], memory.peer, what);
    for (std::size_t q = 0; done && q < what.qps; ++q) {
      done = r.far.connect(q, r.near);
      if (done)
        done = r.near.connect(q, r.far);
    }
    if (!done)
      return base::fail(done.error());
  }
  return link;
}

raw_link::~raw_link() {
  for (auto& r : rails_)
    for (auto* e : {&r.near, &r.far})
      if (const auto closed = e->close(); !closed)
        base::log(base::level::warn, "bench", "{}", closed.error().to_string());
}

} // namespace actor_rdma::bench
