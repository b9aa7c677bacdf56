// SPDX-License-Identifier: Apache-2.0
//
// The behaviour table and its copy for readers.
#include "tests/kernel/behaviour/rows.hpp"

#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

using namespace actor_rdma::tests::kernel;

TEST_CASE("the manual of the software NIC has the behaviour table as it is asserted") {
  std::ifstream file{ACTOR_RDMA_SOURCE_DIR "/docs/software-nic.md"};
  REQUIRE(file);
  std::stringstream text;
  text << file.rdbuf();
  for (const auto& r : rows())
    CHECK_MESSAGE(text.str().find(table_line(r) + '\n') != std::string::npos, "it lacks " << table_line(r));
}
