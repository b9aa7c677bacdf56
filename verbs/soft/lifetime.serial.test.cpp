// SPDX-License-Identifier: Apache-2.0
//
// Destroying as a proof: after a destroy, a deregistration or a move to ERR that succeeded, no byte lands,
// whatever the peer does. With real processes and real time, so these cases run alone. Peers that are stopped
// are in stopped_peer.serial.test.cpp.
#include "verbs/soft/testing/peer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <sys/wait.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

bool is_zero(const std::byte* at) {
  return std::all_of(at, at + (64 << 10), [](std::byte b) { return b == std::byte{0}; });
}

enum class way { destroy, error, deregister };

int take_away(end& e, way how) {
  base::expected<void> done;
  if (how == way::destroy) {
    done = e.qp.destroy();
  } else if (how == way::deregister) {
    done = e.mr.destroy();
  } else {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    done = e.qp.modify(attr, IBV_QP_STATE);
  }
  return done ? 0 : done.error().sys_errno;
}

} // namespace

TEST_CASE("a peer that is killed in the middle of its writes does not keep memory busy") {
  for (int trial = 0; trial < 10; ++trial) {
    const auto name = unique_fabric();
    shared_target own{name};
    peer_process peer{name, "peer", "immediate", "private"};
    peer.ask("fill 3");
    const auto there = peer.where();
    peer.connect(own.e->where());
    own.e->connect(there);
    peer.send("writes");
    std::this_thread::sleep_for(4ms);
    peer.signal(SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(peer.pid(), &status, WUNTRACED) == peer.pid());
    peer.kill();
    const auto start = base::mono_clock::now();
    CHECK(take_away(*own.e, way::destroy) == 0);
    CHECK(take_away(*own.e, way::deregister) == 0);
    CHECK(base::mono_clock::now() - start < 100ms);
  }
}

TEST_CASE("memory that a peer deregistered, or died with, is not kept alive by our mapping of it") {
  const auto mappings = [] {
    std::ifstream maps{"/proc/self/maps"};
    int count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find("memfd:actor-rdma") != std::string::npos ? 1 : 0;
    return count;
  };
  const auto settles_at = [&](int wanted) {
    for (int i = 0; i < 500 && mappings() != wanted; ++i)
      std::this_thread::sleep_for(10ms);
    return mappings() == wanted;
  };
  const auto name = unique_fabric();
  shared_target own{name};
  CHECK(mappings() == 1);
  peer_process peer{name, "peer", "immediate", "shared"};
  auto there = peer.where();
  peer.connect(own.e->where());
  own.e->connect(there);
  CHECK(own.e->write(1, there, 0, 0, 64) == 0);
  CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(mappings() == 2);
  CHECK(peer.ask("dereg") == "ok");
  CHECK(settles_at(1));
  CHECK(peer.ask("reg") == "ok");
  there = peer.where();
  CHECK(own.e->write(2, there, 0, 0, 64) == 0);
  CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(mappings() == 2);
  peer.kill();
  CHECK(settles_at(1));
}

TEST_CASE("deregistering and destroying beside a writing thread never lets a late byte in") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced})
    for (const auto how : {way::deregister, way::destroy, way::error}) {
      pair_rig rig{mode};
      fill(rig.a->memory, buffer_bytes, 3);
      std::atomic<bool> stop{false};
      const auto to = rig.b->where();
      std::thread writer{[&] {
        for (std::uint64_t i = 0; !stop.load(); ++i) {
          (void)rig.a->write(i, to, 0, 0, 64 << 10);
          (void)rig.a->poll();
        }
      }};
      std::this_thread::sleep_for(5ms);
      CHECK(take_away(*rig.b, how) == 0);
      std::memset(rig.b->memory, 0, 64 << 10);
      std::this_thread::sleep_for(5ms);
      CHECK(is_zero(rig.b->memory));
      stop = true;
      writer.join();
    }
}

TEST_CASE("local memory is not read or written after its deregistration, by whichever thread works") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.b->memory, buffer_bytes, 3);
  std::atomic<bool> stop{false};
  const auto from = rig.b->where();
  std::thread reader{[&] {
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      (void)rig.a->read(i, from, 0, 0, 64 << 10);
      (void)rig.a->poll();
    }
  }};
  std::this_thread::sleep_for(5ms);
  CHECK(take_away(*rig.a, way::deregister) == 0);
  std::memset(rig.a->memory, 0, 64 << 10);
  std::this_thread::sleep_for(5ms);
  CHECK(
      std::all_of(rig.a->memory, rig.a->memory + (64 << 10), [](std::byte b) { return b == std::byte{0}; }));
  stop = true;
  reader.join();
}

TEST_CASE("ten thousand lives of queue pairs and regions leave the tables as they were") {
  pair_rig rig{nic_mode::immediate};
  std::uint32_t last_rkey = 0;
  std::uint32_t last_qpn = 0;
  for (int i = 0; i < 10'000; ++i) {
    auto mr = memory_region::reg(rig.a->pd, rig.a->memory, 4096, all_access);
    REQUIRE(mr);
    CHECK(mr->lkey() != mr->rkey());
    CHECK(mr->rkey() != last_rkey + 1);
    last_rkey = mr->rkey();
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = rig.a->cq.get();
    init.cap = {16, 1, 1, 1, 0};
    auto qp = queue_pair::create(rig.a->pd, init);
    REQUIRE(qp);
    CHECK(qp->number() != last_qpn);
    last_qpn = qp->number();
    REQUIRE(qp->destroy());
    REQUIRE(mr->destroy());
  }
  for (const auto& d : rig.net->devices()) {
    CHECK(d.open_qps == 1);
    CHECK(d.open_mrs == 1);
  }
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->poll().size() == 1);
}
