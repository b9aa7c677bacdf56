// SPDX-License-Identifier: Apache-2.0
//
// Tests of the histogram: its error bound over the whole range, and the figures that are exact.
#include "base/histogram.hpp"

#include "base/random.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma::base;

static_assert(std::is_trivially_copyable_v<histogram>);
static_assert(std::is_standard_layout_v<histogram>);

TEST_CASE("buckets follow each other without gap or overlap, none wider than 1/64 of its values") {
  using wide = basic_histogram<64>;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < wide::bucket_count; ++i) {
    const auto end = wide::bucket_end(i);
    REQUIRE(wide::bucket_of(begin) == i);
    REQUIRE(wide::bucket_of(end) == i);
    REQUIRE(end - begin <= begin / 64);
    begin = end + 1;
  }
  CHECK(begin == 0); // the last bucket ends with the last value of the type
}

TEST_CASE("an empty histogram answers zero") {
  const histogram h;
  CHECK(h.count() == 0);
  CHECK(h.min() == 0);
  CHECK(h.max() == 0);
  CHECK(h.mean() == 0.0);
  CHECK(h.quantile(0.5) == 0);
}

TEST_CASE("one value is every quantile, exactly") {
  histogram h;
  h.record(123'456'789);
  for (const double q : {0.0, 0.5, 0.999, 1.0})
    CHECK(h.quantile(q) == 123'456'789);
  CHECK(h.min() == 123'456'789);
  CHECK(h.mean() == 123'456'789.0);
}

TEST_CASE("values beyond the range count in the last bucket and keep their maximum") {
  histogram h;
  h.record(1);
  h.record(std::uint64_t{1} << 50);
  CHECK(h.max() == std::uint64_t{1} << 50);
  CHECK(h.quantile(1.0) == std::uint64_t{1} << 50);
  CHECK(h.quantile(0.5) == 1);
  h.clear();
  CHECK(h.count() == 0);
}

TEST_CASE("quantiles lie within 1/64 above the true ones, merged or not") {
  CHECK(rc::check("quantiles", [] {
    const auto bits = *rc::gen::inRange(1, 40);
    rng random{*rc::gen::arbitrary<std::uint64_t>()};
    const auto n = *rc::gen::inRange<std::size_t>(1, 2000);
    std::vector<std::uint64_t> values(n);
    histogram one;
    histogram left;
    histogram right;
    for (auto& v : values) {
      v = random.below(std::uint64_t{1} << bits) >> random.below(static_cast<std::uint64_t>(bits));
      one.record(v);
      (random.chance(0.5) ? left : right).record(v);
    }
    left.merge(right);
    std::sort(values.begin(), values.end());
    RC_ASSERT(one.count() == n);
    RC_ASSERT(left.count() == n);
    RC_ASSERT(left.sum() == one.sum());
    RC_ASSERT(one.min() == values.front());
    RC_ASSERT(one.max() == values.back());
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(n)));
      const auto truth = values[rank == 0 ? 0 : rank - 1];
      RC_ASSERT(one.quantile(q) >= truth);
      RC_ASSERT(one.quantile(q) - truth <= truth / 64);
      RC_ASSERT(left.quantile(q) == one.quantile(q));
    }
  }));
}

TEST_CASE("many equal values may be recorded at once") {
  histogram a;
  histogram b;
  a.record(5000, 3);
  for (int i = 0; i < 3; ++i)
    b.record(5000);
  CHECK(a.count() == b.count());
  CHECK(a.sum() == b.sum());
  CHECK(a.bucket(histogram::bucket_of(5000)) == 3);
}

TEST_CASE("recording costs nanoseconds") {
  histogram h;
  rng random{1};
  std::vector<std::uint64_t> values(4096);
  for (auto& v : values)
    v = random.below(1'000'000);
  auto best = duration::max();
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto before = mono_clock::now();
    for (const auto v : values)
      h.record(v);
    asm volatile("" : : "r"(&h) : "memory"); // or the compiler moves the work out of the measured span
    best = std::min(best, mono_clock::now() - before);
  }
  const auto per_value = static_cast<double>(best.count()) / static_cast<double>(values.size());
  MESSAGE("one record takes " << per_value << " ns");
  CHECK(h.count() == 20 * values.size());
  CHECK(per_value < 200.0); // a slip of kind, not of degree: this also runs under sanitizers
}
