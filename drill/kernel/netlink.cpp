// SPDX-License-Identifier: Apache-2.0
// netlink(7): alignment, acknowledgements, extended answers.
#include "drill/kernel/netlink.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

constexpr std::size_t aligned(std::size_t n) {
  return (n + NLMSG_ALIGNTO - 1) & ~std::size_t{NLMSG_ALIGNTO - 1};
}

class socket_of_kernel {
public:
  explicit socket_of_kernel(int protocol) : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)) {
    const int on = 1;
    (void)::setsockopt(fd_, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
    (void)::setsockopt(fd_, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on); // an error without our request
  }
  ~socket_of_kernel() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  socket_of_kernel(const socket_of_kernel&) = delete;
  socket_of_kernel& operator=(const socket_of_kernel&) = delete;
  int fd() const noexcept { return fd_; }

private:
  int fd_;
};

/// What the kernel says beside the errno, or nothing.
std::string words_of(const nlmsghdr& head, const char* body, std::size_t length) {
  if ((head.nlmsg_flags & NLM_F_ACK_TLVS) == 0 || length < sizeof(nlmsgerr))
    return {};
  const auto all = attributes_in({body + sizeof(nlmsgerr), length - sizeof(nlmsgerr)});
  const auto found = all.find(NLMSGERR_ATTR_MSG);
  return found == all.end() ? std::string{} : ": " + text_of(found->second);
}

using object = std::function<void(const char* body, std::size_t length)>;

/// Sends it and reads until the answer's end.
base::expected<void> converse(int protocol, netlink_message& message, const std::string& what,
                              const object& each) {
  const socket_of_kernel socket(protocol);
  const auto& out = message.finished();
  if (socket.fd() < 0 || ::send(socket.fd(), out.data(), out.size(), 0) < 0)
    return base::fail(base::reason::local_device, "netlink", what, errno);
  std::vector<char> in(64 * 1024);
  while (true) {
    const auto got = ::recv(socket.fd(), in.data(), in.size(), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return base::fail(base::reason::local_device, "netlink", what, errno);
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= static_cast<std::size_t>(got);) {
      nlmsghdr head{};
      std::memcpy(&head, in.data() + at, sizeof head);
      if (head.nlmsg_len < sizeof head || at + head.nlmsg_len > static_cast<std::size_t>(got))
        return base::fail(base::reason::protocol, "netlink", what + ": the answer is cut off");
      const auto* const body = in.data() + at + sizeof head;
      const auto length = head.nlmsg_len - sizeof head;
      if (head.nlmsg_type == NLMSG_DONE)
        return {};
      if (head.nlmsg_type == NLMSG_ERROR) {
        int code = 0;
        std::memcpy(&code, body, std::min(length, sizeof code));
        if (code == 0)
          return {};
        return base::fail(base::reason::local_device, "netlink", what + words_of(head, body, length), -code);
      }
      each(body, length);
      at += aligned(head.nlmsg_len);
    }
  }
}

} // namespace

void each_attribute(std::string_view bytes,
                    const std::function<void(std::uint16_t type, std::string_view value)>& each) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr head{};
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > bytes.size())
      return;
    each(head.nla_type & NLA_TYPE_MASK, bytes.substr(sizeof head, head.nla_len - sizeof head));
    bytes.remove_prefix(std::min(aligned(head.nla_len), bytes.size()));
  }
}

std::string text_of(const std::string& attribute) {
  return attribute.substr(0, attribute.find('\0'));
}

netlink_attributes attributes_in(std::string_view bytes) {
  netlink_attributes all;
  each_attribute(bytes, [&](std::uint16_t type, std::string_view value) { all[type] = value; });
  return all;
}

netlink_message::netlink_message(std::uint16_t type, std::uint16_t flags) {
  nlmsghdr head{};
  head.nlmsg_type = type;
  head.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST);
  append(&head, sizeof head);
}

void netlink_message::append(const void* data, std::size_t length) {
  const auto* const from = static_cast<const std::byte*>(data);
  data_.insert(data_.end(), from, from + length);
  data_.resize(aligned(data_.size()));
}

netlink_message& netlink_message::bytes(std::uint16_t type, const void* data, std::size_t length) {
  const nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + length), type};
  append(&head, sizeof head);
  append(data, length);
  return *this;
}

netlink_message& netlink_message::begin_nest(std::uint16_t type) {
  nests_.push_back(data_.size());
  return bytes(static_cast<std::uint16_t>(type | NLA_F_NESTED), nullptr, 0);
}

netlink_message& netlink_message::end_nest() {
  const auto length = static_cast<std::uint16_t>(data_.size() - nests_.back());
  std::memcpy(data_.data() + nests_.back() + offsetof(nlattr, nla_len), &length, sizeof length);
  nests_.pop_back();
  return *this;
}

const std::vector<std::byte>& netlink_message::finished() {
  const auto length = static_cast<std::uint32_t>(data_.size());
  std::memcpy(data_.data() + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
  return data_;
}

base::expected<void> netlink_ask(int protocol, netlink_message message, const std::string& what) {
  return converse(protocol, message, what, [](const char*, std::size_t) {});
}

base::expected<std::vector<netlink_attributes>>
netlink_list(int protocol, netlink_message message, std::size_t header_bytes, const std::string& what) {
  std::vector<netlink_attributes> all;
  const auto done = converse(protocol, message, what, [&](const char* body, std::size_t length) {
    if (length >= header_bytes)
      all.push_back(attributes_in({body + header_bytes, length - header_bytes}));
  });
  if (!done)
    return base::fail(done.error());
  return all;
}

} // namespace actor_rdma::drill
