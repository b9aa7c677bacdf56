// SPDX-License-Identifier: Apache-2.0
// Who is barred, and for how long.
#include "actors/refusal_budget.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

TEST_CASE("the third refusal in ten seconds bars its source and no other") {
  refusal_budget budget;
  base::time_point now{};
  CHECK_FALSE(budget.refused({1, 2}, now));
  CHECK_FALSE(budget.refused({1, 2}, now += 1s));
  CHECK_FALSE(budget.is_barred({1, 2}, now));
  CHECK(budget.refused({1, 2}, now += 1s));
  CHECK(budget.is_barred({1, 2}, now));
  CHECK_FALSE(budget.is_barred({1, 3}, now));
  CHECK_FALSE(budget.is_barred({2, 2}, now));
}

TEST_CASE("a barred source may try again when its oldest refusal is ten seconds old, once for each") {
  refusal_budget budget;
  const base::time_point start{};
  for (const auto at : {0s, 1s, 2s})
    budget.refused({1, 2}, start + at);
  CHECK(budget.is_barred({1, 2}, start + 9999ms));
  CHECK_FALSE(budget.is_barred({1, 2}, start + 10s));
  CHECK(budget.refused({1, 2}, start + 10s));
  CHECK(budget.is_barred({1, 2}, start + 10999ms));
  CHECK_FALSE(budget.is_barred({1, 2}, start + 11s));
}

TEST_CASE("refusals of what was posted before the bar do not count as a new one") {
  refusal_budget budget;
  base::time_point now{};
  int bars = 0;
  for (int i = 0; i < 10; ++i)
    bars += budget.refused({1, 2}, now += 1ms) ? 1 : 0;
  CHECK(bars == 1);
}

TEST_CASE("of too many sources the one that was refused longest ago is forgotten") {
  refusal_budget budget;
  base::time_point now{};
  for (std::uint64_t i = 0; i <= refusal_budget::most_sources; ++i)
    for (std::size_t k = 0; k < refusal_budget::allowed; ++k)
      budget.refused({i, 0}, now += 1us);
  CHECK_FALSE(budget.is_barred({0, 0}, now));
  CHECK(budget.is_barred({1, 0}, now));
  CHECK(budget.is_barred({refusal_budget::most_sources, 0}, now));
}
