// SPDX-License-Identifier: Apache-2.0
//
// Devices of several ports: each has its own state and addresses, a queue pair is on the one that INIT named,
// and a context hears of all on one descriptor.
#include "verbs/soft/testing/rig.hpp"

#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// Hosts a and b, each with one device of two ports and an end on it; nothing is connected.
struct two_ports {
  explicit two_ports(device_options device = {}) {
    device.ports = 2;
    fabric_options f;
    f.clock = &clock;
    net = *fabric::open(f);
    host_a = std::move(*net->attach("a", {device}));
    host_b = std::move(*net->attach("b", {device}));
    a = end::open(*host_a);
    b = end::open(*host_b);
    const int fd = a->ctx.get()->async_fd;
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }

  /// RoCE v2, of this port.
  static ibv_gid gid(end& e, std::uint8_t port) { return e.ctx.query_gids(port)->at(3).gid; }

  static int to_init(end& e, std::uint8_t port) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.qp_access_flags = all_access;
    const auto done = e.qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return done ? 0 : done.error().sys_errno;
  }
  static int to_rtr(end& e, std::uint8_t port, const end& peer, const ibv_gid& to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp.number();
    attr.rq_psn = peer.options.psn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = port;
    attr.ah_attr.grh.dgid = to;
    attr.ah_attr.grh.sgid_index = 3;
    const auto done = e.qp.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return done ? 0 : done.error().sys_errno;
  }
  /// Both queue pairs, on port `of_a` and on port `of_b`.
  void connect(std::uint8_t of_a, std::uint8_t of_b) {
    const auto gid_a = gid(*a, of_a);
    const auto gid_b = gid(*b, of_b);
    REQUIRE(to_init(*a, of_a) == 0);
    REQUIRE(to_init(*b, of_b) == 0);
    REQUIRE(to_rtr(*a, of_a, *b, gid_b) == 0);
    REQUIRE(to_rtr(*b, of_b, *a, gid_a) == 0);
    REQUIRE(a->to_rts() == 0);
    REQUIRE(b->to_rts() == 0);
  }
  ibv_wc_status outcome_of_write() {
    REQUIRE(a->write(1, b->where(), 0, 0, 100) == 0);
    run_for(5s);
    const auto wcs = a->poll();
    REQUIRE(wcs.size() == 1);
    return wcs[0].status;
  }
  void run_for(base::duration span) { advance_until(*net, clock, clock.now() + span); }
  /// What has come on the descriptor of a's context, as "PORT_ERR 2".
  std::vector<std::string> heard() {
    run_for(1ms);
    std::vector<std::string> all;
    for (ibv_async_event event{}; ibv_get_async_event(a->ctx.get(), &event) == 0;
         ibv_ack_async_event(&event)) {
      const auto* name = event.event_type == IBV_EVENT_PORT_ERR      ? "PORT_ERR "
                         : event.event_type == IBV_EVENT_PORT_ACTIVE ? "PORT_ACTIVE "
                         : event.event_type == IBV_EVENT_GID_CHANGE  ? "GID_CHANGE "
                         : event.event_type == IBV_EVENT_LID_CHANGE  ? "LID_CHANGE "
                                                                     : "other ";
      all.push_back(name + std::to_string(event.element.port_num));
    }
    return all;
  }
  int ibv_get_async_event(ibv_context* context, ibv_async_event* event) const {
    return host_a->verbs().get_async_event(context, event);
  }
  void ibv_ack_async_event(ibv_async_event* event) const { host_a->verbs().ack_async_event(event); }

  base::manual_clock clock;
  std::shared_ptr<fabric> net;
  std::unique_ptr<host> host_a;
  std::unique_ptr<host> host_b;
  std::unique_ptr<end> a;
  std::unique_ptr<end> b;
};

using texts = std::vector<std::string>;

} // namespace

TEST_CASE("D-04: each port of a device has its own state, addresses and MTU") {
  two_ports rig;
  CHECK(rig.a->ctx.query_device()->phys_port_cnt == 2);
  CHECK(to_text(two_ports::gid(*rig.a, 1)) != to_text(two_ports::gid(*rig.a, 2)));
  CHECK(rig.net->set_link("a/soft0:2", false));
  CHECK(rig.net->set_mtu("a/soft0:2", 1024));
  CHECK(rig.a->ctx.query_port(1)->state == IBV_PORT_ACTIVE);
  CHECK(rig.a->ctx.query_port(2)->state == IBV_PORT_DOWN);
  CHECK(rig.a->ctx.query_port(1)->active_mtu == IBV_MTU_4096);
  CHECK(rig.a->ctx.query_port(2)->active_mtu == IBV_MTU_1024);
  for (const auto port : {0, 3})
    CHECK(rig.a->ctx.query_port(static_cast<std::uint8_t>(port)).error().sys_errno == EINVAL);
  CHECK(rig.net->devices().size() == 4);
  CHECK(rig.net->devices()[1].name == "a/soft0:2");
  CHECK_FALSE(rig.net->devices()[1].link_up);
  const auto lost = rig.net->set_lost("a/soft0:2", true);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().what == "a device is lost with all of its ports: say a/soft0");
}

TEST_CASE("D-04: events of all ports come on one descriptor, and each names its own") {
  two_ports rig;
  CHECK(rig.net->set_link("a/soft0:2", false));
  CHECK(rig.heard() == texts{"PORT_ERR 2"});
  CHECK(rig.net->set_link("a/soft0", false));
  CHECK(rig.net->set_link("a/soft0:2", true));
  CHECK(rig.heard() == texts{"PORT_ERR 1", "PORT_ACTIVE 2"});
  CHECK(rig.net->delete_gid("a/soft0:2", 3));
  CHECK(rig.net->raise_event("a/soft0:2", "LID_CHANGE"));
  CHECK(rig.heard() == texts{"GID_CHANGE 2", "LID_CHANGE 2"});
  CHECK(rig.net->raise_event("a/soft0", "LID_CHANGE"));
  CHECK(rig.heard() == texts{"LID_CHANGE 1"});
  const auto fatal = rig.net->raise_event("a/soft0:2", "DEVICE_FATAL");
  REQUIRE_FALSE(fatal);
  CHECK(fatal.error().what == "DEVICE_FATAL is no event of a port: say the device, a/soft0");
  CHECK(rig.net->add_rule("dev=a/soft0:2 event=PORT_ERR do=swallow"));
  CHECK(rig.net->set_link("a/soft0:2", false));
  CHECK(rig.net->set_link("a/soft0", true));
  CHECK(rig.heard() == texts{"PORT_ACTIVE 1"});
}

TEST_CASE("D-04: a queue pair is on the port that INIT named, and goes down with that one only") {
  two_ports rig;
  CHECK(two_ports::to_init(*rig.a, 3) == EINVAL);
  CHECK(two_ports::to_init(*rig.a, 2) == 0);
  CHECK(two_ports::to_rtr(*rig.a, 1, *rig.b, two_ports::gid(*rig.b, 2)) == EINVAL); // another port's handle
  rig.a->make_qp();
  rig.connect(2, 2);
  CHECK(rig.net->set_link("a/soft0", false));
  CHECK(rig.net->set_link("b/soft0", false));
  CHECK(rig.outcome_of_write() == IBV_WC_SUCCESS);
  CHECK(rig.net->devices()[0].bytes_sent == 0);
  CHECK(rig.net->devices()[1].bytes_sent == 100);
  CHECK(rig.net->devices()[0].open_qps == 1); // objects are the device's
  CHECK(rig.net->devices()[1].open_qps == 0);
  CHECK(rig.net->set_link("b/soft0:2", false));
  CHECK(rig.outcome_of_write() == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("D-04: a rule about one port leaves the queue pairs of the other alone") {
  two_ports rig;
  rig.connect(2, 1);
  CHECK(rig.net->add_rule("dev=a/soft0 do=drop"));
  CHECK(rig.outcome_of_write() == IBV_WC_SUCCESS);
  CHECK(rig.net->add_rule("dev=a/soft0:2 peer=b/soft0 do=drop"));
  CHECK(rig.outcome_of_write() == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("each InfiniBand port of a device has a LID of its own") {
  device_options device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  device.lid = 7;
  fabric_options f;
  const auto net = *fabric::open(f);
  device.ports = 8;
  const auto host = std::move(*net->attach("a", {device}));
  const auto all = net->devices();
  REQUIRE(all.size() == 8);
  CHECK(all[0].lid == 7);
  for (std::size_t i = 1; i < all.size(); ++i)
    CHECK(all[i].lid != all[i - 1].lid);
}

TEST_CASE("a device has 1 to 8 ports, and no colon in its name") {
  const auto net = *fabric::open({});
  device_options device;
  device.ports = 9;
  CHECK(net->attach("a", {device}).error().what == "a/soft0: ports is 1 to 8, not 9");
  device.ports = 0;
  CHECK_FALSE(net->attach("a", {device}));
  device.ports = 1;
  device.name = "soft0:2";
  CHECK(net->attach("a", {device}).error().what == "a device cannot be named \"a/soft0:2\"");
}
