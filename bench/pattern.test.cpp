// SPDX-License-Identifier: Apache-2.0
// That each kind of damage is found, counted to the byte and named.
#include "bench/pattern.hpp"

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::bench;

namespace {

constexpr std::uint64_t range = 1 << 20;

std::vector<std::byte> filled(std::size_t length, std::uint64_t position, std::uint32_t round) {
  std::vector<std::byte> v(length);
  fill_pattern(v, position, round);
  return v;
}

std::string explanation(const std::vector<std::byte>& v, std::uint64_t position, std::uint32_t round) {
  const auto c = compare_pattern(v, position, round);
  REQUIRE(c.wrong_bytes > 0);
  return explain_mismatch(std::span(v).subspan(c.first_wrong - position), c.first_wrong, round, range);
}

} // namespace

TEST_CASE("what was filled compares equal at every alignment and length") {
  for (std::uint64_t position = 0; position < 20; ++position)
    for (const std::size_t length : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 511u, 512u, 513u, 4099u})
      CHECK(compare_pattern(filled(length, position, 3), position, 3).wrong_bytes == 0);
}

TEST_CASE("a fill in pieces is the fill of the whole") {
  auto whole = filled(1000, 5, 9);
  std::vector<std::byte> pieces(1000);
  for (std::size_t at = 0; at < 1000; at += 13)
    fill_pattern(std::span(pieces).subspan(at, std::min<std::size_t>(13, 1000 - at)), 5 + at, 9);
  CHECK(whole == pieces);
}

TEST_CASE("each single wrong byte is found where it is") {
  for (std::size_t at = 0; at < 1030; ++at) {
    auto v = filled(1030, 3, 1);
    v[at] ^= std::byte{0x10};
    const auto c = compare_pattern(v, 3, 1);
    CHECK(c.wrong_bytes == 1);
    CHECK(c.first_wrong == 3 + at);
  }
}

TEST_CASE("the bytes of one round are not those of another one") {
  const auto v = filled(4096, 0, 5);
  CHECK(compare_pattern(v, 0, 4).wrong_bytes > 4000);
  CHECK(compare_pattern(v, 8, 5).wrong_bytes > 4000);
}

TEST_CASE("a mismatch is explained") {
  auto v = filled(4096, 4096, 7);
  SUBCASE("stale") {
    fill_pattern(std::span(v).subspan(1000, 256), 4096 + 1000, 6);
    CHECK(explanation(v, 4096, 7) == "it holds the bytes of round 6: stale");
  }
  SUBCASE("never written") {
    fill_pattern(std::span(v).subspan(1000, 256), 4096 + 1000, initial_round);
    CHECK(explanation(v, 4096, 7) == "it was never written");
  }
  SUBCASE("missing") {
    fill_pattern(std::span(v).subspan(1000, 256), 4096 + 1000, poison_round);
    CHECK(explanation(v, 4096, 7) == "nothing arrived there");
  }
  SUBCASE("misplaced") {
    fill_pattern(std::span(v).subspan(1024, 256), 0x20000, 7);
    CHECK(explanation(v, 4096, 7) == "it holds bytes that belong to position 0x20000 (round 7): misplaced");
  }
  SUBCASE("garbage") {
    std::memset(v.data() + 1000, 0x55, 256);
    CHECK(explanation(v, 4096, 7) == "these bytes belong nowhere");
  }
}
