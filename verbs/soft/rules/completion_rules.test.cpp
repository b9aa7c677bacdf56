// SPDX-License-Identifier: Apache-2.0
//
// Rules about completions: held for a time or for ever, passed by others, left behind by a queue pair.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <string>

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint64_t> ids(const std::vector<ibv_wc>& wcs) {
  std::vector<std::uint64_t> all;
  for (const auto& wc : wcs)
    all.push_back(wc.wr_id);
  return all;
}
using list = std::vector<std::uint64_t>;

struct held_rig : pair_rig {
  explicit held_rig(const std::string& rule) : pair_rig{nic_mode::paced, true} {
    fill(a->memory, 4096, 1);
    const auto id = net->add_rule(rule);
    REQUIRE_MESSAGE(id, (id ? "" : id.error().to_string()));
  }
  void write(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i)
      CHECK(a->write(i, b->where(), 0, 64 * i, 64) == 0);
    run_for(1ms);
  }
  bool landed(std::uint64_t i) const { return std::memcmp(a->memory, b->memory + 64 * i, 64) == 0; }
};

void to_state(end& e, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  REQUIRE(e.qp.modify(attr, IBV_QP_STATE));
}

/// A second queue pair on a's completion queue, connected to one of b's own.
struct sibling {
  explicit sibling(pair_rig& rig) : rig_{rig} {
    near_ = make(*rig.a);
    far_ = make(*rig.b);
    connect(near_, far_.number(), *rig.b);
    connect(far_, near_.number(), *rig.a);
  }
  void write(std::uint64_t wr_id) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(rig_.a->memory), 64, rig_.a->lkey};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = rig_.b->where().addr;
    wr.wr.rdma.rkey = rig_.b->rkey;
    ibv_send_wr* bad = nullptr;
    CHECK(ibv_post_send(near_.get(), &wr, &bad) == 0);
  }
  std::uint32_t number() const { return near_.number(); }

private:
  static queue_pair make(end& e) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = e.cq.get();
    init.cap = {16, 1, 1, 1, 0};
    return std::move(*queue_pair::create(e.pd, init));
  }
  static void connect(queue_pair& qp, std::uint32_t to, end& other) {
    auto there = other.where();
    there.qpn = to;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(all_access);
    REQUIRE(qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.rq_psn = 5;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = there.gid;
    attr.ah_attr.grh.sgid_index = 3;
    REQUIRE(qp.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 5;
    attr.timeout = 14;
    REQUIRE(qp.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
  }

  pair_rig& rig_;
  queue_pair near_;
  queue_pair far_;
};

} // namespace

TEST_CASE("a held completion comes at its time, what is behind it waits, and the payload is there at once") {
  held_rig rig{"dev=a nth=2 do=hold_cqe:20ms"};
  rig.write(0, 3);
  CHECK(rig.landed(1));
  CHECK(rig.landed(3));
  CHECK(ids(rig.a->poll()) == list{0});
  rig.run_for(18ms);
  CHECK(rig.a->poll().empty());
  rig.run_for(2ms);
  CHECK(ids(rig.a->poll()) == list{1, 2, 3});
  rig.write(4, 4);
  CHECK(ids(rig.a->poll()) == list{4});
}

TEST_CASE("a completion that is held alone is passed, and may come out of order or never") {
  held_rig rig{"dev=a nth=2 do=hold_cqe:20ms,alone"};
  rig.write(0, 3);
  CHECK(ids(rig.a->poll()) == list{0, 2, 3});
  rig.run_for(20ms);
  CHECK(ids(rig.a->poll()) == list{1});
  held_rig never{"dev=a nth=2 do=hold_cqe,alone"};
  never.write(0, 3);
  never.run_for(100s);
  CHECK(ids(never.a->poll()) == list{0, 2, 3});
  CHECK(never.a->state() == IBV_QPS_RTS);
}

TEST_CASE("a completion held for ever stops its queue, and ERR brings all but that one") {
  held_rig rig{"dev=a nth=2 do=hold_cqe"};
  rig.write(0, 3);
  rig.run_for(100s);
  CHECK(ids(rig.a->poll()) == list{0});
  to_state(*rig.a, IBV_QPS_ERR);
  const auto wcs = rig.a->poll();
  CHECK(ids(wcs) == list{2, 3});
  CHECK(wcs[0].status == IBV_WC_SUCCESS); // they were done
}

TEST_CASE("an unsignaled work request can hold its followers too") {
  held_rig rig{"dev=a nth=1 do=hold_cqe:20ms"};
  CHECK(rig.a->write(0, rig.b->where(), 0, 0, 64, false) == 0);
  rig.write(1, 1);
  CHECK(rig.a->poll().empty());
  rig.run_for(20ms);
  CHECK(ids(rig.a->poll()) == list{1});
}

TEST_CASE("held completions go with a queue pair that is reset or destroyed") {
  held_rig rig{"dev=a do=hold_cqe:20ms"};
  rig.write(0, 3);
  SUBCASE("reset") {
    to_state(*rig.a, IBV_QPS_RESET);
  }
  SUBCASE("destroyed") {
    REQUIRE(rig.a->qp.destroy());
  }
  rig.run_for(1s);
  CHECK(rig.a->poll().empty());
}

TEST_CASE("a completion queue can go while completions for it are held") {
  held_rig rig{"dev=a do=hold_cqe:20ms"};
  rig.write(0, 3);
  REQUIRE(rig.a->qp.destroy());
  REQUIRE(rig.a->cq.destroy());
  rig.run_for(1s);
}

TEST_CASE("a held completion wakes its channel when it comes") {
  held_rig rig{"dev=a do=hold_cqe:20ms"};
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  rig.write(0, 0);
  const auto is_awake = [&] {
    pollfd p{rig.a->channel.fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  };
  CHECK(!is_awake());
  rig.run_for(20ms);
  CHECK(is_awake());
}

TEST_CASE("a completion lets those of another queue on its completion queue pass") {
  pair_rig rig{nic_mode::paced, true};
  sibling other{rig};
  REQUIRE(rig.net->add_rule("dev=a nth=1 qp=" + std::to_string(rig.a->qp.number()) +
                            " do=cqe_behind:other,50ms"));
  SUBCASE("if there is one") {
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
    CHECK(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0);
    rig.run_for(5ms);
    CHECK(rig.a->poll().empty());
    other.write(3);
    rig.run_for(1ms);
    CHECK(ids(rig.a->poll()) == list{3, 1, 2});
  }
  SUBCASE("or comes when its patience is over") {
    CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
    rig.run_for(49ms);
    CHECK(rig.a->poll().empty());
    rig.run_for(2ms);
    CHECK(ids(rig.a->poll()) == list{1});
  }
}

TEST_CASE("a queue pair that is destroyed may leave its completions behind") {
  pair_rig rig{nic_mode::paced, true};
  REQUIRE(rig.net->add_rule("dev=a verb=destroy_qp do=late_cqe"));
  const auto number = rig.a->qp.number();
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0); // outstanding
  REQUIRE(rig.a->qp.destroy());
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 2);
  CHECK(wcs[0].status == IBV_WC_SUCCESS);
  CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(wcs[1].wr_id == 2);
  CHECK(wcs[1].qp_num == number);
}
