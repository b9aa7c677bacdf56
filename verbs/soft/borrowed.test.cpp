// SPDX-License-Identifier: Apache-2.0
//
// What the engine has in hand while its owner takes it away: contexts, queue pairs and completion queues of a
// host that goes are not looked at any more once it is gone.
#include "verbs/soft/hazard.hpp"
#include "verbs/soft/segment.hpp"
#include "verbs/soft/testing/peer.hpp"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;

namespace {

void wait_for_event_of(const ibv_context& context) {
  pollfd readable{context.async_fd, POLLIN, 0};
  REQUIRE(::poll(&readable, 1, 5000) == 1);
}

struct lone_host {
  explicit lone_host(const fabric_options& options = {}) : net{*fabric::open(options)} { attach(); }
  void attach() {
    on = std::move(*net->attach("a", {device_options{}}));
    device = on->verbs().list_devices()->front();
  }

  std::shared_ptr<fabric> net;
  std::unique_ptr<host> on;
  ibv_device* device = nullptr;
};

fabric_options named(const std::string& name) {
  fabric_options options;
  options.name = name;
  return options;
}

/// With the tables that its NIC works on.
struct watched_host : lone_host {
  explicit watched_host(const std::string& name = unique_fabric())
      : lone_host{named(name)}, memory{std::move(*segment::open_named(name, 1, false))} {
    memory.unlock();
  }
  layout::tables& tables() { return memory.get(); }
  layout::process_entry& process() {
    return *std::ranges::find_if(tables().processes, [](const auto& p) { return p.used.load() != 0; });
  }

  segment memory;
};

/// Owned by the host: what is made of its context goes with it.
struct loose_end {
  explicit loose_end(lone_host& of) : verbs{of.on->verbs()}, context{verbs.open_device(of.device)} {
    REQUIRE(context != nullptr);
    pd = verbs.alloc_pd(context);
    cq = verbs.create_cq(context, 16, nullptr, nullptr, 0);
  }
  ibv_qp* make_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    auto* const qp = verbs.create_qp(pd, &init);
    REQUIRE(qp != nullptr);
    return qp;
  }

  const provider& verbs;
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
};

} // namespace

TEST_CASE("a host goes while its lost contexts are still being ended, and nobody looks at them afterwards") {
  for (int trial = 0; trial < 20; ++trial) {
    lone_host rig;
    std::vector<ibv_context*> open(4);
    std::generate(open.begin(), open.end(), [&] { return rig.on->verbs().open_device(rig.device); });
    REQUIRE(std::ranges::find(open, nullptr) == open.end());
    for (auto* const context : open)
      for (int i = 0; i < 48; ++i) // who waits there is woken one after the other, after the event
        REQUIRE(rig.on->verbs().create_comp_channel(context) != nullptr);
    REQUIRE(rig.net->set_lost("a/soft0", true));
    wait_for_event_of(*open[static_cast<std::size_t>(trial) % open.size()]);
    rig.on.reset();
  }
}

TEST_CASE("a host goes while events of its queue pairs are being raised, and nobody looks at those left") {
  for (int trial = 0; trial < 3; ++trial) {
    lone_host rig;
    loose_end e{rig};
    for (int i = 0; i < 64; ++i)
      (void)e.make_qp();
    REQUIRE(rig.net->raise_event("a/soft0", "QP_FATAL", 300));
    wait_for_event_of(*e.context);
    rig.on.reset();
  }
}

TEST_CASE(
    "what a stopped process keeps from being destroyed is not looked at any more when its host is gone") {
  watched_host rig;
  {
    loose_end e{rig};
    execution stopped{rig.process()};
    stopped.target_queue_pair(e.make_qp()->handle);
    rig.on.reset(); // which is told: busy
  }
  rig.attach();
  loose_end e{rig};
  REQUIRE(rig.net->raise_event("a/soft0", "CQ_ERR")); // in the order in which they were made
  wait_for_event_of(*e.context);
}

TEST_CASE("memory that is being deregistered when its device is lost is given back once") {
  watched_host rig;
  loose_end e{rig};
  std::vector<std::byte> memory(4096);
  auto* const mr = e.verbs.reg_mr(e.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(mr != nullptr);
  std::thread deregisters;
  {
    execution at_work{rig.process()}; // which both have to wait for
    deregisters = std::thread{[&] { CHECK(e.verbs.dereg_mr(mr) == 0); }};
    while (rig.tables().mrs[mr->handle].state.load() != 0)
      std::this_thread::yield();
    REQUIRE(rig.net->set_lost("a/soft0", true));
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  deregisters.join();
  wait_for_event_of(*e.context);
  CHECK(rig.net->devices().front().open_mrs == 0);
}
