// SPDX-License-Identifier: Apache-2.0
// B-02: queue pairs are torn down, at any moment and from outside, while another thread posts on their rail.
// Whatever the order of the two, nothing may touch what has gone; sanitizers look on.
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

struct outcome {
  std::size_t completed = 0;
  std::size_t others = 0;
  std::size_t evictions = 0;
  bool in_time = true;
};

/// Thread 1 submits `iterations` writes, at most 256 open; thread 2 evicts until it is done.
outcome post_and_evict(std::size_t iterations, base::duration pause, const char* rule) {
  const auto fabric = *verbs::soft::fabric::open({});
  options o;
  o.soft.private_fabric = fabric;
  o.soft.devices = 2;
  o.drain_deadline = 5ms;
  o.rebuild_backoff_max = 20ms;
  o.listen = "127.0.0.1:0";
  o.name = o.soft.host = "target";
  const auto target = *transport::create(o);
  o.name = o.soft.host = "initiator";
  o.listen.clear();
  const auto initiator = *transport::create(o);
  std::vector<std::byte> ours(64 * 1024, std::byte{7});
  std::vector<std::byte> theirs(64 * 1024);
  REQUIRE(target->register_memory(theirs.data(), theirs.size()));
  REQUIRE(initiator->register_memory(ours.data(), ours.size(), false));
  auto seg = initiator->import_segment(target->address(), 5s);
  REQUIRE(seg.has_value());
  const auto addr = seg->buffers()[0].addr;
  if (rule != nullptr)
    REQUIRE(fabric->add_rule(rule));

  outcome r;
  std::atomic<bool> over{false};
  std::thread evictor([&] {
    for (std::size_t i = 0; !over; ++i) {
      (void)fabric->raise_event(i % 2 == 0 ? "initiator/soft0" : "initiator/soft1", "QP_FATAL");
      if (i % 7 == 0) // and now and then the side that serves
        (void)fabric->raise_event("target/soft0", "QP_FATAL");
      ++r.evictions;
      std::this_thread::sleep_for(pause);
    }
  });
  std::deque<batch> open;
  const auto take = [&] {
    r.in_time = r.in_time && open.front().wait_for(20s);
    ++(open.front().result(0).status == transfer_status::completed ? r.completed : r.others);
    open.pop_front();
  };
  for (std::size_t i = 0; i < iterations && r.in_time; ++i) {
    const auto at = (i * 96) % (60 * 1024);
    const std::vector<transfer_request> one{{operation::write, ours.data() + at, addr + at, 64}};
    auto b = initiator->submit(*seg, one);
    REQUIRE_MESSAGE(b.has_value(), b.error().to_string());
    open.push_back(std::move(*b));
    if (open.size() >= 256)
      take();
  }
  while (!open.empty() && r.in_time)
    take();
  over = true;
  evictor.join();
  CHECK(initiator->shutdown(5s).clean);
  CHECK(target->shutdown(5s).clean);
  for (const auto& d : fabric->devices())
    CHECK(d.open_qps == 0);
  return r;
}

} // namespace

TEST_CASE("B-02: a hundred thousand posts beside a thread that evicts their queue pairs") {
  const auto r = post_and_evict(100'000, 2ms, nullptr);
  CHECK(r.in_time);
  CHECK(r.completed == 100'000);
  CHECK(r.others == 0);
  CHECK(r.evictions > 10);
}

TEST_CASE("B-02: the same when drains never end, because nothing is flushed") {
  const auto r = post_and_evict(10'000, 10ms, "dev=initiator op=write every=500 do=hang:hard");
  CHECK(r.in_time);
  CHECK(r.completed == 10'000);
  CHECK(r.others == 0);
}
