// SPDX-License-Identifier: Apache-2.0
// Every byte of transfers of every size, over one and several devices, from one and several threads.
#include "bench/roles.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;

namespace {

/// Few bytes for each run, but more batches than are open at once.
void fit(bench::settings& what) {
  const bool is_large = what.size >= 64u << 20;
  what.range = is_large ? what.size * what.threads : 32u << 20;
  what.batch = is_large ? 1 : what.size >= 1u << 20 ? 2 : 16;
  what.batches = what.threads * (is_large ? 1 : 4);
  what.depth = is_large || what.size >= 1u << 20 ? 1 : 3;
}

void verify(operation op, std::uint32_t devices) {
  bench::settings what;
  what.op = op;
  what.nics = devices;
  what.verify = true;
  what.soft_host = "initiator";
  const auto pair = bench::loopback_pair::open(what);
  if (!pair)
    FAIL(pair.error().to_string());
  for (const std::uint64_t size : {1ull, 7ull, 4095ull, 64ull << 10, (1ull << 20) + 3, 64ull << 20})
    for (const std::uint32_t threads : {1u, 8u}) {
      CAPTURE(size);
      CAPTURE(threads);
      what.size = size;
      what.threads = threads;
      fit(what);
      REQUIRE(bench::check(what));
      const auto result = (*pair)->run(what, nullptr);
      if (!result)
        FAIL(result.error().to_string());
      CHECK(result->is_good());
      CHECK(result->count.completed == what.batches * what.batch);
      CHECK(result->count.verified_bytes >= what.batches * what.batch_bytes());
    }
  CHECK((*pair)->close());
}

} // namespace

TEST_CASE("writes are right over one device") {
  verify(operation::write, 1);
}

TEST_CASE("writes are right over two devices") {
  verify(operation::write, 2);
}

TEST_CASE("writes are right over eight devices") {
  verify(operation::write, 8);
}

TEST_CASE("reads are right over one device") {
  verify(operation::read, 1);
}

TEST_CASE("reads are right over two devices") {
  verify(operation::read, 2);
}

TEST_CASE("reads are right over eight devices") {
  verify(operation::read, 8);
}

TEST_CASE("each batch's notice comes once and behind what it tells of") {
  bench::settings what;
  what.nics = 2;
  what.verify = what.notices = true;
  what.soft_host = "initiator";
  what.size = 64u << 10;
  what.threads = 3;
  fit(what);
  what.batches = 60;
  const auto pair = bench::loopback_pair::open(what);
  if (!pair)
    FAIL(pair.error().to_string());
  for (int i = 0; i < 2; ++i) {
    const auto result = (*pair)->run(what, nullptr);
    if (!result)
      FAIL(result.error().to_string());
    CHECK(result->is_good());
    CHECK(result->count.notices_delivered == 60);
    REQUIRE(result->notices);
    CHECK(result->notices->received == 60);
    CHECK(result->notices->repeated == 0);
    CHECK(result->notices->checked_bytes == 60 * what.batch_bytes());
    CHECK(result->notices->missing_bytes == 0);
  }
  CHECK((*pair)->close());
}

TEST_CASE("one transfer may be larger than 4 GiB") {
  bench::settings what;
  what.nic_mode = "null"; // the memory stays untouched, and so does not have to be there
  what.soft_host = "initiator";
  what.size = (4ull << 30) + 5;
  what.range = what.size;
  what.batch = what.depth = what.batches = 1;
  const auto pair = bench::loopback_pair::open(what);
  if (!pair)
    FAIL(pair.error().to_string());
  for (const auto op : {operation::write, operation::read}) {
    what.op = op;
    const auto sent_before = (*pair)->net()->devices();
    const auto result = (*pair)->run(what, nullptr);
    if (!result)
      FAIL(result.error().to_string());
    CHECK(result->is_good());
    CHECK(result->count.completed == 1);
    CHECK(result->count.bytes == what.size);
    if (op == operation::write)
      CHECK((*pair)->net()->devices().back().bytes_sent - sent_before.back().bytes_sent >= what.size);
  }
}
