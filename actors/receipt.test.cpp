// SPDX-License-Identifier: Apache-2.0
// What receipts add up, without a queue.
#include "actors/receipt.hpp"

#include <numeric>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

rail_name named(const std::string& name) {
  return std::make_shared<const std::string>(name);
}

} // namespace

TEST_CASE("a receipt tells what each rail had to do with a transfer, and when") {
  receipt_book book{2};
  const auto begin = base::time_point{5ms};
  const auto one = named("a/0>b/0");
  const auto two = named("a/1>b/1");
  book.handed(1, one, false, begin + 2us);
  book.handed(1, two, false, begin + 3us);
  book.handed(1, two, true, begin + 9us);
  book.delivered(1, two, 100, begin + 11us);
  book.delivered(1, two, 50, begin + 12us);
  const auto r = book.of(1, begin);
  REQUIRE(r.rails.size() == 2);
  CHECK(r.rails[0].rail == "a/0>b/0");
  CHECK(r.rails[0].wrs == 1);
  CHECK(r.rails[0].bytes == 0);
  CHECK(r.rails[1].wrs == 2);
  CHECK(r.rails[1].bytes == 150);
  CHECK(r.issued_again == 1);
  CHECK(r.queued == 2us);
  CHECK(r.carried == 10us);
}

TEST_CASE("the receipt of a transfer that never left has no rails and no times") {
  const receipt_book book{1};
  const auto r = book.of(0, base::time_point{1s});
  CHECK(r.rails.empty());
  CHECK(r.queued == 0ns);
  CHECK(r.carried == 0ns);
}

TEST_CASE("more rails than a receipt keeps apart are counted together, and no byte is missing") {
  constexpr std::size_t rails = receipt_book::rails_kept + 5;
  receipt_book book{1};
  for (std::size_t i = 0; i < rails; ++i) {
    const auto rail = named(std::to_string(i));
    book.handed(0, rail, i > 0, base::time_point{1us});
    book.delivered(0, rail, i + 1, base::time_point{2us});
  }
  const auto r = book.of(0, base::time_point{});
  REQUIRE(r.rails.size() == receipt_book::rails_kept + 1);
  CHECK(r.rails.back().rail == "other rails");
  CHECK(r.rails.back().wrs == 5);
  CHECK(std::accumulate(r.rails.begin(), r.rails.end(), std::uint64_t{0},
                        [](auto sum, const auto& s) { return sum + s.bytes; }) == rails * (rails + 1) / 2);
}
