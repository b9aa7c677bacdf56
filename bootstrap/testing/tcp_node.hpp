// SPDX-License-Identifier: Apache-2.0
//
// A TCP channel with a recorder, listening if wanted; what the tests of the channel are made of.
#pragma once

#include "bootstrap/tcp_channel.hpp"
#include "bootstrap/testing/recorder.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace actor_rdma::bootstrap::testing {

struct tcp_node {
  recorder heard;
  std::unique_ptr<tcp_channel> channel;
  std::string address;

  explicit tcp_node(tcp_options options = {}, const std::string& listen_on = "") {
    channel = std::move(*tcp_channel::create(std::move(options)));
    channel->start(heard);
    if (!listen_on.empty())
      address = channel->listen(listen_on).value_or("");
  }
  ~tcp_node() { channel->stop(); }

  /// A link to another node that is up on both sides.
  link_id connect_to(tcp_node& other) {
    const auto before = other.heard.count(recorder::kind::accepted);
    const auto link = channel->dial(other.address);
    heard.wait_until([&] { return !heard.of_link(link).empty(); });
    other.heard.wait(recorder::kind::accepted, before + 1);
    return link;
  }
  [[nodiscard]] link_id last_accepted() const { return heard.events(recorder::kind::accepted).back().link; }
};

inline message hello_from(incarnation who) {
  return {protocol_version, who, 0, hello{"test", "build", 0, ""}};
}

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

} // namespace actor_rdma::bootstrap::testing
