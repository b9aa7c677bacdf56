// SPDX-License-Identifier: Apache-2.0
// That a notice which comes twice, too early or from somebody else is noticed.
#include "bench/notice_book.hpp"

#include "bench/pattern.hpp"

#include <array>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bench;

namespace {

received_notice arrived(const notice_text& what) {
  return {"initiator", 7, 1, to_notice(what)};
}

} // namespace

TEST_CASE("a notice whose data is there is good and one that came before it is not") {
  std::array<std::byte, 100> memory{};
  fill_pattern(memory, 0, initial_round);
  fill_pattern(std::span(memory).subspan(8, 50), 8, 3);
  notice_book book;
  book.enter(arrived({0, 3, 0, 8, 50}), memory);
  CHECK(book.so_far().is_good());
  CHECK(book.so_far().checked_bytes == 50);
  book.enter(arrived({0, 3, 1, 8, 51}), memory);
  CHECK(book.so_far().missing_bytes > 0);
  CHECK_FALSE(book.so_far().is_good());
}

TEST_CASE("a place that is being written again by later batches still has the data of a notice") {
  std::array<std::byte, 64> memory{};
  fill_pattern(memory, 0, 3);
  fill_pattern(std::span(memory).subspan(16, 24), 16, 5);
  notice_book book;
  book.enter(arrived({0, 3, 0, 0, 64}), memory);
  CHECK(book.so_far().is_good());
  fill_pattern(std::span(memory).subspan(16, 8), 16, 2);
  book.enter(arrived({0, 3, 1, 0, 64}), memory);
  CHECK(book.so_far().missing_bytes == 8);
}

TEST_CASE("a notice that comes twice is counted and the same number of another source is not") {
  notice_book book;
  book.enter(arrived({0, 0, 4, 0, 0}), {});
  book.enter(arrived({1, 0, 4, 0, 0}), {});
  CHECK(book.so_far().repeated == 0);
  book.enter(arrived({0, 0, 4, 0, 0}), {});
  CHECK(book.so_far().received == 3);
  CHECK(book.so_far().repeated == 1);
  CHECK_FALSE(book.so_far().is_good());
}

TEST_CASE("a notice of somebody else or about bytes beyond the range is foreign") {
  std::array<std::byte, 16> memory{};
  notice_book book;
  book.enter({"initiator", 7, 1, {"something", {1, 2, 3}}}, memory);
  CHECK(book.so_far().foreign == 1);
  book.enter(arrived({0, 1, 0, 8, 16}), memory);
  book.enter(arrived({0, 1, 0, ~0ull, 8}), memory);
  CHECK(book.so_far().foreign == 3);
  CHECK(book.so_far().checked_bytes == 0);
}
