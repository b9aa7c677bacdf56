// SPDX-License-Identifier: Apache-2.0
//
// Objects of the NIC: what they report, what they refuse, in which order they go.
#include "verbs/soft/testing/rig.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include <sys/mman.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("a device says what it is") {
  pair_rig rig{nic_mode::immediate};
  const auto attributes = rig.a->ctx.query_device();
  REQUIRE(attributes);
  CHECK(attributes->phys_port_cnt == 1);
  CHECK(attributes->max_qp_wr >= 16384);
  CHECK(attributes->max_cqe >= 1 << 20);
  CHECK(attributes->max_sge == 4);
  CHECK(attributes->max_qp_rd_atom == 16);
  CHECK(attributes->node_guid != rig.b->ctx.query_device()->node_guid);
  const auto port = rig.a->ctx.query_port(1);
  REQUIRE(port);
  CHECK(port->link_layer == IBV_LINK_LAYER_ETHERNET);
  CHECK(port->active_mtu == IBV_MTU_4096);
  CHECK(rig.a->ctx.query_port(2).error().sys_errno == EINVAL);
  ibv_port_attr direct{}; // as an application that uses the inline would
  CHECK(verbs_get_ctx(rig.a->ctx.get())->query_port(rig.a->ctx.get(), 1, &direct, sizeof direct) == 0);
  CHECK(direct.link_layer == IBV_LINK_LAYER_ETHERNET);
  CHECK(std::string{rig.a->ctx.name()} == "soft0");
}

TEST_CASE("the addresses of all devices differ, and empty places are skipped") {
  fabric_options f;
  const auto net = *fabric::open(f);
  std::vector<device_options> devices(3);
  devices[1].name = "soft1";
  devices[2].name = "soft2";
  const auto one = std::move(*net->attach("one", devices));
  const auto two = std::move(*net->attach("two", devices));
  std::set<std::string> seen;
  for (const auto* const h : {one.get(), two.get()}) {
    const auto list = h->verbs().list_devices();
    REQUIRE(list);
    CHECK(list->size() == 3);
    for (auto* const device : *list) {
      const auto ctx = context::open(h->verbs(), device);
      REQUIRE(ctx);
      const auto gids = ctx->query_gids(1);
      REQUIRE(gids);
      CHECK(gids->size() == 4);
      bool has_ipv4_v2 = false;
      for (const auto& g : *gids) {
        has_ipv4_v2 |= g.type == IBV_GID_TYPE_ROCE_V2 && g.gid.raw[10] == 0xff && g.gid.raw[11] == 0xff;
        if (g.type == IBV_GID_TYPE_ROCE_V2)
          CHECK(seen.emplace(reinterpret_cast<const char*>(g.gid.raw), 16).second);
        ibv_gid plain{};
        CHECK(h->verbs().query_gid(ctx->get(), 1, static_cast<int>(g.index), &plain) == 0);
        CHECK(std::memcmp(plain.raw, g.gid.raw, 16) == 0);
      }
      CHECK(has_ipv4_v2);
    }
  }
  CHECK(!net->attach("one", devices)); // the names are taken
  CHECK(!net->attach("a/b", devices));
  CHECK(!net->attach("", {}));
  CHECK(!net->set_link("soft0", false)); // whose?
  CHECK(!net->set_link("nobody/soft0", false));
  CHECK(net->set_link("two/soft1", false));
  CHECK(!net->set_rate("two/soft1", 0));
  CHECK(!net->set_delay("two/soft1", -1ns));
  CHECK(net->set_rate("two/soft1", 100));
  CHECK(net->devices()[4].rate_gbit_s == doctest::Approx(100));
  CHECK(!net->devices()[4].link_up);
}

TEST_CASE("parents are busy while their children live") {
  pair_rig rig{nic_mode::immediate};
  CHECK(rig.a->pd.destroy().error().sys_errno == EBUSY);
  CHECK(rig.a->cq.destroy().error().sys_errno == EBUSY);
  CHECK(rig.a->channel.destroy().error().sys_errno == EBUSY);
  CHECK(rig.a->qp.destroy());
  CHECK(rig.a->cq.destroy());
  CHECK(rig.a->channel.destroy());
  CHECK(rig.a->pd.destroy().error().sys_errno == EBUSY);
  CHECK(rig.a->mr.destroy());
  CHECK(rig.a->pd.destroy());
  CHECK(rig.a->ctx.destroy());
}

TEST_CASE("what is too large or unknown is refused") {
  pair_rig rig{nic_mode::immediate};
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = rig.a->cq.get();
  init.cap = {16385, 1, 1, 1, 0};
  CHECK(queue_pair::create(rig.a->pd, init).error().sys_errno == EINVAL);
  init.cap = {16, 1, 5, 1, 0};
  CHECK(queue_pair::create(rig.a->pd, init).error().sys_errno == EINVAL);
  init.cap = {16384, 1, 4, 1, 512};
  CHECK(queue_pair::create(rig.a->pd, init));
  CHECK(completion_queue::create(rig.a->ctx, 0, rig.a->channel).error().sys_errno == EINVAL);
  CHECK(completion_queue::create(rig.a->ctx, (1 << 20) + 1, rig.a->channel).error().sys_errno == EINVAL);
  CHECK(memory_region::reg(rig.a->pd, rig.a->memory, 0, all_access).error().sys_errno == EINVAL);
  CHECK(memory_region::reg(rig.a->pd, rig.a->memory, 64, IBV_ACCESS_REMOTE_WRITE).error().sys_errno ==
        EINVAL);
  void* const gone = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(gone, 4096);
  const auto unmapped = memory_region::reg(rig.a->pd, gone, 4096, all_access);
  CHECK(unmapped.error().sys_errno == EFAULT);
  CHECK(unmapped.error().device == "soft0");
  CHECK(unmapped.error().what == "ibv_reg_mr");
}

TEST_CASE("destroying a queue pair waits for the events of it that were read") {
  pair_rig rig{nic_mode::immediate};
  auto wrong = rig.b->where();
  wrong.rkey ^= 0x10000;
  CHECK(rig.a->write(1, wrong, 0, 0, 8) == 0);
  CHECK(rig.b->state() == IBV_QPS_ERR);
  ibv_async_event event{};
  const auto& table = rig.host_b->verbs();
  REQUIRE(table.get_async_event(rig.b->ctx.get(), &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(event.element.qp == rig.b->qp.get());
  std::atomic<bool> is_destroyed{false};
  std::thread destroyer{[&] {
    (void)rig.b->qp.destroy();
    is_destroyed = true;
  }};
  std::this_thread::sleep_for(50ms);
  CHECK(!is_destroyed);
  table.ack_async_event(&event);
  destroyer.join();
  CHECK(is_destroyed);
}

TEST_CASE("an event that nobody read goes with its object") {
  pair_rig rig{nic_mode::immediate};
  auto wrong = rig.b->where();
  wrong.rkey ^= 0x10000;
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  CHECK(rig.a->write(1, wrong, 0, 0, 8) == 0);
  CHECK(rig.b->state() == IBV_QPS_ERR);
  CHECK(rig.b->qp.destroy());
  const auto event = rig.b->ctx.next_async_event();
  REQUIRE(event);
  CHECK(!*event);
  CHECK(rig.a->qp.destroy());
  CHECK(rig.a->cq.destroy());
  CHECK(rig.a->channel.drain() == 0);
}

TEST_CASE("closing a device takes along what was left open in it") {
  pair_rig rig{nic_mode::immediate};
  const auto to = rig.b->where();
  CHECK(rig.b->ctx.destroy()); // its queue pair, region and queues still exist as handles
  CHECK(rig.net->devices()[1].open_qps == 0);
  CHECK(rig.net->devices()[1].open_mrs == 0);
  CHECK(rig.a->write(1, to, 0, 0, 64) == 0);
  CHECK(rig.a->poll_for(1).at(0).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(rig.b->qp.destroy()); // dead already
  CHECK(rig.b->mr.destroy());
}

TEST_CASE("owners move, and release what they held") {
  pair_rig rig{nic_mode::immediate};
  auto first = std::move(*memory_region::reg(rig.a->pd, rig.a->memory, 64, all_access));
  CHECK(rig.net->devices()[0].open_mrs == 2);
  auto second = std::move(*memory_region::reg(rig.a->pd, rig.a->memory, 64, all_access));
  second = std::move(first);
  CHECK(rig.net->devices()[0].open_mrs == 2);
  CHECK(second);
  CHECK(memory_region{}.destroy()); // of nothing
  { const auto third = std::move(second); }
  CHECK(rig.net->devices()[0].open_mrs == 1);
  context moved = std::move(rig.a->ctx);
  CHECK(moved.query_port(1));
  rig.a->ctx = std::move(moved);
}

TEST_CASE("non-blocking descriptors report nothing rather than wait") {
  pair_rig rig{nic_mode::immediate};
  const auto event = rig.a->ctx.next_async_event();
  REQUIRE(event);
  CHECK(!*event);
  CHECK(rig.a->channel.drain() == 0);
}
