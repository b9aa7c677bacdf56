// SPDX-License-Identifier: Apache-2.0
// Every WR leaves the ledger exactly once, in order, with the end that its completion proves.
#include "actors/ledger.hpp"

#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

slice numbered(std::uint32_t n) {
  slice s;
  s.offset = n;
  s.length = n + 1;
  return s;
}

struct left {
  std::uint64_t number;
  wr_end end;
  bool operator==(const left&) const = default;
};

} // namespace

TEST_CASE("a success completion retires everything before it as success") {
  ledger l(8);
  for (std::uint32_t i = 0; i < 5; ++i)
    CHECK(l.push(numbered(i), {}) == i);
  std::vector<left> out;
  const auto visit = [&](const slice& s, wr_end e) { out.push_back({s.offset, e}); };
  CHECK(l.retire(3, wr_end::success, visit));
  CHECK(out.size() == 4);
  CHECK(l.outstanding() == 1);
  CHECK(l.bytes() == 5);
}

TEST_CASE("an error or flush completion proves nothing of earlier ones: their own may have been lost") {
  for (const auto how : {wr_end::error, wr_end::flushed}) {
    ledger l(8);
    for (std::uint32_t i = 0; i < 4; ++i)
      l.push(numbered(i), {});
    std::vector<left> out;
    const auto visit = [&](const slice& s, wr_end e) { out.push_back({s.offset, e}); };
    CHECK(l.retire(2, how, visit));
    CHECK(out == std::vector<left>{{0, wr_end::flushed}, {1, wr_end::flushed}, {2, how}});
    CHECK(l.outstanding() == 1);
  }
}

TEST_CASE("what has no completion when its queue pair is gone is flushed") {
  ledger l(8);
  for (std::uint32_t i = 0; i < 4; ++i)
    l.push(numbered(i), {});
  std::vector<left> out;
  const auto visit = [&](const slice& s, wr_end e) { out.push_back({s.offset, e}); };
  CHECK(l.retire(2, wr_end::success, visit));
  l.retire_all(wr_end::flushed, visit);
  CHECK(out.back() == left{3, wr_end::flushed});
  CHECK(l.empty());
  CHECK(l.bytes() == 0);
}

TEST_CASE("a completion of a WR that has left, or never was, retires nothing") {
  ledger l(4);
  l.push(numbered(0), {});
  const auto visit = [](const slice&, wr_end) {};
  CHECK(l.retire(0, wr_end::success, visit));
  CHECK_FALSE(l.retire(0, wr_end::success, visit));
  CHECK_FALSE(l.retire(7, wr_end::success, visit));
}

TEST_CASE("wr_ids keep index, generation and position apart") {
  const auto n = unpack(pack({0xfffe, 0x8001, 0xdeadbeef}));
  CHECK(n.qp_index == 0xfffe);
  CHECK(n.generation == 0x8001);
  CHECK(n.position == 0xdeadbeef);
}

TEST_CASE("whatever the order of posts and completions, each WR leaves once and none stays") {
  CHECK(rc::check("conservation", [] {
    ledger l(16);
    std::uint32_t posted = 0;
    std::vector<int> seen;
    const auto visit = [&](const slice& s, wr_end) { ++seen[s.offset]; };
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 100))) {
      if (step < 60 && l.room() > 0) {
        RC_ASSERT(l.push(numbered(posted), {}) == posted);
        ++posted;
        seen.push_back(0);
      } else if (step < 95 && !l.empty()) {
        const auto back = static_cast<std::uint32_t>(step) % l.outstanding();
        RC_ASSERT(l.retire(l.next() - 1 - back, step % 2 == 0 ? wr_end::success : wr_end::error, visit));
      } else if (!l.empty()) {
        l.unpush(1, [&](const slice& s) { visit(s, wr_end::unposted); });
        --posted;
        seen.pop_back();
      }
    }
    l.retire_all(wr_end::flushed, visit);
    for (const int n : seen)
      RC_ASSERT(n == 1);
    RC_ASSERT(l.bytes() == 0u);
  }));
}
