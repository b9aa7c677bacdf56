// SPDX-License-Identifier: Apache-2.0
//
// The engine thread in real time: it serves those who sleep, and costs nothing when there is nothing to do.
#include "verbs/soft/testing/rig.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

double cpu_seconds(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double process_cpu_seconds() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double thread_cpu_seconds() {
  return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

} // namespace

TEST_CASE("an armed completion queue wakes a sleeper when paced work is done") {
  device_options device;
  device.latency = 20ms;
  pair_rig rig{nic_mode::paced, false, {}, device};
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  const auto start = base::mono_clock::now();
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(!is_readable(rig.a->channel.fd(), 0));
  CHECK(is_readable(rig.a->channel.fd(), 1000));
  CHECK(base::mono_clock::now() - start >= 40ms); // there and back
  CHECK(base::mono_clock::now() - start < 150ms);
  CHECK(rig.a->channel.drain() == 1);
  CHECK(rig.a->poll().size() == 1);
  CHECK(rig.a->channel.drain() == 0);
}

TEST_CASE("no wake-up is lost between an engine that falls asleep and work that is due soon") {
  device_options device;
  device.latency = 0ns;
  device.rate_gbit_s = 1000;
  pair_rig rig{nic_mode::paced, false, {}, device};
  const auto end_at = base::mono_clock::now() + 3s;
  std::atomic<bool> is_lost{false};
  // Two that sleep and wake without regard for each other: each meets the engine at all steps of the other's
  // service.
  const auto sleeper = [&](end& from, const address& to) {
    while (!is_lost && base::mono_clock::now() < end_at) {
      CHECK(ibv_req_notify_cq(from.cq.get(), 0) == 0);
      CHECK(from.write(1, to, 0, 0, 60'000) == 0); // due in half a microsecond
      const auto patience = base::mono_clock::now() + 1s;
      bool is_woken = false;
      do {
        is_woken = from.channel.drain() != 0;
      } while (!is_woken && base::mono_clock::now() < patience);
      if (!is_woken)
        is_lost = true;
      CHECK(from.poll().size() == 1);
    }
  };
  std::thread first{[&] { sleeper(*rig.a, rig.b->where()); }};
  std::thread second{[&] { sleeper(*rig.b, rig.a->where()); }};
  first.join();
  second.join();
  CHECK(!is_lost);
}

TEST_CASE("arming fires once, and only for what comes after it") {
  pair_rig rig{nic_mode::immediate};
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  CHECK(!is_readable(rig.a->channel.fd(), 10));
  CHECK(rig.a->write(2, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->write(3, rig.b->where(), 0, 0, 64) == 0);
  CHECK(is_readable(rig.a->channel.fd(), 1000));
  CHECK(rig.a->channel.drain() == 1);
  CHECK(rig.a->poll().size() == 3);
}

TEST_CASE("armed for solicited events, only an error fires") {
  pair_rig rig{nic_mode::immediate};
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 1) == 0);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->channel.drain() == 0);
  auto wrong = rig.b->where();
  wrong.rkey ^= 0x10000;
  CHECK(rig.a->write(2, wrong, 0, 0, 64) == 0);
  CHECK(rig.a->channel.drain() == 1);
}

TEST_CASE("paced payload lands though nobody polls") {
  pair_rig rig{nic_mode::paced};
  fill(rig.a->memory, 64, 1);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  std::this_thread::sleep_for(200ms);
  CHECK(rig.net->devices()[0].bytes_sent == 64);
  const auto start = base::mono_clock::now();
  CHECK(rig.a->poll().size() == 1);
  CHECK(base::mono_clock::now() - start < 100ms);
  CHECK(std::memcmp(rig.a->memory, rig.b->memory, 64) == 0);
}

TEST_CASE("port events and retry time-outs reach a sleeper") {
  qp_options options;
  options.timeout = 12; // 17 ms
  pair_rig rig{nic_mode::immediate, false, options};
  REQUIRE(rig.net->set_link("b/soft0", false));
  CHECK(is_readable(rig.b->ctx.async_fd(), 1000));
  const auto event = rig.b->ctx.next_async_event();
  REQUIRE((event && *event));
  CHECK((*event)->type == IBV_EVENT_PORT_ERR);
  CHECK((*event)->port == 1);
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  const auto start = base::mono_clock::now();
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(is_readable(rig.a->channel.fd(), 1000));
  CHECK(base::mono_clock::now() - start >= 33ms);
  CHECK(base::mono_clock::now() - start < 300ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("delayed packets land though their sender is gone and nobody polls") {
  pair_rig rig{nic_mode::immediate};
  fill(rig.a->memory, 64, 1);
  REQUIRE(rig.net->set_delay("a/soft0", 20ms));
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  REQUIRE(rig.a->qp.destroy());
  for (int i = 0; i < 500 && rig.count(log_kind::landed_late) == 0; ++i)
    std::this_thread::sleep_for(1ms);
  CHECK(rig.count(log_kind::landed_late) == 1);
  REQUIRE(rig.b->qp.destroy()); // orders the look below after the landing
  CHECK(std::memcmp(rig.a->memory, rig.b->memory, 64) == 0);
}

TEST_CASE("an idle fabric costs no processor time") {
  pair_rig rig{nic_mode::paced};
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  CHECK(rig.a->poll_for(1).size() == 1);
  REQUIRE(ibv_req_notify_cq(rig.a->cq.get(), 0) == 0);
  std::this_thread::sleep_for(20ms);
  const auto before = process_cpu_seconds();
  std::this_thread::sleep_for(1s);
  CHECK(process_cpu_seconds() - before < 0.01);
}

namespace {

/// Gbit/s that an owner gets through who polls without rest for half a second.
double paced_rate() {
  device_options device;
  device.rate_gbit_s = 2;
  qp_options options;
  options.max_send_wr = 1024; // 0.27 s of work: whoever polls may be kept from it for a while
  pair_rig rig{nic_mode::paced, false, options, device};
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  const auto start = base::mono_clock::now();
  while (base::mono_clock::now() - start < 500ms) {
    for (; posted - done < options.max_send_wr; ++posted)
      REQUIRE(rig.a->write(posted, rig.b->where(), 0, 0, 64 << 10) == 0);
    done += rig.a->poll().size();
  }
  const auto seconds = std::chrono::duration<double>(base::mono_clock::now() - start).count();
  return static_cast<double>(done) * 65536 * 8e-9 / seconds;
}

struct help {
  double share = 0;         ///< CPU time that others of the process used, against the poller's own
  base::duration longest{}; ///< that the poller was away
};

/// One thread posts and polls without rest.
help help_of_others() {
  constexpr std::uint64_t writes = 4000; // of 1 MiB: far more than what the engine leaves to a poller
  qp_options options;
  options.max_send_wr = writes;
  options.cq_entries = static_cast<int>(writes);
  pair_rig rig{nic_mode::immediate, false, options};
  const auto in_process = process_cpu_seconds();
  const auto in_thread = thread_cpu_seconds();
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  help h;
  auto polled_at = base::mono_clock::now();
  for (const auto end_at = polled_at + 60s; done < writes && polled_at < end_at;
       done += rig.a->poll().size()) {
    const auto now = base::mono_clock::now();
    h.longest = std::max(h.longest, now - polled_at);
    polled_at = now;
    for (int burst = 0; posted < writes && burst < 10; ++burst, ++posted)
      REQUIRE(rig.a->write(posted, rig.b->where(), 0, 0, buffer_bytes) == 0);
  }
  CHECK(done == writes);
  const auto own = thread_cpu_seconds() - in_thread;
  h.share = (process_cpu_seconds() - in_process - own) / own;
  return h;
}

/// A machine that is busy with other things can spoil one run, and not so easily all of them.
constexpr int runs = 6;

} // namespace

TEST_CASE("a paced device keeps its rate while its owner polls") {
  double best = 0;
  for (int i = 0; i < runs && best < 1.9; ++i) {
    const auto rate = paced_rate();
    CHECK(rate < 2.05);
    best = std::max(best, rate);
  }
#ifndef __SANITIZE_THREAD__ // whose copies are slower than the wire
  CHECK(best > 1.9);
#endif
}

TEST_CASE("who polls without rest does all the copying, however far it is behind") {
  // Who lost his core for as long as the engine waits is helped, and rightly so: that run says nothing.
  bool any = false;
  const auto give_up_at = base::mono_clock::now() + 50s;
  for (int i = 0; i < 10 * runs && !any && base::mono_clock::now() < give_up_at; ++i) {
    const auto h = help_of_others();
    if (h.longest >= 8ms)
      continue;
    any = true;
    CHECK(h.share <= 0.05);
  }
  CHECK_MESSAGE(any, "this machine is too busy: no run in which the poller kept its core");
}

TEST_CASE("posting, polling, progress and faults from several threads agree") {
  qp_options options;
  options.timeout = 18; // 1 s: the links below are down for less, on the slowest machine
  pair_rig rig{nic_mode::paced, false, options};
  auto a2 = end::open(*rig.host_a, 0, options);
  auto b2 = end::open(*rig.host_b, 0, options);
  a2->connect(b2->where());
  b2->connect(a2->where());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> done{0};
  const auto traffic = [&](end& from, const address& to, std::uint64_t offset) {
    std::uint64_t posted = 0;
    std::uint64_t polled = 0;
    while (!stop.load() || polled < posted) {
      for (; !stop.load() && posted - polled < 100; ++posted)
        if (from.write(posted, to, offset, offset, 4096) != 0)
          break;
      const auto wcs = from.poll();
      for (const auto& wc : wcs) {
        CHECK(wc.status == IBV_WC_SUCCESS);
        CHECK(wc.wr_id == polled++);
      }
    }
    done += polled;
  };
  std::thread first{[&] { traffic(*rig.a, rig.b->where(), 0); }};
  std::thread second{[&] { traffic(*a2, b2->where(), 0); }};
  std::thread third{[&] { traffic(*b2, a2->where(), 4096); }};
  for (int i = 0; i < 20; ++i) {
    REQUIRE(rig.net->set_link("b/soft0", i % 2 != 0));
    REQUIRE(rig.net->set_mode("a/soft0", i % 3 == 0 ? nic_mode::immediate : nic_mode::paced));
    std::this_thread::sleep_for(10ms);
    auto extra = end::open(*rig.host_a);
  }
  REQUIRE(rig.net->set_link("b/soft0", true));
  stop = true;
  first.join();
  second.join();
  third.join();
  CHECK(done > 0);
}
