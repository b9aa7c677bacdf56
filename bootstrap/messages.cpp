// SPDX-License-Identifier: Apache-2.0
//
// The names that bodies and reject codes have on the wire, in logs and in documents.
#include "bootstrap/messages.hpp"

namespace actor_rdma::bootstrap {

namespace {

// In the order of the alternatives of `body`.
constexpr std::array<const char*, std::variant_size_v<body>> names = {
    "hello",   "publish", "connect", "accept", "rebuild", "rebuilt", "retire",
    "retired", "reject",  "ping",    "pong",   "goodbye", "notice",  "noticed"};

} // namespace

const char* to_string(reject_code code) noexcept {
  switch (code) {
  case reject_code::none: return "none";
  case reject_code::wrong_version: return "wrong_version";
  case reject_code::unknown_device: return "unknown_device";
  case reject_code::shutting_down: return "shutting_down";
  case reject_code::device_not_ready: return "device_not_ready";
  case reject_code::bad_request: return "bad_request";
  case reject_code::busy: return "busy";
  case reject_code::stale_generation: return "stale_generation";
  case reject_code::unknown_endpoint: return "unknown_endpoint";
  case reject_code::resources: return "resources";
  case reject_code::wrong_incarnation: return "wrong_incarnation";
  case reject_code::internal: return "internal";
  }
  return "unknown"; // a later version may have codes that this one does not
}

const char* type_name(const body& what) noexcept {
  return what.valueless_by_exception() ? "none" : names[what.index()];
}

} // namespace actor_rdma::bootstrap
