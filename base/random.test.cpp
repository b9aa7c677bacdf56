// SPDX-License-Identifier: Apache-2.0
//
// Tests of the generator: reproducible, in range, and level enough for what we use it for.
#include "base/random.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

using actor_rdma::base::rng;

TEST_CASE("the same seed gives the same numbers and another seed others") {
  rng a{42};
  rng b{42};
  rng c{43};
  int same_as_c = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto value = a.next();
    CHECK(value == b.next());
    same_as_c += value == c.next() ? 1 : 0;
  }
  CHECK(same_as_c == 0);
}

TEST_CASE("the sequence of a seed is pinned, so that recorded seeds keep their meaning") {
  // Reference: splitmix64(0) seeds xoshiro256**, as in the authors' C sources.
  rng r{0};
  CHECK(r.next() == 0x99ec5f36cb75f2b4);
  CHECK(r.next() == 0xbf6e1f784956452a);
  CHECK(r.next() == 0x1a5f849d4933e6e0);
}

TEST_CASE("below stays under its bound and visits every value evenly") {
  rng r{7};
  std::vector<int> seen(10, 0);
  for (int i = 0; i < 100'000; ++i)
    ++seen[r.below(10)];
  for (const int count : seen) {
    CHECK(count > 9'500);
    CHECK(count < 10'500);
  }
  CHECK(r.below(1) == 0);
  CHECK(r.below(0) == 0);
  for (int i = 0; i < 1000; ++i)
    CHECK(r.below(0x8000000000000001) <= 0x8000000000000000);
}

TEST_CASE("between includes both ends, whatever the range") {
  rng r{7};
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1000; ++i) {
    const auto v = r.between(-2, 2);
    CHECK(v >= -2);
    CHECK(v <= 2);
    low = low || v == -2;
    high = high || v == 2;
  }
  CHECK(low);
  CHECK(high);
  CHECK(r.between(5, 5) == 5);
  r.between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("uniform lies from 0 up to but not including 1, with the mean in the middle") {
  rng r{3};
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto u = r.uniform();
    CHECK(u >= 0.0);
    CHECK(u < 1.0);
    sum += u;
  }
  CHECK(sum / 100'000 == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("a generator works with the standard library's shuffle, and a fork goes its own way") {
  std::vector<int> order{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto sorted = order;
  rng r{1};
  std::shuffle(order.begin(), order.end(), r);
  CHECK(order != sorted);
  CHECK(std::is_permutation(order.begin(), order.end(), sorted.begin()));
  auto child = r.fork();
  CHECK(child.next() != r.next());
}

TEST_CASE("entropy seeds differ") {
  CHECK(actor_rdma::base::entropy_seed() != actor_rdma::base::entropy_seed());
}
