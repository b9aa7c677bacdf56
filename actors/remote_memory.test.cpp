// SPDX-License-Identifier: Apache-2.0
#include "actors/remote_memory.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

bootstrap::remote_buffer entry(std::uint64_t id, std::uint64_t addr, std::uint64_t length,
                               std::vector<std::uint32_t> keys) {
  bootstrap::remote_buffer b;
  b.id = id;
  b.addr = addr;
  b.length = length;
  b.rkeys = std::move(keys);
  return b;
}

} // namespace

TEST_CASE("adjoining entries of one buffer are one range, with the keys of each chunk") {
  bootstrap::segment s;
  s.buffers = {entry(2, 900, 50, {90, 91}), entry(1, 1200, 100, {30, 31}), entry(1, 1000, 100, {10, 11}),
               entry(1, 1100, 100, {20, 21}), entry(1, 1300, 7, {40, 41})};
  const auto m = make_remote_memory(5, s);
  CHECK(m->owner == 5);
  REQUIRE(m->ranges.size() == 2);
  CHECK(m->ranges[0].id == 2);
  const auto& r = m->ranges[1];
  CHECK(r.addr == 1000);
  CHECK(r.length == 307);
  CHECK(r.chunks() == 4);
  CHECK(r.rkey(1000, 0) == 10);
  CHECK(r.rkey(1099, 1) == 11);
  CHECK(r.rkey(1100, 0) == 20);
  CHECK(r.rkey(1306, 1) == 41);
  CHECK(r.rkey(1306, 2) == 0);
  CHECK(r.to_border(1099) == 1);
  CHECK(r.to_border(1100) == 100);
  CHECK(m->find(1050, 200) == 1U);
  CHECK(m->find(1306, 1) == 1U);
  CHECK(!m->find(1306, 2));
  CHECK(!m->find(949, 2));
  CHECK(m->find(949, 1) == 0U);
}

TEST_CASE("entries that do not adjoin, are unequal or belong to others stay apart") {
  bootstrap::segment s;
  s.buffers = {entry(1, 1000, 100, {1}), entry(1, 1101, 100, {2}), entry(2, 2000, 100, {3}),
               entry(3, 2100, 100, {4}), entry(4, 3000, 50, {5}),  entry(4, 3050, 100, {6})};
  const auto m = make_remote_memory(1, s);
  CHECK(m->ranges.size() == 6);
  CHECK(!m->find(1090, 20));
  CHECK(!m->find(2090, 20));
  CHECK(!m->find(3040, 20));
  CHECK(m->find(3060, 20)); // a chunk of its own is a range of its own
}

TEST_CASE("E-18: a buffer whose region begins at address 0 is found from its first byte to its last") {
  bootstrap::segment s;
  s.buffers = {entry(1, 0, 4096, {10}), entry(1, 4096, 100, {20}), entry(2, UINT64_MAX - 99, 99, {30})};
  const auto m = make_remote_memory(5, s);
  REQUIRE(m->ranges.size() == 2);
  CHECK(m->find(0, 1) == 0U);
  CHECK(m->find(0, 4196) == 0U);
  CHECK(m->ranges[0].rkey(0, 0) == 10);
  CHECK(m->ranges[0].rkey(4195, 0) == 20);
  CHECK(m->ranges[0].to_border(0) == 4096);
  CHECK(!m->find(0, 4197));
  CHECK(!m->find(4196, 1));
  CHECK(m->find(UINT64_MAX - 1, 1) == 1U);
  CHECK(!m->find(UINT64_MAX - 1, 2)); // a range that wraps is nobody's
}

TEST_CASE("a buffer is registered whole where it fits, and else in whole pages that every device takes") {
  CHECK(chunk_bytes_for(7 << 20, {UINT64_MAX, UINT64_MAX}) == 7 << 20);
  CHECK(chunk_bytes_for(7 << 20, {2 << 20, UINT64_MAX}) == 2 << 20);
  CHECK(chunk_bytes_for(7 << 20, {2 << 20, (1 << 20) + 5}) == 1 << 20);
  CHECK(chunk_bytes_for(100, {100}) == 100);
  CHECK(chunk_bytes_for(5000, {1000}) == 1000);
  CHECK(chunk_bytes_for(5000, {0}) == 5000); // a device that says nothing
}

TEST_CASE("E-06: regions are halved in whole pages down to the least, and never become too many") {
  constexpr std::uint64_t mib = 1 << 20;
  CHECK(smaller_chunk_bytes(1024 * mib, 1024 * mib, 64 * mib, 4096) == 512 * mib);
  CHECK(smaller_chunk_bytes(100 * mib, 100 * mib, 64 * mib, 4096) == 64 * mib);
  CHECK(smaller_chunk_bytes(64 * mib, 1024 * mib, 64 * mib, 4096) == 0);
  CHECK(smaller_chunk_bytes(1 * mib, 1 * mib, 64 * mib, 4096) == 0);
  CHECK(smaller_chunk_bytes(3 * 4096 + 1, 3 * 4096 + 1, 4096, 4096) == 2 * 4096);
  CHECK(smaller_chunk_bytes(128 * mib, 512 * mib, 64 * mib, 8) == 64 * mib);
  CHECK(smaller_chunk_bytes(128 * mib, 513 * mib, 64 * mib, 8) == 0);
  CHECK(smaller_chunk_bytes(5000, 5000, 1, 4096) == 4096);
  CHECK(smaller_chunk_bytes(4096, 4096, 1, 4096) == 0); // no smaller page
}
