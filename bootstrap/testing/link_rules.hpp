// SPDX-License-Identifier: Apache-2.0
//
// What every channel promises about the calls for one link, checked on a recorder after the channel was
// stopped.
#pragma once

#include "bootstrap/testing/recorder.hpp"

#include <map>
#include <string>

namespace actor_rdma::bootstrap::testing {

/// The first breach, or nothing: a link is announced at most once and before its messages, is closed exactly
/// once, nothing follows that, and the numbers in its pings grow.
inline std::string breach_of_link_rules(const recorder& heard) {
  struct history {
    bool announced = false;
    bool closed = false;
    std::uint64_t last = 0;
  };
  std::map<link_id, history> links;
  for (const auto& it : heard.events()) {
    auto& link = links[it.link];
    const auto name = "link " + std::to_string(it.link);
    if (it.link == 0 || link.closed)
      return name + ": a call after on_closed";
    if (it.what == recorder::kind::accepted || it.what == recorder::kind::dialled) {
      if (link.announced)
        return name + ": announced twice";
      link.announced = true;
    } else if (it.what == recorder::kind::message) {
      if (!link.announced)
        return name + ": a message before it was announced";
      const auto number = std::get<ping>(it.content.what).token;
      if (number <= link.last)
        return name + ": messages out of order";
      link.last = number;
    } else {
      link.closed = true;
    }
  }
  for (const auto& [id, link] : links) {
    if (!link.closed)
      return "link " + std::to_string(id) + ": never closed";
  }
  return {};
}

} // namespace actor_rdma::bootstrap::testing
