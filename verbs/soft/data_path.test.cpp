// SPDX-License-Identifier: Apache-2.0
//
// Work requests that go well: bytes, order, completions, queue slots.
#include "verbs/soft/provider_table.hpp"
#include "verbs/soft/testing/rig.hpp"

#include <chrono>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

TEST_CASE("an immediate write has landed when the post returns") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.a->memory, 4096, 3);
  CHECK(rig.a->write(42, rig.b->where(), 0, 8192, 4096) == 0);
  CHECK(std::memcmp(rig.a->memory, rig.b->memory + 8192, 4096) == 0);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 1);
  CHECK(wcs[0].wr_id == 42);
  CHECK(wcs[0].status == IBV_WC_SUCCESS);
  CHECK(wcs[0].opcode == IBV_WC_RDMA_WRITE);
  CHECK(wcs[0].qp_num == rig.a->qp.number());
  CHECK(rig.b->poll().empty());
  CHECK(tier_use(rig.a->qp.get())[0] == 1);
}

TEST_CASE("a read brings the peer's bytes") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode};
    fill(rig.b->memory, buffer_bytes, 5);
    CHECK(rig.a->read(7, rig.b->where(), 4096, 100, 70000) == 0);
    const auto wcs = rig.a->poll_for(1);
    REQUIRE(wcs.size() == 1);
    CHECK(wcs[0].status == IBV_WC_SUCCESS);
    CHECK(wcs[0].opcode == IBV_WC_RDMA_READ);
    CHECK(wcs[0].byte_len == 70000);
    CHECK(std::memcmp(rig.a->memory + 4096, rig.b->memory + 100, 70000) == 0);
  }
}

TEST_CASE("four pieces are gathered into one write and scattered by one read") {
  for (const auto mode : {nic_mode::immediate, nic_mode::paced}) {
    pair_rig rig{mode};
    fill(rig.a->memory, 8192, 9);
    const auto local = reinterpret_cast<std::uintptr_t>(rig.a->memory);
    ibv_sge pieces[4] = {{local, 100, rig.a->mr.lkey()},
                         {local + 5000, 1, rig.a->mr.lkey()},
                         {local + 1000, 0, rig.a->mr.lkey()},
                         {local + 300, 777, rig.a->mr.lkey()}};
    ibv_send_wr wr{};
    wr.sg_list = pieces;
    wr.num_sge = 4;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = rig.b->where().addr;
    wr.wr.rdma.rkey = rig.b->where().rkey;
    CHECK(rig.a->post({&wr, 1}) == 0);
    REQUIRE(rig.a->poll_for(1).size() == 1);
    CHECK(std::memcmp(rig.b->memory, rig.a->memory, 100) == 0);
    CHECK(rig.b->memory[100] == rig.a->memory[5000]);
    CHECK(std::memcmp(rig.b->memory + 101, rig.a->memory + 300, 777) == 0);
    std::memset(rig.a->memory, 0, 8192);
    wr.opcode = IBV_WR_RDMA_READ;
    CHECK(rig.a->post({&wr, 1}) == 0);
    REQUIRE(rig.a->poll_for(1).size() == 1);
    CHECK(std::memcmp(rig.b->memory, rig.a->memory, 100) == 0);
    CHECK(rig.b->memory[100] == rig.a->memory[5000]);
    CHECK(std::memcmp(rig.b->memory + 101, rig.a->memory + 300, 777) == 0);
  }
}

TEST_CASE("inline data is copied at the post and needs no key") {
  pair_rig rig{nic_mode::paced, true};
  std::uint64_t word = 0x0123456789abcdef;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(&word), sizeof word, 0};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = rig.b->where().addr;
  wr.wr.rdma.rkey = rig.b->where().rkey;
  CHECK(rig.a->post({&wr, 1}) == 0);
  word = 0;
  rig.run_for(1ms);
  REQUIRE(rig.a->poll().size() == 1);
  std::memcpy(&word, rig.b->memory, sizeof word);
  CHECK(word == 0x0123456789abcdef);
  sge.length = 65; // one more than was granted
  CHECK(rig.a->post({&wr, 1}) == EINVAL);
  wr.opcode = IBV_WR_RDMA_READ;
  sge.length = 8;
  CHECK(rig.a->post({&wr, 1}) == EINVAL);
}

TEST_CASE("an immediate post copies 256 KiB and leaves the rest for later") {
  pair_rig rig{nic_mode::immediate, true};
  fill(rig.a->memory, buffer_bytes, 1);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, buffer_bytes) == 0);
  CHECK(std::memcmp(rig.a->memory, rig.b->memory, 256 << 10) == 0);
  CHECK(rig.b->memory[(256 << 10) + 1] == std::byte{0});
  CHECK(rig.a->poll().empty());
  CHECK(rig.net->next_event() == rig.clock.now());
  rig.run_for(0ns);
  CHECK(rig.a->poll().size() == 1);
  CHECK(std::memcmp(rig.a->memory, rig.b->memory, buffer_bytes) == 0);
}

TEST_CASE("polls carry on what an immediate post left") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.a->memory, buffer_bytes, 1);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, buffer_bytes) == 0);
  CHECK(rig.a->poll_for(1).size() == 1);
  CHECK(std::memcmp(rig.a->memory, rig.b->memory, buffer_bytes) == 0);
}

TEST_CASE("the null mode completes and moves nothing but words") {
  pair_rig rig{nic_mode::null};
  fill(rig.a->memory, 4096, 1);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.b->memory[1] == std::byte{0});
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 8) == 0);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.b->memory[1] == rig.a->memory[1]);
}

TEST_CASE("the null mode with a rate moves nothing but words, and takes its time") {
  device_options device;
  device.rate_gbit_s = 8; // a byte a nanosecond
  pair_rig rig{nic_mode::paced_null, true, {}, device};
  fill(rig.a->memory, 4096, 1);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 4096) == 0);
  rig.run_for(4us);
  CHECK(rig.a->poll().empty());
  rig.run_for(20us);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.b->memory[1] == std::byte{0});
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 8) == 0);
  rig.run_for(20us);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.b->memory[1] == rig.a->memory[1]);
}

TEST_CASE("a read waits behind what others have sent to its responder") {
  device_options device;
  device.rate_gbit_s = 8; // a byte a nanosecond
  pair_rig rig{nic_mode::paced, true, {}, device};
  REQUIRE(rig.net->set_rate("b/soft0", 0.08)); // its incoming queue is what is slow
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 50000) == 0);
  CHECK(rig.a->read(2, rig.b->where(), 0, 0, 8) == 0);
  rig.run_for(4900us);
  CHECK(rig.a->poll().empty());
  rig.run_for(200us);
  CHECK(rig.a->poll().size() == 2);
}

TEST_CASE("completions of a queue pair come in the order of its posts") {
  pair_rig rig{nic_mode::paced, true};
  for (std::uint64_t i = 0; i < 200; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, i % 3 == 0 ? 60000 : 8) == 0);
  rig.run_for(1s);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 200);
  for (std::uint64_t i = 0; i < 200; ++i)
    CHECK(wcs[i].wr_id == i);
}

TEST_CASE("paced traffic takes the time of the slower end and the latency") {
  device_options device;
  device.rate_gbit_s = 8; // a byte a nanosecond
  device.latency = 5us;
  pair_rig rig{nic_mode::paced, true, {}, device};
  REQUIRE(rig.net->set_rate("b/soft0", 4));
  const auto start = rig.clock.now();
  for (std::uint64_t i = 0; i < 10; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 50000) == 0);
  rig.run_until(start + 1ms + 9us);
  CHECK(rig.a->poll().size() == 9);
  rig.run_until(start + 1ms + 10us); // 500,000 bytes at 2 ns each and both ways of latency
  CHECK(rig.a->poll().size() == 1);
}

TEST_CASE("queue pairs of a paced device share its rate") {
  device_options device;
  device.rate_gbit_s = 8;
  pair_rig rig{nic_mode::paced, true, {}, device};
  auto a2 = end::open(*rig.host_a);
  auto b2 = end::open(*rig.host_b);
  a2->connect(b2->where());
  b2->connect(a2->where());
  for (std::uint64_t i = 0; i < 100; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 100'000) == 0);
  rig.run_for(1ms);
  for (std::uint64_t i = 0; i < 10; ++i)
    CHECK(a2->write(i, b2->where(), 0, 0, 100'000) == 0);
  rig.run_for(3ms); // of ten milliseconds that the first needs in all
  CHECK(a2->poll().size() >= 9);
  CHECK(rig.a->poll().size() <= 30);
}

TEST_CASE("slots of unsignaled work come back only with a later signaled completion that is polled") {
  qp_options options;
  options.max_send_wr = 8;
  pair_rig rig{nic_mode::immediate, false, options};
  const auto to = rig.b->where();
  for (int i = 0; i < 7; ++i)
    CHECK(rig.a->write(1, to, 0, 0, 8, false) == 0);
  CHECK(rig.a->write(2, to, 0, 0, 8, true) == 0);
  CHECK(rig.a->write(3, to, 0, 0, 8, true) == ENOMEM);
  CHECK(rig.a->poll().size() == 1);
  ibv_sge sge{to.addr, 8, rig.a->mr.lkey()};
  sge.addr = reinterpret_cast<std::uintptr_t>(rig.a->memory);
  std::vector<ibv_send_wr> chain(10);
  for (auto& wr : chain) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = to.addr;
    wr.wr.rdma.rkey = to.rkey;
  }
  std::size_t accepted = 0;
  CHECK(rig.a->post(chain, &accepted) == ENOMEM);
  CHECK(accepted == 8);
  CHECK(rig.a->poll().empty());
  CHECK(rig.a->write(4, to, 0, 0, 8) ==
        ENOMEM); // all eight were unsignaled: the queue is stuck, as on hardware
}

TEST_CASE("modes change while traffic runs and keep the order") {
  pair_rig rig{nic_mode::paced, true};
  for (std::uint64_t i = 0; i < 20; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 50000) == 0);
  rig.run_for(30us);
  REQUIRE(rig.net->set_mode("a/soft0", nic_mode::immediate));
  for (std::uint64_t i = 20; i < 25; ++i)
    CHECK(rig.a->write(i, rig.b->where(), 0, 0, 50000) == 0);
  rig.run_for(10ms);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 25);
  for (std::uint64_t i = 0; i < 25; ++i)
    CHECK(wcs[i].wr_id == i);
}

TEST_CASE("what this NIC does not do is refused at the post") {
  pair_rig rig{nic_mode::immediate};
  ibv_send_wr wr{};
  for (const auto opcode : {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO}) {
    wr.opcode = opcode;
    CHECK(rig.a->post({&wr, 1}) == EINVAL);
  }
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.num_sge = 5;
  CHECK(rig.a->post({&wr, 1}) == EINVAL);
}
