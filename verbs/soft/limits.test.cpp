// SPDX-License-Identifier: Apache-2.0
//
// Devices with small limits: what they report is what they enforce.
#include "verbs/soft/testing/rig.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;

namespace {

device_options small_device() {
  device_options d;
  d.mtu = 1024;
  d.limits.max_qp = 3;
  d.limits.max_qp_wr = 300;
  d.limits.max_sge = 2;
  d.limits.max_cq = 2;
  d.limits.max_cqe = 2000;
  d.limits.max_mr = 2;
  d.limits.max_mr_size = buffer_bytes;
  d.limits.max_qp_rd_atom = 8;
  d.limits.max_res_rd_atom = 12;
  d.limits.max_srq = 2;
  d.limits.max_srq_wr = 50;
  return d;
}

qp_options small_qp() {
  qp_options o;
  o.mtu = IBV_MTU_1024;
  o.reads = 4;
  o.max_sge = 2;
  return o;
}

ibv_qp_init_attr init_of(const end& e) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = e.cq.get();
  init.cap = {16, 16, 1, 1, 0};
  return init;
}

template <class Made>
int error_of(const Made& made) {
  return made ? 0 : made.error().sys_errno;
}

} // namespace

TEST_CASE("limits are reported") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()};
  const auto a = *rig.a->ctx.query_device();
  CHECK(a.max_qp == 3);
  CHECK(a.max_qp_wr == 300);
  CHECK(a.max_sge == 2);
  CHECK(a.max_cq == 2);
  CHECK(a.max_cqe == 2000);
  CHECK(a.max_mr == 2);
  CHECK(a.max_mr_size == buffer_bytes);
  CHECK(a.max_qp_rd_atom == 8);
  CHECK(a.max_qp_init_rd_atom == 8);
  CHECK(a.max_res_rd_atom == 12);
  CHECK(a.max_srq == 2);
  CHECK(a.max_srq_wr == 50);
  const auto port = *rig.a->ctx.query_port(1);
  CHECK(port.active_mtu == IBV_MTU_1024);
  CHECK(port.max_mtu == IBV_MTU_4096);
}

TEST_CASE("more objects than the device has are refused with ENOMEM, and one that ends makes room") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()};
  auto& e = *rig.a;
  auto init = init_of(e);
  std::optional<queue_pair> qps[2]; // the rig has one
  for (auto& qp : qps)
    qp = std::move(*queue_pair::create(e.pd, init));
  CHECK(error_of(queue_pair::create(e.pd, init)) == ENOMEM);
  CHECK(qps[0]->destroy());
  CHECK(error_of(queue_pair::create(e.pd, init)) == 0);

  auto mr = memory_region::reg(e.pd, e.memory, 4096, all_access);
  REQUIRE(mr);
  CHECK(error_of(memory_region::reg(e.pd, e.memory, 4096, all_access)) == ENOMEM);
  CHECK(mr->destroy());
  CHECK(error_of(memory_region::reg(e.pd, e.memory, 4096, all_access)) == 0);

  auto cq = completion_queue::create(e.ctx, 10, e.channel);
  REQUIRE(cq);
  CHECK(error_of(completion_queue::create(e.ctx, 10, e.channel)) == ENOMEM);
  CHECK(cq->destroy());
  CHECK(error_of(completion_queue::create(e.ctx, 10, e.channel)) == 0);
}

TEST_CASE("an object larger than the device allows is refused with EINVAL, and costs nothing") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()};
  auto& e = *rig.a;
  std::vector<std::byte> longer(buffer_bytes + 1);
  for (int i = 0; i < 5; ++i) {
    CHECK(error_of(memory_region::reg(e.pd, longer.data(), longer.size(), all_access)) == EINVAL);
    CHECK(error_of(completion_queue::create(e.ctx, 2001, e.channel)) == EINVAL);
    auto init = init_of(e);
    init.cap.max_send_wr = 301;
    CHECK(error_of(queue_pair::create(e.pd, init)) == EINVAL);
    init = init_of(e);
    init.cap.max_recv_wr = 301;
    CHECK(error_of(queue_pair::create(e.pd, init)) == EINVAL);
    init = init_of(e);
    init.cap.max_send_sge = 3;
    CHECK(error_of(queue_pair::create(e.pd, init)) == EINVAL);
  }
  CHECK(error_of(memory_region::reg(e.pd, longer.data(), buffer_bytes, all_access)) == 0);
  CHECK(error_of(completion_queue::create(e.ctx, 2000, e.channel)) == 0);
}

TEST_CASE("shared receive queues are limited in number and length") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()};
  const auto& verbs = rig.host_a->verbs();
  const auto make = [&](std::uint32_t wrs, std::uint32_t sges = 1) {
    ibv_srq_init_attr init{};
    init.attr = {wrs, sges, 0};
    errno = 0;
    return verbs.create_srq(rig.a->pd.get(), &init);
  };
  for (int i = 0; i < 5; ++i) { // a refusal costs nothing
    CHECK(make(51) == nullptr);
    CHECK(errno == EINVAL);
    CHECK(make(1, 3) == nullptr);
    CHECK(errno == EINVAL);
  }
  auto* const first = make(50);
  auto* const second = make(1);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(make(1) == nullptr);
  CHECK(errno == ENOMEM);
  rig.a->srq = first;
  for (std::uint64_t i = 0; i < 50; ++i)
    REQUIRE(rig.a->receive(i, 0, 64) == 0);
  CHECK(rig.a->receive(50, 0, 64) == ENOMEM);
  CHECK(verbs.destroy_srq(first) == 0);
  auto* const third = make(50);
  REQUIRE(third != nullptr);
  CHECK(verbs.destroy_srq(second) == 0);
  CHECK(verbs.destroy_srq(third) == 0);
}

TEST_CASE("reads that a device can answer are a budget for all its queue pairs") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()}; // 4 of 12 are taken
  auto& e = *rig.a;
  auto init = init_of(e);
  auto second = std::move(*queue_pair::create(e.pd, init));
  std::swap(second, e.qp);
  e.options.reads = 9; // of one queue pair: 8
  REQUIRE(e.to_init() == 0);
  CHECK(e.to_rtr(rig.b->where()) == EINVAL);
  e.options.reads = 8;
  CHECK(e.to_rtr(rig.b->where()) == 0);
  auto third = std::move(*queue_pair::create(e.pd, init));
  std::swap(third, e.qp);
  e.options.reads = 1;
  REQUIRE(e.to_init() == 0);
  CHECK(e.to_rtr(rig.b->where()) == ENOMEM);
  CHECK(e.state() == IBV_QPS_INIT);
  SUBCASE("destroying gives them back") {
    CHECK(second.destroy());
  }
  SUBCASE("a reset gives them back") {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    CHECK(second.modify(attr, IBV_QP_STATE));
  }
  CHECK(e.to_rtr(rig.b->where()) == 0);
}

TEST_CASE("a path MTU above the port's is refused") {
  pair_rig rig{nic_mode::immediate, true, small_qp(), small_device()};
  auto init = init_of(*rig.a);
  auto other = std::move(*queue_pair::create(rig.a->pd, init));
  std::swap(other, rig.a->qp);
  REQUIRE(rig.a->to_init() == 0);
  rig.a->options.mtu = IBV_MTU_2048;
  CHECK(rig.a->to_rtr(rig.b->where()) == EINVAL);
  rig.a->options.mtu = IBV_MTU_512;
  CHECK(rig.a->to_rtr(rig.b->where()) == 0);
}

TEST_CASE("limits that no device can have are refused by name") {
  const auto net = *fabric::open({});
  const auto refused = [&](auto change) {
    device_options d;
    change(d);
    const auto made = net->attach("x", {d});
    return made ? std::string{} : made.error().to_string();
  };
  CHECK(refused([](device_options& d) { d.limits.max_qp = (1U << 16) + 1; }).find("max_qp is 0 to 65536") !=
        std::string::npos);
  CHECK(refused([](device_options& d) { d.limits.max_sge = 0; }).find("max_sge is 1 to") !=
        std::string::npos);
  CHECK(refused([](device_options& d) { d.mtu = 1500; }).find("mtu is 256, 512") != std::string::npos);
  CHECK(refused([](device_options&) {}).empty());
}
