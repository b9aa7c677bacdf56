// SPDX-License-Identifier: Apache-2.0
//
// What is behind a port: members of a bond, the memory of the host, and what a port says of its width.
#include "verbs/soft/testing/rig.hpp"

#include <chrono>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// Two hosts with devices of 8 Gbit/s, in virtual time: a MiB takes 1.05 ms on a wire.
struct hosts_rig {
  explicit hosts_rig(std::size_t devices, device_options how = {}) {
    fabric_options f;
    f.clock = &clock;
    net = *fabric::open(f);
    how.mode = nic_mode::paced;
    how.rate_gbit_s = 8;
    std::vector<device_options> all(devices, how);
    for (std::size_t i = 0; i < devices; ++i)
      all[i].name = "soft" + std::to_string(i);
    a = std::move(*net->attach("a", all));
    b = std::move(*net->attach("b", all));
  }
  /// A pair of queue pairs between devices of the same number.
  void connect(std::size_t device = 0) {
    senders.push_back(end::open(*a, device));
    receivers.push_back(end::open(*b, device));
    senders.back()->connect(receivers.back()->where());
    receivers.back()->connect(senders.back()->where());
  }
  void run_until(base::time_point until) {
    advance_until(*net, clock, until);
    net->advance(until);
  }
  /// All senders write a MiB each at once: how many have ended well after that time.
  std::size_t written_within(base::duration time) {
    for (std::size_t i = 0; i < senders.size(); ++i)
      CHECK(senders[i]->write(1, receivers[i]->where(), 0, 0, buffer_bytes) == 0);
    run_until(clock.now() + time);
    std::size_t good = 0;
    for (auto& s : senders)
      for (const auto& wc : s->poll())
        good += wc.status == IBV_WC_SUCCESS ? 1 : 0;
    return good;
  }

  base::manual_clock clock;
  std::shared_ptr<fabric> net;
  std::unique_ptr<host> a;
  std::unique_ptr<host> b;
  std::vector<std::unique_ptr<end>> senders;
  std::vector<std::unique_ptr<end>> receivers;
};

} // namespace

TEST_CASE("the memory of a host takes for all of its devices together what it can") {
  device_options how;
  how.host_memory_gbit_s = 8;
  hosts_rig rig{2, how};
  rig.connect(0);
  rig.connect(1);
  CHECK(rig.written_within(1200us) == 1); // each wire had brought its own by 1.07 ms
  rig.run_until(rig.clock.now() + 1ms);
  CHECK(rig.senders[0]->poll().size() + rig.senders[1]->poll().size() == 1);
  REQUIRE(rig.net->set_host_memory("a", 0));
  REQUIRE(rig.net->set_host_memory("b", 80));
  CHECK(rig.written_within(1200us) == 2);
  CHECK(!rig.net->set_host_memory("c", 8));
}

TEST_CASE("a read waits for the memory that it comes from") {
  device_options how;
  how.host_memory_gbit_s = 2;
  hosts_rig rig{1, how};
  rig.connect();
  REQUIRE(rig.net->set_host_memory("a", 0));
  CHECK(rig.senders[0]->read(1, rig.receivers[0]->where(), 0, 0, buffer_bytes) == 0);
  rig.run_until(rig.clock.now() + 4ms);
  CHECK(rig.senders[0]->poll().empty());
  rig.run_until(rig.clock.now() + 1ms);
  CHECK(rig.senders[0]->poll().size() == 1);
}

TEST_CASE("devices of one host agree on its memory") {
  hosts_rig rig{1};
  std::vector<device_options> two(2);
  two[1].name = "soft1";
  two[1].host_memory_gbit_s = 8;
  const auto made = rig.net->attach("c", two);
  REQUIRE(!made);
  CHECK(made.error().to_string().find("host_memory_gbit_s of c/soft1 is not that of c/soft0") !=
        std::string::npos);
}

TEST_CASE("queue pairs use the members of a bond in turn, each at its own rate") {
  device_options how;
  how.bond_members = 2;
  hosts_rig rig{1, how};
  for (int i = 0; i < 4; ++i)
    rig.connect();
  CHECK(rig.net->devices().at(0).rate_gbit_s == doctest::Approx(16));
  CHECK(rig.written_within(1200us) == 2);
  rig.run_until(rig.clock.now() + 1ms); // two on each wire, in 2.1 ms
  std::size_t ended = 0;
  for (auto& s : rig.senders)
    ended += s->poll().size();
  CHECK(ended == 2);
  REQUIRE(rig.net->set_rate("a/soft0", 80, 0));
  REQUIRE(rig.net->set_rate("b/soft0", 80, 0));
  CHECK(rig.written_within(1200us) == 3);
}

TEST_CASE("a member that fails loses what its queue pairs send, and the port says nothing") {
  device_options how;
  how.bond_members = 2;
  hosts_rig rig{1, how};
  rig.connect();
  rig.connect();
  REQUIRE(rig.net->set_member("b/soft0", 1, false));
  CHECK(rig.net->devices().at(1).members_up == 1);
  CHECK(rig.written_within(2ms) == 1);
  CHECK(rig.senders[0]->ctx.query_port(1)->state == IBV_PORT_ACTIVE);
  CHECK(rig.receivers[1]->ctx.query_port(1)->state == IBV_PORT_ACTIVE);
  CHECK(!*rig.receivers[1]->ctx.next_async_event());
  REQUIRE(rig.net->set_member("b/soft0", 1, true));
  rig.run_until(rig.clock.now() + 2ms);
  CHECK(rig.senders[1]->poll().size() == 1);
  CHECK(!rig.net->set_member("b/soft0", 2, false));
}

TEST_CASE("queue pairs of a member that is down use another one after the time that is said") {
  device_options how;
  how.bond_members = 2;
  hosts_rig rig{1, how};
  rig.connect();
  REQUIRE(rig.net->set_member("a/soft0", 0, false, 60ms)); // it tries again after 67 ms, and once more
  CHECK(rig.written_within(50ms) == 0);
  CHECK(rig.senders[0]->state() == IBV_QPS_RTS);
  rig.run_until(rig.clock.now() + 30ms);
  CHECK(rig.senders[0]->poll().size() == 1);
  REQUIRE(rig.net->reset_faults());
  CHECK(rig.net->devices().at(0).members_up == 2);
}

TEST_CASE("a port says how wide it is, and is as slow as that") {
  hosts_rig rig{1};
  rig.connect();
  auto& ctx = rig.senders[0]->ctx;
  CHECK(ctx.query_port(1)->active_width == 2);
  CHECK(ctx.query_port(1)->active_speed == 32);
  REQUIRE(rig.net->set_width("a/soft0", 1, 50));
  CHECK(ctx.query_port(1)->active_width == 1);
  CHECK(ctx.query_port(1)->active_speed == 64);
  CHECK(rig.net->devices().at(0).rate_gbit_s == doctest::Approx(4));
  CHECK(rig.written_within(2ms) == 0);
  rig.run_until(rig.clock.now() + 1ms);
  CHECK(rig.senders[0]->poll().size() == 1);
  REQUIRE(rig.net->set_width("a/soft0", 4, 25));
  CHECK(rig.net->devices().at(0).rate_gbit_s == doctest::Approx(8));
  CHECK(!rig.net->set_width("a/soft0", 3, 25));
  CHECK(!rig.net->set_width("a/soft0", 4, 26));
}
