// SPDX-License-Identifier: Apache-2.0
#include "drill/real/memory_watch.hpp"

#include "drill/checks/invariants.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mib = 1 << 20;

std::vector<finding> findings_of(std::uint64_t bytes_per_s, std::uint64_t seconds) {
  memory_watch watch;
  for (std::uint64_t t = 0; t <= seconds; ++t)
    watch.add("a", 7, base::time_point{} + std::chrono::seconds{t},
              (t < 5 ? t : 5) * 10 * mib + t * bytes_per_s);
  run_facts facts;
  facts.growth = watch.result();
  return check_invariants({}, facts);
}

} // namespace

TEST_CASE("memory that grows all the time is a finding, what a process fills at its start is none") {
  CHECK(findings_of(0, 600).empty());
  CHECK(findings_of(1024, 600).empty()); // not a MiB in all
  const auto found = findings_of(mib / 10, 600);
  REQUIRE(found.size() == 1);
  CHECK(found[0].check == "conservation");
  CHECK(found[0].text.find("MiB") != std::string::npos);
}

TEST_CASE("a short life tells nothing") {
  CHECK(findings_of(mib, 50).empty());
}

TEST_CASE("what a living process uses can be read") {
  memory_watch watch;
  watch.look("self", ::getpid(), base::time_point{});
  watch.look("self", ::getpid(), base::time_point{} + 100s);
  watch.look("nobody", -1, base::time_point{});
  const auto all = watch.result();
  REQUIRE(all.size() == 1);
  CHECK(all[0].late_bytes > mib / 4);
}

} // namespace actor_rdma::drill
