// SPDX-License-Identifier: Apache-2.0
// Two processes with eight devices each, connected and without work, leave the machine to others.
#include "tests/process/child.hpp"
#include "transport/transport.hpp"

#include <csignal>
#include <ctime>
#include <thread>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::process;
using namespace std::chrono_literals;

namespace {

constexpr base::duration watched = 3s;

base::duration own_cpu_time() {
  timespec ts{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return base::duration{std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec};
}

double share_of_a_core(base::duration cpu) {
  return std::chrono::duration<double>(cpu) / std::chrono::duration<double>(watched);
}

} // namespace

TEST_CASE("an idle process with eight devices uses less than a fiftieth of a core") {
  const fabric_name fabric;
  target_process target(fabric.get(), {"--nics", "8", "--range", "1M"});
  REQUIRE(!target.address.empty());
  options how;
  how.name = how.soft.host = "initiator";
  how.soft.fabric = fabric.get();
  how.soft.devices = 8;
  auto t = transport::create(how);
  if (!t)
    FAIL(t.error().to_string());
  const auto segment = (*t)->import_segment(target.address, 10s);
  if (!segment)
    FAIL(segment.error().to_string());
  std::size_t usable = 0;
  for (const auto until = base::mono_clock::now() + 10s; usable < 8 && base::mono_clock::now() < until;) {
    std::this_thread::sleep_for(20ms);
    usable = 0;
    for (const auto& s : (*t)->snapshot())
      usable += s.kind == "endpoint" && s.state == "ACTIVE" ? 1 : 0;
  }
  REQUIRE(usable == 8);

  std::this_thread::sleep_for(500ms);
  const auto ours = own_cpu_time();
  const auto theirs = target.process.cpu_time();
  std::this_thread::sleep_for(watched);
  const auto our_share = share_of_a_core(own_cpu_time() - ours);
  const auto their_share = share_of_a_core(target.process.cpu_time() - theirs);
  MESSAGE("initiator " << 100 * our_share << " %, target " << 100 * their_share << " % of a core");
  CHECK(our_share < 0.02);
  CHECK(their_share < 0.02);
  CHECK((*t)->shutdown(10s).clean);
  target.process.signal(SIGTERM);
  REQUIRE(target.process.wait(15s));
  CHECK(*target.process.wait(0s) == 0);
}
