// SPDX-License-Identifier: Apache-2.0
// A device by itself on a simulated lane: what one wake-up takes from its event queue.
#include "actors/device_rig.hpp"

#include <poll.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;

namespace {

bool has_event(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

} // namespace

TEST_CASE("A-08: one wake-up takes every async event that waits, and the last one counts too") {
  device_rig r;
  REQUIRE(r.fabric->raise_event("h/soft0", "CLIENT_REREGISTER", 200)); // a storm of what means little
  REQUIRE(r.fabric->raise_event("h/soft0", "DEVICE_FATAL"));           // and what means much behind it
  r.fabric->advance(r.world.now());
  REQUIRE(has_event(r.async_fd));
  r.dev->on_readable(r.async_fd);
  CHECK_FALSE(has_event(r.async_fd));
  CHECK(r.heard->events.back().to == "DRAINING");
}
