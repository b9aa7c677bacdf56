// SPDX-License-Identifier: Apache-2.0
// Requests to the kernel over a netlink socket: what `ip`, `tc` and `rdma` would send, without starting them,
// because in a slow guest a process costs a hundred milliseconds. A request is answered with the kernel's
// own words where it has some. Any thread may ask; each request has a socket of its own.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::drill {

/// A request that is put together: the family's header, then attributes, some of them nested.
class netlink_message {
public:
  /// `type` and `flags` as in nlmsghdr (netlink(7)); NLM_F_REQUEST is added.
  netlink_message(std::uint16_t type, std::uint16_t flags);

  template <class Header>
  netlink_message& header(const Header& h) {
    append(&h, sizeof h);
    return *this;
  }
  netlink_message& bytes(std::uint16_t type, const void* data, std::size_t length);
  netlink_message& u32(std::uint16_t type, std::uint32_t value) { return bytes(type, &value, sizeof value); }
  /// With its terminating zero.
  netlink_message& text(std::uint16_t type, const std::string& value) {
    return bytes(type, value.c_str(), value.size() + 1);
  }
  netlink_message& begin_nest(std::uint16_t type);
  netlink_message& end_nest();

  /// The whole message with its length filled in.
  const std::vector<std::byte>& finished();

private:
  void append(const void* data, std::size_t length);

  std::vector<std::byte> data_;
  std::vector<std::size_t> nests_; ///< where those begin that are still open
};

/// Asks for it and waits for the kernel's yes or no. `protocol` as of socket(AF_NETLINK), `what` begins the
/// error's text. The kernel does the work within the call: it lasts as long as that does.
base::expected<void> netlink_ask(int protocol, netlink_message message, const std::string& what);

/// Attributes of one object in an answer, by type; of nested ones only the bytes, and of several of one type
/// the last.
using netlink_attributes = std::map<std::uint16_t, std::string>;
/// Those that stand in `bytes`, the value of a nested one, in turn.
void each_attribute(std::string_view bytes,
                    const std::function<void(std::uint16_t type, std::string_view value)>& each);
netlink_attributes attributes_in(std::string_view bytes);
/// What an attribute says as text, which ends at its first zero.
std::string text_of(const std::string& attribute);

/// Asks for a list. `header_bytes` is the length of the family's header before the attributes.
base::expected<std::vector<netlink_attributes>>
netlink_list(int protocol, netlink_message message, std::size_t header_bytes, const std::string& what);

} // namespace actor_rdma::drill
