// SPDX-License-Identifier: Apache-2.0
// Notices through the public API, on real lanes and threads.
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t piece = 4096;

/// A sender with a source buffer and a receiver with a target buffer of `pieces` pieces.
class pair {
public:
  explicit pair(std::size_t pieces, std::function<void(received_notice&&)> on_notice = {})
      : source(pieces * piece, 0x5a), target(pieces * piece) {
    options o;
    o.soft.private_fabric = *verbs::soft::fabric::open({});
    o.soft.devices = 2;
    o.name = o.soft.host = "receiver";
    o.listen = "127.0.0.1:0";
    o.on_notice = std::move(on_notice);
    receiver = *transport::create(o);
    o.name = o.soft.host = "sender";
    o.listen.clear();
    o.on_notice = nullptr;
    sender = *transport::create(o);
    REQUIRE(receiver->register_memory(target.data(), target.size()));
    REQUIRE(sender->register_memory(source.data(), source.size(), false));
    auto s = sender->import_segment(receiver->address(), 5s);
    REQUIRE_MESSAGE(s.has_value(), s.error().to_string());
    seg = *s;
  }
  base::expected<batch> write(std::size_t which, std::function<void()> on_done = {}) {
    const std::vector<transfer_request> one{
        {operation::write, source.data() + which * piece, seg.buffers().front().addr + which * piece, piece}};
    submit_options how;
    how.notice = notice{std::to_string(which), std::vector<std::uint8_t>(which % 50)};
    how.on_done = std::move(on_done);
    return sender->submit(seg, one, how);
  }
  bool is_there(const received_notice& n) const {
    const auto which = std::stoull(n.what.name);
    const auto first = target.begin() + static_cast<std::ptrdiff_t>(which * piece);
    return n.what.payload.size() == which % 50 &&
           std::all_of(first, first + piece, [](unsigned char b) { return b == 0x5a; });
  }

  std::vector<unsigned char> source;
  std::vector<unsigned char> target;
  std::unique_ptr<transport> receiver;
  std::unique_ptr<transport> sender;
  segment seg;
};

} // namespace

TEST_CASE("four threads write with notices and two threads take them: each once, behind its data") {
  constexpr std::size_t each = 500;
  pair p(4 * each);
  std::atomic<std::size_t> delivered{0};
  std::atomic<std::size_t> taken{0};
  std::atomic<bool> right{true};
  std::mutex mutex;
  std::set<std::string> names;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<batch> mine;
      for (std::size_t i = 0; i < each; ++i) {
        auto b = p.write(t * each + i);
        right = right && b.has_value();
        if (b)
          mine.push_back(*b);
      }
      for (auto& b : mine)
        delivered += b.wait_for(20s) && b.notice().status == notice_status::delivered ? 1 : 0;
    });
  const auto until = base::mono_clock::now() + 20s;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (taken < 4 * each && base::mono_clock::now() < until) {
        const auto n = p.receiver->poll_notice();
        if (!n) {
          std::this_thread::sleep_for(100us);
          continue;
        }
        right = right && p.is_there(*n) && n->from == "sender" && n->incarnation == p.sender->incarnation();
        std::lock_guard lock(mutex);
        names.insert(n->what.name);
        ++taken;
      }
    });
  for (auto& t : threads)
    t.join();
  CHECK(right);
  CHECK(delivered == 4 * each);
  CHECK(taken == 4 * each);
  CHECK(names.size() == 4 * each);
  CHECK_FALSE(p.receiver->poll_notice().has_value());
  CHECK(p.sender->shutdown(5s).clean);
  CHECK(p.receiver->shutdown(5s).clean);
}

TEST_CASE("on_notice gets every notice, one at a time, and one that throws does no harm") {
  std::atomic<int> calls{0};
  std::atomic<int> inside{0};
  std::atomic<bool> alone{true};
  pair p(200, [&](received_notice&& n) {
    alone = alone && ++inside == 1;
    --inside;
    ++calls;
    if (n.what.name == "7")
      throw std::runtime_error("on purpose");
  });
  std::vector<batch> all;
  std::atomic<int> done{0};
  for (std::size_t i = 0; i < 200; ++i)
    all.push_back(*p.write(i, [&] { ++done; }));
  for (auto& b : all) {
    CHECK(b.wait_for(10s));
    CHECK(b.notice().status == notice_status::delivered);
  }
  p.sender->shutdown(5s);
  p.receiver->shutdown(5s); // runs what has arrived
  CHECK(calls == 200);
  CHECK(done == 200);
  CHECK(alone);
}

TEST_CASE("a notice by itself is delivered, and stays readable after the receiver has shut down") {
  pair p(1);
  const auto b = p.sender->notify(p.seg, notice{"alone", {1, 2, 3}});
  REQUIRE_MESSAGE(b.has_value(), b.error().to_string());
  REQUIRE(b->wait_for(5s));
  CHECK(b->size() == 0);
  CHECK(b->notice().status == notice_status::delivered);
  CHECK(p.receiver->shutdown(5s).clean);
  const auto got = p.receiver->poll_notice();
  REQUIRE(got.has_value());
  CHECK(got->what.name == "alone");
  CHECK(got->what.payload == std::vector<std::uint8_t>{1, 2, 3});
  CHECK_FALSE(p.receiver->poll_notice().has_value());
}

TEST_CASE("a notice that is too long is refused by name, and a batch without one says so") {
  pair p(1);
  const auto name = p.sender->notify(p.seg, notice{std::string(257, 'n'), {}});
  REQUIRE_FALSE(name.has_value());
  CHECK(name.error().to_string().find("the name of a notice has 257 bytes, at most 256") !=
        std::string::npos);
  const auto payload = p.sender->notify(p.seg, notice{"n", std::vector<std::uint8_t>(4097)});
  REQUIRE_FALSE(payload.has_value());
  CHECK(payload.error().why == base::reason::invalid_argument);
  CHECK(
      p.sender->notify(p.seg, notice{std::string(256, 'n'), std::vector<std::uint8_t>(4096)})->wait_for(5s));
  const std::vector<transfer_request> one{
      {operation::write, p.source.data(), p.seg.buffers().front().addr, piece}};
  const auto plain = p.sender->submit(p.seg, one);
  REQUIRE(plain->wait_for(5s));
  CHECK(plain->notice().status == notice_status::none);
}

TEST_CASE(
    "a receiver that leaves without having read: what waited for room is told as lost, with the cause") {
  pair p(1);
  std::vector<batch> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(*p.sender->notify(p.seg, notice{std::to_string(i), {}}));
  CHECK(all[63].wait_for(5s));
  CHECK_FALSE(all[64].wait_for(20ms));
  CHECK(all[64].notice().status == notice_status::pending);
  p.receiver->shutdown(5s);
  CHECK(all[99].wait_for(5s));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto end = all[i].notice();
    CHECK(end.status == (i < 64 ? notice_status::delivered : notice_status::lost));
    CHECK(end.cause == (i < 64 ? base::reason::none : base::reason::peer_dead));
  }
  const auto late = p.sender->notify(p.seg, notice{"late", {}});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().why == base::reason::peer_dead);
}
