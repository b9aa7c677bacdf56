// SPDX-License-Identifier: Apache-2.0
// The public API on real lanes: two transports in one process on one private fabric.
#include "transport/transport.hpp"

#include "verbs/soft/fabric.hpp"

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

class pair {
public:
  explicit pair(const std::string& mode = "inline", std::uint32_t devices = 2) {
    fabric = *verbs::soft::fabric::open({});
    options o;
    o.soft.private_fabric = fabric;
    o.soft.devices = devices;
    o.soft.mode = mode;
    o.name = o.soft.host = "target";
    o.listen = "127.0.0.1:0";
    auto t = transport::create(o);
    REQUIRE_MESSAGE(t.has_value(), t.error().to_string());
    target = std::move(*t);
    o.name = o.soft.host = "initiator";
    o.listen.clear();
    auto i = transport::create(o);
    REQUIRE_MESSAGE(i.has_value(), i.error().to_string());
    initiator = std::move(*i);
  }

  std::shared_ptr<verbs::soft::fabric> fabric;
  std::unique_ptr<transport> target;
  std::unique_ptr<transport> initiator;
};

std::vector<unsigned char> pattern(std::size_t n) {
  std::vector<unsigned char> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<unsigned char>(i * 167 + (i >> 9));
  return v;
}

} // namespace

TEST_CASE("bytes written to a peer arrive, and come back when read") {
  pair p;
  auto source = pattern(3 * 1024 * 1024 + 17);
  std::vector<unsigned char> remote(source.size());
  std::vector<unsigned char> back(source.size());
  REQUIRE(p.target->register_memory(remote.data(), remote.size()));
  REQUIRE(p.initiator->register_memory(source.data(), source.size(), false));
  REQUIRE(p.initiator->register_memory(back.data(), back.size(), false));
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE_MESSAGE(seg.has_value(), seg.error().to_string());
  REQUIRE(seg->buffers().size() == 1);
  const auto addr = seg->buffers()[0].addr;
  const std::vector<transfer_request> write{{operation::write, source.data(), addr, source.size()}};
  auto w = p.initiator->submit(*seg, write);
  REQUIRE_MESSAGE(w.has_value(), w.error().to_string());
  REQUIRE(w->wait_for(10s));
  CHECK(w->result(0).status == transfer_status::completed);
  CHECK(w->result(0).bytes == source.size());
  CHECK(source == remote);
  const std::vector<transfer_request> read{{operation::read, back.data(), addr, back.size()}};
  submit_options how;
  how.receipts = true;
  auto r = p.initiator->submit(*seg, read, std::move(how));
  REQUIRE(r.has_value());
  REQUIRE(r->wait_for(10s));
  CHECK(source == back);
  CHECK(!w->receipt(0)); // it was not asked for
  CHECK(!r->receipt(1)); // there is no such transfer
  const auto receipt = r->receipt(0);
  REQUIRE(receipt);
  std::uint64_t carried = 0;
  for (const auto& share : receipt->rails) {
    CHECK(share.rail.find("initiator/soft") == 0);
    carried += share.bytes;
  }
  CHECK(carried == back.size());
  CHECK(p.initiator->shutdown(5s).clean);
  CHECK(p.target->shutdown(5s).clean);
}

TEST_CASE("requests that cannot be right are refused as a whole, by name") {
  pair p;
  std::vector<unsigned char> ours(4096);
  std::vector<unsigned char> theirs(4096);
  REQUIRE(p.target->register_memory(theirs.data(), theirs.size()));
  REQUIRE(p.initiator->register_memory(ours.data(), ours.size(), false));
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE(seg.has_value());
  const auto addr = seg->buffers()[0].addr;
  const auto attempt = [&](transfer_request r) {
    const std::vector<transfer_request> one{r};
    return p.initiator->submit(*seg, one);
  };
  CHECK(attempt({operation::write, ours.data(), addr, 0}).error().why == base::reason::invalid_argument);
  CHECK(attempt({operation::write, ours.data(), addr, 4097}).error().why == base::reason::out_of_range);
  CHECK(attempt({operation::write, ours.data(), addr + 1, 4096}).error().why == base::reason::out_of_range);
  CHECK(attempt({operation::write, ours.data() + 1, addr, 4096}).error().why == base::reason::out_of_range);
  CHECK(attempt({operation::write, ours.data(), ~0ull - 10, 4096}).error().why == base::reason::out_of_range);
  CHECK(p.initiator->submit(*seg, {}).error().why == base::reason::invalid_argument);
  CHECK(attempt({operation::write, ours.data(), addr, 4096})->wait_for(5s));
}

TEST_CASE("nobody listens there: the import fails at once and says so") {
  pair p;
  const auto t0 = base::mono_clock::now();
  const auto seg = p.initiator->import_segment("127.0.0.1:1", 5s);
  REQUIRE_FALSE(seg.has_value());
  CHECK(seg.error().to_string().find("refused") != std::string::npos);
  CHECK(base::mono_clock::now() - t0 < 2s);
}

TEST_CASE("a callback runs once, when everything has ended") {
  pair p;
  std::vector<unsigned char> ours(1 << 20);
  std::vector<unsigned char> theirs(1 << 20);
  REQUIRE(p.target->register_memory(theirs.data(), theirs.size()));
  REQUIRE(p.initiator->register_memory(ours.data(), ours.size(), false));
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE(seg.has_value());
  std::vector<transfer_request> many;
  for (std::size_t i = 0; i < 256; ++i)
    many.push_back({operation::write, ours.data() + i * 4096, seg->buffers()[0].addr + i * 4096, 4096});
  std::atomic<int> calls{0};
  submit_options how;
  how.on_done = [&] { ++calls; };
  auto b = p.initiator->submit(*seg, many, how);
  REQUIRE(b.has_value());
  CHECK(b->wait_for(5s));
  for (int i = 0; i < 200 && calls == 0; ++i)
    std::this_thread::sleep_for(5ms);
  CHECK(calls == 1);
}

TEST_CASE("a transfer cancelled while its only rail hangs ends fenced, and the buffer can go") {
  pair p("paced", 1);
  std::vector<unsigned char> ours(8 << 20);
  std::vector<unsigned char> theirs(8 << 20);
  REQUIRE(p.target->register_memory(theirs.data(), theirs.size()));
  const auto buffer = p.initiator->register_memory(ours.data(), ours.size(), false);
  REQUIRE(buffer.has_value());
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE(seg.has_value());
  const std::vector<transfer_request> one{
      {operation::write, ours.data(), seg->buffers()[0].addr, ours.size()}};
  REQUIRE(p.initiator->submit(*seg, one)->wait_for(5s)); // the rail is up
  REQUIRE(p.fabric->set_hang("initiator/soft0", true));
  auto b = p.initiator->submit(*seg, one);
  REQUIRE(b.has_value());
  CHECK_FALSE(b->wait_for(20ms));
  b->cancel();
  CHECK(b->wait_for(3s));
  CHECK(b->result(0).status == transfer_status::cancelled);
  const auto gone = p.initiator->deregister_memory(*buffer);
  CHECK_MESSAGE(gone.has_value(), gone.error().to_string());
}

TEST_CASE("a shutdown that leaves QPs behind is not taken for the death of its process") {
  pair p("paced", 1);
  std::vector<unsigned char> ours(1 << 20);
  std::vector<unsigned char> theirs(1 << 20);
  REQUIRE(p.target->register_memory(theirs.data(), theirs.size()));
  REQUIRE(p.initiator->register_memory(ours.data(), ours.size(), false));
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE(seg.has_value());
  const std::vector<transfer_request> one{
      {operation::write, ours.data(), seg->buffers()[0].addr, ours.size()}};
  REQUIRE(p.initiator->submit(*seg, one)->wait_for(5s)); // the rail is up
  REQUIRE(p.fabric->add_rule("dev=target/soft0 verb=destroy_qp,modify_qp,close_device do=errno:EBUSY"));
  REQUIRE(p.fabric->set_hang("initiator/soft0", true));
  submit_options how;
  how.deadline = 500ms;
  auto b = p.initiator->submit(*seg, one, how);
  REQUIRE(b.has_value());
  const auto report = p.target->shutdown(200ms);
  CHECK_FALSE(report.clean);
  CHECK(b->wait_for(10s));
  CHECK(b->result(0).status == transfer_status::timed_out);
  CHECK(b->result(0).remote_fence_unconfirmed);
}

TEST_CASE("a snapshot names every actor, on the first request and on every other") {
  pair p;
  std::vector<unsigned char> ours(4096);
  std::vector<unsigned char> theirs(4096);
  REQUIRE(p.target->register_memory(theirs.data(), theirs.size()));
  REQUIRE(p.initiator->register_memory(ours.data(), ours.size(), false));
  auto seg = p.initiator->import_segment(p.target->address(), 5s);
  REQUIRE(seg.has_value());
  const std::vector<transfer_request> one{
      {operation::write, ours.data(), seg->buffers()[0].addr, ours.size()}};
  REQUIRE(p.initiator->submit(*seg, one)->wait_for(5s));
  for (int i = 0; i < 50; ++i) {
    std::multiset<std::string> kinds;
    for (const auto& s : p.initiator->snapshot(2s))
      kinds.insert(s.kind);
    CHECK(kinds == std::multiset<std::string>{"device", "device", "endpoint", "endpoint", "node", "peer",
                                              "qp", "qp", "qp", "qp"});
  }
}

TEST_CASE("two hundred short lives find their peers at once") {
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    pair p("inline", 1);
    CHECK(p.initiator->import_segment(p.target->address(), 2s).has_value());
  }
}
