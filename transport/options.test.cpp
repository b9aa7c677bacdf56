// SPDX-License-Identifier: Apache-2.0
// Options out of range are refused by name, with what is accepted.
#include "transport/options.hpp"

#include <functional>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

std::string refusal(const std::function<void(options&)>& change) {
  options o;
  change(o);
  const auto outcome = validate(o);
  return outcome ? "" : outcome.error().to_string();
}

} // namespace

TEST_CASE("the usual options are accepted") {
  CHECK(refusal([](auto&) {}).empty());
}

TEST_CASE("an option out of range is refused by its name, with the value and what is accepted") {
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(refusal([](auto& o) { o.name.clear(); }), "name is 0 characters long, accepted is 1 to 255");
  says(refusal([](auto& o) { o.stall_floor = 0ms; }), "stall_floor_ms is 0 ms, accepted is 1 to 60000 ms");
  says(refusal([](auto& o) { o.breaker_hold = 2001ms; }),
       "breaker_hold_ms is 2001 ms, accepted is 0 to 2000 ms");
  says(refusal([](auto& o) { o.breaker_hold = -1ms; }), "breaker_hold_ms is -1 ms");
  says(refusal([](auto& o) { o.cq_entries = 1023; }), "cq_entries is 1023, accepted is 1024 to 4194304");
  says(refusal([](auto& o) { o.send_queue_depth = 96; }),
       "send_queue_depth is 96, accepted is a power of two");
  says(refusal([](auto& o) { o.qp_timeout = 32; }), "qp_timeout is 32, accepted is 0 to 31");
  says(refusal([](auto& o) { o.retry_count = 8; }), "retry_count is 8, accepted is 0 to 7");
  says(refusal([](auto& o) { o.soft.mode = "fast"; }),
       "soft.mode is fast, accepted is inline, paced or null");
  says(refusal([](auto& o) { o.soft.link_layer = "ib"; }),
       "soft.link_layer is ib, accepted is ethernet or infiniband");
  CHECK(refusal([](auto& o) { o.soft.link_layer = "infiniband"; }).empty());
  CHECK(refusal([](auto& o) { o.breaker_hold = 0ms; }).empty());
  CHECK(refusal([](auto& o) { o.cq_entries = 1u << 22; }).empty());
}
