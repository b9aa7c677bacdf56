// SPDX-License-Identifier: Apache-2.0
//
// A real lane on the software NIC: completions of paced writes find it asleep.
#include "actors/lane_scheduler.hpp"
#include "verbs/objects.hpp"
#include "verbs/soft/fabric.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <doctest/doctest.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {
namespace {

template <class T>
T take(base::expected<T> made) {
  REQUIRE_MESSAGE(made.has_value(), made.error().to_string());
  return std::move(*made);
}
void succeed(const base::expected<void>& done) {
  REQUIRE_MESSAGE(done.has_value(), done.error().to_string());
}

/// Two queue pairs of one device that write to each other's memory. Members are destroyed children first.
struct loopback {
  std::shared_ptr<verbs::soft::fabric> net;
  std::unique_ptr<verbs::soft::host> host;
  verbs::context context;
  verbs::protection_domain pd;
  verbs::completion_channel channel;
  verbs::completion_queue cq;
  verbs::memory_region mr;
  std::array<verbs::queue_pair, 2> qps;
  std::array<std::byte, 8192> memory{};

  explicit loopback(base::duration latency) {
    net = take(verbs::soft::fabric::open({}));
    verbs::soft::device_options device;
    device.mode = verbs::soft::nic_mode::paced;
    device.latency = latency;
    host = take(net->attach("host", {device}));
    context = take(verbs::context::open(host->verbs(), take(host->verbs().list_devices()).at(0)));
    pd = take(verbs::protection_domain::alloc(context));
    channel = take(verbs::completion_channel::create(context));
    cq = take(verbs::completion_queue::create(context, 64, channel));
    mr = take(verbs::memory_region::reg(pd, memory.data(), memory.size(),
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    for (auto& qp : qps) {
      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = cq.get();
      init.cap = {16, 1, 1, 1, 0};
      qp = take(verbs::queue_pair::create(pd, init));
    }
    connect(qps[0], qps[1]);
    connect(qps[1], qps[0]);
  }

  void connect(verbs::queue_pair& qp, const verbs::queue_pair& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    succeed(qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    const auto gid = take(context.query_gids(1)).back();
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.number();
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid.index);
    attr.ah_attr.grh.hop_limit = 1;
    succeed(qp.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 17;
    attr.retry_cnt = 7;
    attr.rnr_retry = 6;
    attr.max_rd_atomic = 1;
    succeed(qp.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
  }

  int write(std::uint64_t wr_id) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory.data()), 4096, mr.lkey()};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(memory.data()) + 4096;
    wr.wr.rdma.rkey = mr.rkey();
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qps[0].get(), &wr, &bad);
  }
};

} // namespace

TEST_CASE("completions of the software NIC wake a sleeping lane, each of them") {
  constexpr std::uint64_t writes = 200;
  struct : cq_sink {
    void on_completions(std::span<const ibv_wc> completions) override {
      for (const auto& wc : completions) {
        wrong += wc.status != IBV_WC_SUCCESS || wc.wr_id != done + 1 ? 1 : 0;
        if (++done < writes)
          wrong += nic->write(done + 1) != 0 ? 1 : 0;
        else
          over.set_value();
      }
    }
    void on_cq_failed(int) override { ++wrong; }
    loopback* nic = nullptr;
    std::uint64_t done = 0;
    int wrong = 0;
    std::promise<void> over;
  } sink;
  loopback nic{300us}; // more than the lane spins
  sink.nic = &nic;
  {
    caf::actor_system_config config;
    lane_scheduler_options options;
    options.lanes = 1;
    use_lanes(config, options);
    caf::actor_system system{config};
    auto& l = lanes_of(system)->at(0);
    l.post([&] {
      l.watch_cq(nic.cq.get(), nic.channel, sink);
      sink.wrong += nic.write(1) != 0 ? 1 : 0;
    });
    CHECK(sink.over.get_future().wait_for(60s) == std::future_status::ready);
    CHECK(l.counters().sleeps >= writes / 2);
    CHECK(l.counters().foreign_wakes <= 3); // only the post
    std::promise<void> unwatched;
    l.post([&] {
      l.unwatch_cq(nic.cq.get());
      unwatched.set_value();
    });
    CHECK(unwatched.get_future().wait_for(20s) == std::future_status::ready);
  }
  CHECK(sink.wrong == 0);
  CHECK(sink.done == writes);
  for (auto& qp : nic.qps)
    succeed(qp.destroy());
  succeed(nic.cq.destroy()); // would wait for ever for an event that was not acked
}

} // namespace actor_rdma::actors
