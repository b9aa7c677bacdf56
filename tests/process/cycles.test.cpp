// SPDX-License-Identifier: Apache-2.0
// Connecting, transferring and closing a thousand times leaves everything where it was.
#include "bench/memory_block.hpp"
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include <doctest/doctest.h>
#include <malloc.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int cycles = 100;
constexpr bool measures_memory = false; // freed memory stays in quarantine
#else
constexpr int cycles = 1000;
constexpr bool measures_memory = true;
#endif
constexpr int settled_after = cycles / 10;

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

std::size_t threads() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++n;
  return n;
}

/// What the program has allocated and not freed. (Resident memory also grows with every page of the fabric's
/// tables that is touched for the first time.)
std::size_t heap_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct holdings {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t devices = 0;
  std::uint32_t qps = 0;
  std::uint32_t mrs = 0;
  friend bool operator==(const holdings&, const holdings&) = default;
};

holdings count(const verbs::soft::fabric& net) {
  holdings h{open_descriptors(), threads(), 0, 0, 0};
  for (const auto& d : net.devices()) {
    ++h.devices;
    h.qps += d.open_qps;
    h.mrs += d.open_mrs;
  }
  return h;
}

std::string text(const holdings& h) {
  return std::to_string(h.descriptors) + " descriptors, " + std::to_string(h.threads) + " threads, " +
         std::to_string(h.devices) + " devices, " + std::to_string(h.qps) + " QPs, " + std::to_string(h.mrs) +
         " MRs";
}

/// What the target holds for a guest that has left goes a moment later.
holdings settled(const verbs::soft::fabric& net, const holdings& expected) {
  auto now = count(net);
  for (const auto until = base::mono_clock::now() + 5s; now != expected && base::mono_clock::now() < until;) {
    std::this_thread::sleep_for(10ms);
    now = count(net);
  }
  return now;
}

options node(const std::shared_ptr<verbs::soft::fabric>& net, const char* name) {
  options o;
  o.name = name;
  o.soft.private_fabric = net;
  o.soft.host = name;
  o.soft.devices = 2;
  o.device_poll = std::chrono::hours{1}; // the first look starts a thread, which is nothing that a cycle left
  return o;
}

void one_cycle(const std::shared_ptr<verbs::soft::fabric>& net, const std::string& address,
               bench::memory_block& ours, bench::memory_block& theirs, int number) {
  std::memset(ours.data(), number, ours.size());
  auto t = transport::create(node(net, "initiator"));
  if (!t)
    FAIL(t.error().to_string());
  const auto registered = (*t)->register_memory(ours.data(), ours.size());
  REQUIRE(registered);
  const auto target = (*t)->import_segment(address, 10s);
  if (!target)
    FAIL(target.error().to_string());
  transfer_request r;
  r.local = ours.data();
  r.remote = target->buffers().at(0).addr;
  r.length = ours.size();
  const auto done = (*t)->submit(*target, {&r, 1});
  REQUIRE(done);
  REQUIRE(done->wait_for(20s));
  REQUIRE(done->result(0).status == transfer_status::completed);
  REQUIRE(std::memcmp(ours.data(), theirs.data(), ours.size()) == 0);
  REQUIRE((*t)->deregister_memory(*registered));
  REQUIRE((*t)->shutdown(10s).clean);
}

} // namespace

TEST_CASE("a thousand cycles of connecting, transferring and closing leave nothing behind") {
  auto net = verbs::soft::fabric::open({});
  REQUIRE(net);
  auto how = node(*net, "target");
  how.listen = "127.0.0.1:0";
  auto target = transport::create(how);
  if (!target)
    FAIL(target.error().to_string());
  bench::memory_block ours(64 << 10);
  bench::memory_block theirs(64 << 10);
  REQUIRE((*target)->register_memory(theirs.data(), theirs.size()));
  const auto before = count(**net);
  std::size_t memory_before = 0;
  for (int i = 0; i < cycles; ++i) {
    CAPTURE(i);
    one_cycle(*net, (*target)->address(), ours, theirs, i);
    if (i == settled_after)
      memory_before = heap_bytes();
  }
  const auto after = settled(**net, before);
  CHECK_MESSAGE(after == before, "before: " << text(before) << ", after: " << text(after));
  const auto memory_after = heap_bytes();
  const auto growth = memory_after > memory_before ? memory_after - memory_before : 0;
  MESSAGE("the heap grew by " << growth / 1024 << " KiB in " << cycles - settled_after << " cycles");
  if (measures_memory)
    CHECK(growth <
          256 * (cycles - settled_after)); // bytes per cycle: less than any object that could be forgotten
  CHECK((*target)->shutdown(10s).clean);
}
