// SPDX-License-Identifier: Apache-2.0
//
// How errors and reasons read.
#include "base/error.hpp"

#include <system_error>

namespace actor_rdma::base {

const char* to_string(reason why) noexcept {
  switch (why) {
  case reason::none: return "none";
  case reason::invalid_argument: return "invalid_argument";
  case reason::not_found: return "not_found";
  case reason::busy: return "busy";
  case reason::would_block: return "would_block";
  case reason::unsupported: return "unsupported";
  case reason::out_of_range: return "out_of_range";
  case reason::permission: return "permission";
  case reason::local_device: return "local_device";
  case reason::path: return "path";
  case reason::peer_dead: return "peer_dead";
  case reason::peer_rejected: return "peer_rejected";
  case reason::peer_silent: return "peer_silent";
  case reason::protocol: return "protocol";
  case reason::timeout: return "timeout";
  case reason::cancelled: return "cancelled";
  case reason::request_fault: return "request_fault";
  case reason::resource: return "resource";
  case reason::shutting_down: return "shutting_down";
  case reason::internal: return "internal";
  case reason::count: break;
  }
  return "unknown";
}

std::string errno_text(int sys_errno) {
  return std::generic_category().message(sys_errno);
}

std::string error::to_string() const {
  std::string text;
  if (!layer.empty())
    text.append(layer).append(": ");
  text.append(what.empty() ? base::to_string(why) : what.c_str());

  const char* separator = " (";
  const auto add_place = [&](const char* name, const std::string& value) {
    if (value.empty())
      return;
    text.append(separator).append(name).append(" ").append(value);
    separator = ", ";
  };
  add_place("device", device);
  add_place("rail", rail);
  add_place("peer", peer);
  if (separator[0] == ',')
    text.append(")");

  if (sys_errno != 0)
    text.append(": ").append(errno_text(sys_errno));
  return text;
}

} // namespace actor_rdma::base
