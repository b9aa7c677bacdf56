// SPDX-License-Identifier: Apache-2.0
// That --verify fails when it should: with transfers that are played here, rightly and wrongly.
#include "bench/content.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bench;

namespace {

constexpr std::size_t range = 64 * 1024;

struct rig {
  explicit rig(operation op, bool one_process = true) : local(range), target(range) {
    what.op = op;
    what.range = range;
    what.size = 1000;
    what.batch = 4;
    what.verify = true;
    prepare_local(what, local);
    prepare_target(what, target);
    run_memory memory{local, {}};
    if (one_process)
      memory.peer = target;
    tested.emplace(what, 0, memory, [this](std::uint64_t offset, std::uint64_t length) {
      ++read_backs;
      return std::span<const std::byte>(target).subspan(offset, length);
    });
  }
  void play(std::uint64_t offset, std::size_t length) {
    auto& to = what.op == operation::write ? target : local;
    auto& from = what.op == operation::write ? local : target;
    std::memcpy(to.data() + offset, from.data() + offset, length);
  }
  /// A batch that is carried out, but for `missing` bytes at its end.
  place& batch(std::size_t missing = 0) {
    auto& p = tested->take();
    tested->before(p);
    play(p.offset, what.batch_bytes() - missing);
    tested->after(p, count);
    return p;
  }

  settings what;
  std::vector<std::byte> local;
  std::vector<std::byte> target;
  std::optional<content> tested;
  tally count;
  int read_backs = 0;
};

} // namespace

TEST_CASE("right transfers are right") {
  for (const auto op : {operation::write, operation::read})
    for (const bool one_process : {true, false}) {
      rig r(op, one_process);
      for (int i = 0; i < 40; ++i) // more than there are places
        r.batch();
      CHECK(r.count.verified_bytes == 160000);
      r.tested->sweep(r.count);
      CHECK(r.count.mismatched_bytes == 0);
      CHECK(r.count.verified_bytes == 160000 + range);
      CHECK((r.read_backs > 0) == (op == operation::write && !one_process));
    }
}

TEST_CASE("what did not arrive is found, the first time and later") {
  for (const auto op : {operation::write, operation::read})
    for (const bool one_process : {true, false}) {
      rig r(op, one_process);
      r.batch(10);
      CHECK(r.count.mismatched_bytes >= 8);
      CHECK(r.count.mismatched_bytes <= 10);
      rig later(op, one_process);
      for (int i = 0; i < 20; ++i)
        later.batch();
      later.batch(10);
      CHECK(later.count.mismatched_bytes >= 8);
    }
}

TEST_CASE("a slice at the wrong place is found at the end at the latest") {
  for (const auto op : {operation::write, operation::read}) {
    rig r(op);
    for (int i = 0; i < 5; ++i)
      r.batch();
    CHECK(r.count.mismatched_bytes == 0);
    const auto stray = op == operation::write ? r.target.data() : r.local.data();
    std::memmove(stray + 4000 + 17, stray + 100, 64);
    r.tested->sweep(r.count);
    CHECK(r.count.mismatched_bytes > 50);
  }
}

TEST_CASE("a stray byte behind the last place is found") {
  rig r(operation::write);
  r.batch();
  r.target[range - 1] ^= std::byte{1};
  r.tested->sweep(r.count);
  CHECK(r.count.mismatched_bytes == 1);
}

TEST_CASE("a late write of an earlier round is found") {
  rig r(operation::write);
  auto& first = r.batch();
  const std::vector<std::byte> early(r.local.begin() + static_cast<std::ptrdiff_t>(first.offset),
                                     r.local.begin() + static_cast<std::ptrdiff_t>(first.offset) + 1000);
  for (int i = 0; i < 16; ++i)
    r.batch();
  CHECK(r.count.mismatched_bytes == 0);
  std::memcpy(r.target.data() + first.offset, early.data(), early.size());
  r.tested->sweep(r.count);
  CHECK(r.count.mismatched_bytes > 900);
}

TEST_CASE("the place of a failed batch is not judged until it was used again") {
  rig r(operation::write);
  auto& p = r.tested->take();
  r.tested->before(p);
  r.play(p.offset, 1500);
  r.tested->lost(p);
  r.tested->sweep(r.count);
  CHECK(r.count.mismatched_bytes == 0);
}

TEST_CASE("a new target has the memory it began with") {
  rig r(operation::write, false);
  for (int i = 0; i < 3; ++i)
    r.batch();
  prepare_target(r.what, r.target);
  SUBCASE("known") {
    r.tested->target_restarted();
    r.tested->sweep(r.count);
    CHECK(r.count.mismatched_bytes == 0);
  }
  SUBCASE("not known") {
    r.tested->sweep(r.count);
    CHECK(r.count.mismatched_bytes > 10000);
  }
}
