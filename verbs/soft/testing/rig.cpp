// SPDX-License-Identifier: Apache-2.0
//
// The rig behind the NIC's tests.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <thread>

namespace actor_rdma::verbs::soft::testing {

std::unique_ptr<end> end::open(host& on, std::size_t device, qp_options options, std::byte* shared_memory) {
  const auto devices = on.verbs().list_devices();
  REQUIRE(devices);
  return open(on.verbs(), devices->at(device), options, shared_memory);
}

std::unique_ptr<end> end::open(const provider& table, ibv_device* device, qp_options options,
                               std::byte* shared_memory) {
  auto e = std::make_unique<end>();
  e->options = options;
  auto ctx = context::open(table, device);
  REQUIRE(ctx);
  e->ctx = std::move(*ctx);
  e->pd = std::move(*protection_domain::alloc(e->ctx));
  e->channel = std::move(*completion_channel::create(e->ctx));
  e->cq = std::move(*completion_queue::create(e->ctx, options.cq_entries, e->channel));
  e->memory = shared_memory;
  if (shared_memory == nullptr) {
    e->own_memory.resize(buffer_bytes);
    e->memory = e->own_memory.data();
  }
  auto mr = memory_region::reg(e->pd, e->memory, buffer_bytes, all_access);
  REQUIRE(mr);
  e->mr = std::move(*mr);
  e->lkey = e->mr.lkey();
  e->rkey = e->mr.rkey();
  e->make_qp();
  return e;
}

end::~end() {
  // Children before parents; the members' own order would do the opposite.
  (void)qp.destroy();
  (void)mr.destroy();
  (void)cq.destroy();
  (void)channel.destroy();
  (void)pd.destroy();
  (void)ctx.destroy();
}

void end::make_qp() {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap = {options.max_send_wr, options.max_recv_wr, options.max_sge, options.max_sge, options.max_inline};
  init.srq = srq;
  init.sq_sig_all = options.all_signaled ? 1 : 0;
  auto made = queue_pair::create(pd, init);
  REQUIRE(made);
  qp = std::move(*made);
}

address end::where() const {
  address a;
  const auto gids = ctx.query_gids(1);
  REQUIRE(gids);
  for (const auto& entry : *gids)
    if (entry.type == IBV_GID_TYPE_ROCE_V2 ||
        (entry.type == IBV_GID_TYPE_IB && entry.index == options.gid_index))
      a.gid = entry.gid;
  const auto port = ctx.query_port(1);
  REQUIRE(port);
  a.lid = port->lid;
  a.qpn = qp.number();
  a.psn = options.psn;
  a.addr = reinterpret_cast<std::uintptr_t>(memory);
  a.rkey = rkey;
  return a;
}

int end::to_init() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = static_cast<unsigned>(options.access);
  const auto done = qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return done ? 0 : done.error().sys_errno;
}

int end::to_rtr(const address& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = options.mtu;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = options.reads;
  attr.min_rnr_timer = options.rnr_timer;
  attr.ah_attr.is_global = options.grh ? 1 : 0;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = options.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  const auto done = qp.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return done ? 0 : done.error().sys_errno;
}

int end::to_rts() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = options.psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.reads;
  const auto done = qp.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return done ? 0 : done.error().sys_errno;
}

void end::connect(const address& peer) {
  REQUIRE(to_init() == 0);
  REQUIRE(to_rtr(peer) == 0);
  REQUIRE(to_rts() == 0);
}

int end::post(std::span<ibv_send_wr> chain, std::size_t* accepted) {
  for (std::size_t i = 0; i + 1 < chain.size(); ++i)
    chain[i].next = &chain[i + 1];
  chain.back().next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp.get(), chain.data(), &bad);
  if (accepted != nullptr)
    *accepted = error == 0 ? chain.size() : static_cast<std::size_t>(bad - chain.data());
  return error;
}

namespace {
ibv_send_wr make_wr(std::uint64_t wr_id, ibv_sge& sge, ibv_wr_opcode opcode, const address& peer,
                    std::uint64_t remote, bool signaled) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
  wr.wr.rdma.remote_addr = peer.addr + remote;
  wr.wr.rdma.rkey = peer.rkey;
  return wr;
}
} // namespace

int end::write(std::uint64_t wr_id, const address& to, std::uint64_t local, std::uint64_t remote,
               std::uint32_t length, bool signaled) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory) + local, length, lkey};
  auto wr = make_wr(wr_id, sge, IBV_WR_RDMA_WRITE, to, remote, signaled);
  return post({&wr, 1});
}

int end::read(std::uint64_t wr_id, const address& from, std::uint64_t local, std::uint64_t remote,
              std::uint32_t length) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory) + local, length, lkey};
  auto wr = make_wr(wr_id, sge, IBV_WR_RDMA_READ, from, remote, true);
  return post({&wr, 1});
}

int end::receive(std::uint64_t wr_id, std::uint64_t local, std::uint32_t length) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory) + local, length, lkey};
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp.get(), &wr, &bad);
}

int end::send(std::uint64_t wr_id, std::uint64_t local, std::uint32_t length, ibv_wr_opcode opcode,
              std::uint32_t imm, unsigned flags) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory) + local, length, lkey};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.imm_data = imm;
  return post({&wr, 1});
}

int end::write_imm(std::uint64_t wr_id, const address& to, std::uint64_t local, std::uint64_t remote,
                   std::uint32_t length, std::uint32_t imm) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory) + local, length, lkey};
  auto wr = make_wr(wr_id, sge, IBV_WR_RDMA_WRITE_WITH_IMM, to, remote, true);
  wr.imm_data = imm;
  return post({&wr, 1});
}

std::vector<ibv_wc> end::poll(int limit) {
  std::vector<ibv_wc> got(static_cast<std::size_t>(limit));
  const int n = ibv_poll_cq(cq.get(), limit, got.data());
  REQUIRE(n >= 0);
  got.resize(static_cast<std::size_t>(n));
  return got;
}

std::vector<ibv_wc> end::poll_for(std::size_t count, base::duration timeout) {
  std::vector<ibv_wc> all;
  const auto deadline = base::mono_clock::now() + timeout;
  while (all.size() < count && base::mono_clock::now() < deadline) {
    const auto got = poll();
    all.insert(all.end(), got.begin(), got.end());
    if (got.empty())
      std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  return all;
}

pair_rig::pair_rig(nic_mode mode, bool is_virtual, qp_options options, device_options device,
                   std::uint64_t seed) {
  fabric_options f;
  f.clock = is_virtual ? &clock : nullptr;
  f.seed = seed;
  net = *fabric::open(f);
  device.mode = mode;
  host_a = std::move(*net->attach("a", {device}));
  host_b = std::move(*net->attach("b", {device}));
  a = end::open(*host_a, 0, options);
  b = end::open(*host_b, 0, options);
  connect();
}

void pair_rig::connect() {
  a->connect(b->where());
  b->connect(a->where());
}

void advance_until(fabric& net, base::manual_clock& clock, base::time_point until) {
  while (const auto next = net.next_event()) {
    if (*next > until)
      break;
    if (*next > clock.now())
      clock.set(*next);
    net.advance(clock.now());
  }
  clock.set(until);
}

std::vector<log_entry> pair_rig::log() const {
  std::uint64_t next = 0;
  return net->read_log(0, next);
}

std::size_t pair_rig::count(log_kind kind) const {
  std::size_t n = 0;
  for (const auto& e : log())
    n += e.kind == kind ? 1 : 0;
  return n;
}

void fill(std::byte* at, std::size_t length, unsigned seed) {
  for (std::size_t i = 0; i < length; ++i)
    at[i] = static_cast<std::byte>((i * 131 + seed * 7919 + (i >> 8)) & 0xff);
}

} // namespace actor_rdma::verbs::soft::testing
