// SPDX-License-Identifier: Apache-2.0
//
// Fabrics of several processes: the same work across a process boundary, peers that die or stop, and the
// segment that they leave behind.
#include "verbs/soft/provider_table.hpp"
#include "verbs/soft/testing/peer.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

std::filesystem::path segment_of(const std::string& name) {
  return "/dev/shm/actor-rdma-soft-" + std::to_string(::geteuid()) + '-' + name;
}

/// This process's end on a named fabric.
struct own_end {
  explicit own_end(std::string fabric_name, nic_mode mode = nic_mode::immediate, bool is_shared = true,
                   qp_options options = {})
      : name{std::move(fabric_name)} {
    fabric_options f;
    f.name = name;
    net = *fabric::open(f);
    device_options device;
    device.mode = mode;
    on = std::move(*net->attach("own", {device}));
    shared = is_shared ? allocate_shared(buffer_bytes) : nullptr;
    e = end::open(*on, 0, options, static_cast<std::byte*>(shared));
  }
  ~own_end() {
    e.reset();
    on.reset();
    free_shared(shared, buffer_bytes);
  }
  void connect(peer_process& peer) {
    there = peer.where();
    peer.connect(e->where());
    e->connect(there);
  }

  std::string name;
  std::shared_ptr<fabric> net;
  std::unique_ptr<host> on;
  void* shared = nullptr;
  std::unique_ptr<end> e;
  address there;
};

} // namespace

TEST_CASE("writes and reads cross a process boundary, through shared pages where there are any") {
  for (const auto* const mode : {"immediate", "paced"})
    for (const auto* const memory : {"shared", "private"}) {
      CAPTURE(mode);
      CAPTURE(memory);
      const auto name = unique_fabric();
      own_end own{name, mode == std::string{"paced"} ? nic_mode::paced : nic_mode::immediate};
      peer_process peer{name, "peer", mode, memory};
      own.connect(peer);
      fill(own.e->memory, buffer_bytes, 1);
      CHECK(own.e->write(1, own.there, 100, 300, 200'000) == 0);
      auto wcs = own.e->poll_for(1);
      REQUIRE(wcs.size() == 1);
      CHECK(wcs[0].status == IBV_WC_SUCCESS);
      for (const std::size_t at : {0U, 1U, 199'999U})
        CHECK(peer.ask("byte " + std::to_string(300 + at)) ==
              std::to_string(static_cast<int>(own.e->memory[100 + at])));
      CHECK(peer.ask("byte 299") == "0");
      CHECK(peer.ask("byte 200300") == "0");
      REQUIRE(peer.ask("fill 7") == "ok");
      CHECK(own.e->read(2, own.there, 0, 0, buffer_bytes) == 0);
      wcs = own.e->poll_for(1);
      REQUIRE(wcs.size() == 1);
      CHECK(wcs[0].status == IBV_WC_SUCCESS);
      std::vector<std::byte> expected(buffer_bytes);
      fill(expected.data(), buffer_bytes, 7);
      CHECK(std::memcmp(expected.data(), own.e->memory, buffer_bytes) == 0);
      const auto expected_tier = memory == std::string{"shared"} ? tier::mapped : tier::system_call;
      tier_counts counts{};
      counts[static_cast<std::size_t>(expected_tier)] = 2;
      CHECK(tier_use(own.e->qp.get()) == counts);
      // The other way round.
      CHECK(peer.ask("write 5 0 4000 1000") == "0");
      CHECK(peer.poll(1) == std::vector<int>{IBV_WC_SUCCESS});
      CHECK(std::memcmp(expected.data(), own.e->memory + 4000, 1000) == 0);
      CHECK(peer.quit() == 0);
    }
}

TEST_CASE("a bad key across processes ends both queue pairs, and the owner hears of it") {
  own_end own{unique_fabric()};
  peer_process peer{own.name, "peer", "immediate", "shared"};
  own.connect(peer);
  auto wrong = own.there;
  wrong.rkey ^= 0x10000;
  CHECK(own.e->write(1, wrong, 0, 0, 64) == 0);
  CHECK(own.e->poll_for(1).at(0).status == IBV_WC_REM_ACCESS_ERR);
  CHECK(peer.ask("event") == std::to_string(IBV_EVENT_QP_ACCESS_ERR));
  CHECK(peer.ask("state") == std::to_string(IBV_QPS_ERR));
}

TEST_CASE("a link that one process cuts stops the other, and both hear of it") {
  own_end own{unique_fabric()};
  peer_process peer{own.name, "peer", "immediate", "shared"};
  own.connect(peer);
  REQUIRE(own.net->set_link("peer/soft0", false));
  CHECK(peer.ask("event") == std::to_string(IBV_EVENT_PORT_ERR));
  CHECK(own.e->write(1, own.there, 0, 0, 64) == 0);
  CHECK(peer.ask("write 1 0 0 64") == "0");
  std::this_thread::sleep_for(20ms);
  CHECK(own.e->poll().empty());
  CHECK(peer.poll(1, 0).empty());
  REQUIRE(own.net->set_link("peer/soft0", true));
  CHECK(peer.ask("event") == std::to_string(IBV_EVENT_PORT_ACTIVE));
  CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(peer.poll(1) == std::vector<int>{IBV_WC_SUCCESS});
}

TEST_CASE("work towards a killed process ends in retry-exceeded in its time") {
  for (const auto* const memory : {"shared", "private"}) {
    own_end own{unique_fabric()};
    peer_process peer{own.name, "peer", "immediate", memory};
    own.connect(peer);
    CHECK(own.e->write(1, own.there, 0, 0, 64) == 0);
    CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
    peer.kill();
    const auto start = base::mono_clock::now();
    CHECK(own.e->write(2, own.there, 0, 0, 64) == 0);
    const auto wcs = own.e->poll_for(1);
    const auto took = base::mono_clock::now() - start;
    REQUIRE(wcs.size() == 1);
    CHECK(wcs[0].status == IBV_WC_RETRY_EXC_ERR);
    CHECK(took >= 134ms);
    CHECK(took < 1s);
  }
}

TEST_CASE("memory that the owner deregisters is not touched any more, by whichever way") {
  for (const auto* const memory : {"shared", "private"}) {
    own_end own{unique_fabric()};
    peer_process peer{own.name, "peer", "immediate", memory};
    own.connect(peer);
    fill(own.e->memory, 64, 1);
    CHECK(own.e->write(1, own.there, 0, 0, 64) == 0);
    CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
    CHECK(peer.ask("dereg") == "ok");
    CHECK(own.e->write(2, own.there, 0, 4096, 64) == 0);
    CHECK(own.e->poll_for(1).at(0).status == IBV_WC_REM_ACCESS_ERR);
    CHECK(peer.ask("byte 4097") == "0");
  }
}

TEST_CASE("a registration that is renewed is mapped anew") {
  own_end own{unique_fabric()};
  peer_process peer{own.name, "peer", "immediate", "shared"};
  own.connect(peer);
  for (int i = 0; i < 20; ++i) {
    CHECK(own.e->write(1, own.there, 0, static_cast<std::uint64_t>(i), 1) == 0);
    CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
    CHECK(peer.ask("dereg") == "ok");
    CHECK(peer.ask("reg") == "ok");
    own.there = peer.where();
  }
  CHECK(tier_use(own.e->qp.get())[static_cast<std::size_t>(tier::mapped)] == 20);
}

TEST_CASE("the slots of killed processes are taken back by the next one") {
  own_end own{unique_fabric()};
  const auto before = own.net->devices().size();
  for (int i = 0; i < 3; ++i) {
    peer_process peer{own.name, "peer", "immediate",
                      "private"}; // the same name again: the old device must be gone
    CHECK(own.net->devices().size() == before + 1);
    peer.kill();
  }
  peer_process last{own.name, "other", "immediate", "private"};
  CHECK(own.net->devices().size() == before + 1);
  CHECK(last.quit() == 0);
  CHECK(own.net->devices().size() == before);
}

TEST_CASE("the segment is private to the user, and goes with the last process") {
  const auto name = unique_fabric();
  {
    own_end own{name};
    const auto status = std::filesystem::status(segment_of(name));
    CHECK(status.permissions() == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    peer_process peer{name, "peer", "immediate", "private"};
    CHECK(peer.quit() == 0);
    CHECK(std::filesystem::exists(segment_of(name)));
  }
  CHECK(!std::filesystem::exists(segment_of(name)));
}

TEST_CASE("a segment that nobody living uses is replaced, faults and all") {
  const auto name = unique_fabric();
  {
    peer_process peer{name, "peer", "immediate", "private"};
    fabric_options f;
    f.name = name;
    f.observe_only = true;
    const auto watcher = fabric::open(f);
    REQUIRE(watcher);
    REQUIRE((*watcher)->set_link("peer/soft0", false));
    CHECK(!(*watcher)->attach("nobody", {}));
    peer.kill();
    CHECK(!fabric::open(f)); // for a watcher there is nothing to see
  }
  CHECK(std::filesystem::exists(segment_of(name)));
  own_end own{name};
  CHECK(own.net->devices().size() == 1);
  std::uint64_t next = 0;
  for (const auto& e : own.net->read_log(0, next))
    CHECK(e.kind != log_kind::link_down);
}

TEST_CASE("bad names and missing fabrics are refused with a sentence") {
  fabric_options f;
  f.name = "../etc/passwd";
  CHECK(fabric::open(f).error().why == base::reason::invalid_argument);
  f.name = "no-such-fabric-here";
  f.observe_only = true;
  CHECK(fabric::open(f).error().why == base::reason::not_found);
  base::manual_clock clock;
  f = {};
  f.name = unique_fabric();
  f.clock = &clock;
  CHECK(fabric::open(f).error().why == base::reason::invalid_argument);
}

TEST_CASE("two attachments of one process copy directly") {
  const auto name = unique_fabric();
  own_end one{name, nic_mode::immediate, false};
  fabric_options f;
  f.name = name;
  const auto net = *fabric::open(f);
  const auto on = std::move(*net->attach("second", {device_options{}}));
  auto two = end::open(*on);
  one.e->connect(two->where());
  two->connect(one.e->where());
  CHECK(one.e->write(1, two->where(), 0, 0, 64) == 0);
  CHECK(one.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(tier_use(one.e->qp.get())[static_cast<std::size_t>(tier::own_process)] == 1);
}

TEST_CASE("a forked child can exit, and its parent goes on") {
  own_end own{unique_fabric()};
  peer_process peer{own.name, "peer", "immediate", "shared"};
  own.connect(peer);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) { // destroys what it inherited, as an exit would
    own.e.reset();
    own.on.reset();
    own.net.reset();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(own.e->write(1, own.there, 0, 0, 64) == 0);
  CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
  CHECK(own.net->devices().size() == 2);
}
