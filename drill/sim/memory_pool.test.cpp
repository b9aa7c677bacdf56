// SPDX-License-Identifier: Apache-2.0
#include "drill/sim/memory_pool.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::drill;

TEST_CASE("a comparison that fails says what is there instead") {
  constexpr std::size_t bytes = 1024;
  std::vector<std::byte> memory(bytes * 2);
  memory_pool pool(reinterpret_cast<std::uint64_t>(memory.data()), bytes, 2, true);
  const auto first = pool.take();
  pool.fill(first, 7, bytes);
  CHECK(!pool.wrong(first, 7, bytes));

  const auto others = pool.wrong(first, 8, bytes);
  REQUIRE(others);
  CHECK(others->find("bytes 0 to 7") == std::string::npos);
  CHECK(others->find("one of 0 to 7 of 1024, it is of transfer 7, then of transfer 7; 128 of 128 words") !=
        std::string::npos);

  pool.give_back(first, 7);
  (void)pool.take();
  const auto again = pool.take();
  const auto nothing = pool.wrong(again, 9, bytes);
  REQUIRE(nothing);
  CHECK(nothing->find("it is a canary, as nothing came, then of transfer 7; 128 of 128 words are wrong; "
                      "transfer 7 was") != std::string::npos);

  pool.fill(again, 9, bytes);
  memory[first * bytes + 80] ^= std::byte{1};
  const auto damaged = pool.wrong(again, 9, bytes);
  REQUIRE(damaged);
  CHECK(damaged->find("one of 80 to 87 of 1024, it is 0x") != std::string::npos);
  CHECK(damaged->find("then right; 1 of 128") != std::string::npos);
}
