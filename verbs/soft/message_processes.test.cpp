// SPDX-License-Identifier: Apache-2.0
//
// Messages across a process boundary, and several requesters on one shared receive queue at once.
#include "verbs/soft/testing/peer.hpp"

#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// Receives what several senders number in their messages, on one shared receive queue.
struct shared_receiver {
  static constexpr std::uint64_t receives = 16; // few: senders meet an empty queue again and again

  explicit shared_receiver(const std::string& fabric_name) {
    fabric_options f;
    f.name = fabric_name;
    net = *fabric::open(f);
    on = std::move(*net->attach("own", {device_options{}}));
    e = end::open(*on);
    ibv_srq_init_attr init{};
    init.attr = {receives, 1, 0};
    e->srq = on->verbs().create_srq(e->pd.get(), &init);
    REQUIRE(e->srq != nullptr);
    REQUIRE(e->qp.destroy());
    for (std::uint64_t i = 0; i < receives; ++i)
      REQUIRE(e->receive(i, 64 * i, 64) == 0);
  }
  ~shared_receiver() {
    e->qp = {};
    qps.clear();
    CHECK(on->verbs().destroy_srq(e->srq) == 0);
  }
  shared_receiver(const shared_receiver&) = delete;
  shared_receiver& operator=(const shared_receiver&) = delete;

  /// A queue pair for another sender, which the caller connects to it.
  address add(const address& sender) {
    e->options.rnr_timer = 1; // 10 us
    e->make_qp();
    e->connect(sender);
    const auto where = e->where();
    qps.push_back(std::move(e->qp));
    return where;
  }
  /// Until all came or nothing comes any more: how often each did, by sender and number.
  std::map<std::uint64_t, int> receive(std::size_t count) {
    std::map<std::uint64_t, int> seen;
    std::size_t n = 0;
    for (auto last = base::mono_clock::now(); n < count && base::mono_clock::now() - last < 10s;) {
      for (const auto& wc : e->poll()) {
        REQUIRE(wc.status == IBV_WC_SUCCESS);
        REQUIRE(wc.byte_len == 8);
        std::uint64_t what = 0;
        std::memcpy(&what, e->memory + 64 * wc.wr_id, sizeof what);
        ++seen[what];
        ++n;
        REQUIRE(e->receive(wc.wr_id, 64 * wc.wr_id, 64) == 0);
        last = base::mono_clock::now();
      }
    }
    return seen;
  }

  std::shared_ptr<fabric> net;
  std::unique_ptr<host> on;
  std::unique_ptr<end> e;
  std::vector<queue_pair> qps;
};

void check_each_once(const std::map<std::uint64_t, int>& seen, std::size_t expected) {
  CHECK(seen.size() == expected);
  std::size_t wrong = 0;
  for (const auto& [what, times] : seen)
    wrong += times == 1 ? 0 : 1;
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("messages cross a process boundary with their bytes, and wake an armed queue on either side") {
  for (const auto* const memory : {"shared", "private"}) {
    CAPTURE(memory);
    const auto name = unique_fabric();
    shared_target own{name};
    peer_process peer{name, "peer", "immediate", memory};
    own.e->options.rnr_retry = 7;
    peer.connect(own.e->where());
    own.e->connect(peer.where());
    fill(own.e->memory, buffer_bytes, 5);

    REQUIRE(peer.ask("receive 1 300 200000") == "0");
    REQUIRE(peer.ask("wake 5000") == "armed");
    REQUIRE(own.e->send(1, 100, 200'000) == 0);
    CHECK(own.e->poll_for(1).at(0).status == IBV_WC_SUCCESS);
    CHECK(peer.receive() == "awake");
    CHECK(peer.poll(1) == std::vector<int>{IBV_WC_SUCCESS});
    for (const std::size_t at : {0U, 1U, 65'536U, 199'999U})
      CHECK(peer.ask("byte " + std::to_string(300 + at)) ==
            std::to_string(static_cast<int>(own.e->memory[100 + at])));
    CHECK(peer.ask("byte 299") == "0");
    CHECK(peer.ask("byte 200300") == "0");

    REQUIRE(peer.ask("fill 9") == "ok");
    REQUIRE(own.e->receive(2, 0, buffer_bytes) == 0);
    REQUIRE(ibv_req_notify_cq(own.e->cq.get(), 0) == 0);
    REQUIRE(peer.ask("message 2 0 " + std::to_string(buffer_bytes)) == "0");
    pollfd fd{own.e->channel.fd(), POLLIN, 0};
    peer.send("poll 1 5000"); // it is more than one call moves
    CHECK(::poll(&fd, 1, 5000) == 1);
    CHECK(peer.receive() == "0 ");
    const auto got = own.e->poll();
    REQUIRE(got.size() == 1);
    CHECK(got[0].status == IBV_WC_SUCCESS);
    CHECK(got[0].wr_id == 2);
    CHECK(got[0].byte_len == buffer_bytes);
    std::vector<std::byte> expected(buffer_bytes);
    fill(expected.data(), buffer_bytes, 9);
    CHECK(std::memcmp(expected.data(), own.e->memory, buffer_bytes) == 0);
  }
}

TEST_CASE("threads that send to one shared receive queue at once: every message arrives once") {
  constexpr std::uint32_t senders = 4;
  constexpr std::uint32_t messages = 3000;
  shared_receiver own{unique_fabric()};
  const auto on = std::move(*own.net->attach("senders", {device_options{}}));
  qp_options options;
  options.rnr_retry = 7;
  std::vector<std::unique_ptr<end>> ends;
  for (std::uint32_t i = 0; i < senders; ++i) {
    ends.push_back(end::open(*on, 0, options));
    ends.back()->connect(own.add(ends.back()->where()));
  }
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < senders; ++i)
    threads.emplace_back([i, &e = *ends[i]] {
      for (std::uint32_t sent = 0; sent < messages; ++sent) {
        std::memcpy(e.memory, &i, sizeof i);
        std::memcpy(e.memory + sizeof i, &sent, sizeof sent);
        if (e.send(sent, 0, 8) != 0)
          return;
        for (std::size_t done = 0; done == 0;)
          for (const auto& wc : e.poll()) {
            ++done;
            if (wc.status != IBV_WC_SUCCESS)
              return;
          }
      }
    });
  const auto seen = own.receive(senders * messages);
  for (auto& thread : threads)
    thread.join();
  check_each_once(seen, senders * messages);
}

TEST_CASE("processes that send to one shared receive queue at once: every message arrives once") {
  constexpr std::uint32_t messages = 2000;
  const auto name = unique_fabric();
  shared_receiver own{name};
  peer_process first{name, "first", "immediate", "private"};
  peer_process second{name, "second", "immediate", "shared"};
  for (auto* const peer : {&first, &second})
    peer->connect(own.add(peer->where()));
  first.send("messages 1 " + std::to_string(messages));
  second.send("messages 2 " + std::to_string(messages));
  check_each_once(own.receive(2 * messages), 2 * messages);
  CHECK(first.receive() == "ok");
  CHECK(second.receive() == "ok");
}
