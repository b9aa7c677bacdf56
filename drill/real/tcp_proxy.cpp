// SPDX-License-Identifier: Apache-2.0
// One thread, poll(2) every few milliseconds: the control connection carries little.
#include "drill/real/tcp_proxy.hpp"

#include "bootstrap/codec.hpp"
#include "bootstrap/limits.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

constexpr int poll_ms = 2;
constexpr int backlog = 16;
/// A receiver that does not read makes the sender wait, as it would without us.
constexpr std::size_t waiting_limit = 1u << 20;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return a;
}

/// Closed with a reset instead of an end of stream.
void reset(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
}

} // namespace

tcp_proxy::stream::stream(int from_fd, int to_fd, bool is_towards_target)
    : from(from_fd), to(to_fd), towards_target(is_towards_target), decoder(bootstrap::max_message_bytes) {}

void tcp_proxy::stream::add(base::time_point due, std::span<const std::uint8_t> payload) {
  const auto frame = bootstrap::make_frame(payload);
  waiting.push_back({due, {frame.begin(), frame.end()}});
  bytes += frame.size();
  if (waiting.size() < 2 || !waiting[waiting.size() - 2].lets_next_pass)
    return;
  auto& overtaken = waiting[waiting.size() - 2];
  overtaken.lets_next_pass = false;
  if (overtaken.due <= due) // some of it may be on its way
    return;
  overtaken.due = due;
  std::swap(overtaken, waiting.back());
}

bool tcp_proxy::stream::waits_to_be_overtaken(base::time_point now) const {
  return !waiting.empty() && waiting.back().lets_next_pass && waiting.back().due > now;
}

tcp_proxy::tcp_proxy(const std::string& target)
    : target_port_(static_cast<std::uint16_t>(std::atoi(target.c_str() + target.rfind(':') + 1))),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  // A port that was asked for by number stays the listener's own while it is shut down, one that the kernel
  // chose would be another afterwards. So one socket lets the kernel choose, and the listener asks for that.
  const int chooser = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto at = loopback(0);
  socklen_t length = sizeof at;
  const int yes = 1;
  bool good = true;
  for (const int fd : {chooser, listener_}) {
    good = good && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
           ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
           ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) == 0;
  }
  ::close(chooser);
  if (!good || ::listen(listener_, backlog) != 0)
    throw std::runtime_error("the proxy cannot listen");
  address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  thread_ = std::thread([this] { loop(); });
}

tcp_proxy::~tcp_proxy() {
  stopping_.store(true);
  thread_.join();
  ::close(listener_);
}

void tcp_proxy::cut() {
  std::lock_guard lock(mutex_);
  while (!open_.empty())
    drop(0);
}

void tcp_proxy::hold(bool on) {
  std::lock_guard lock(mutex_);
  held_ = on;
}

void tcp_proxy::refuse(bool on) {
  std::lock_guard lock(mutex_);
  if (refusing_ == on)
    return;
  refusing_ = on;
  // Linux: a listener that is shut down can listen again.
  if (on)
    ::shutdown(listener_, SHUT_RDWR);
  else if (::listen(listener_, backlog) != 0)
    throw std::runtime_error("the proxy cannot listen again");
}

void tcp_proxy::set_latency_to_target(base::duration by) {
  std::lock_guard lock(mutex_);
  to_target_ = by;
}

void tcp_proxy::set_latency_from_target(base::duration by) {
  std::lock_guard lock(mutex_);
  from_target_ = by;
}

void tcp_proxy::set_trap(bool towards_target, std::shared_ptr<message_trap> what) {
  std::lock_guard lock(mutex_);
  std::erase_if(traps_, [](const auto& t) { return t.second->left.load() == 0; });
  traps_.emplace_back(towards_target, std::move(what));
}

void tcp_proxy::accept_one() {
  const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (near < 0)
    return;
  const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto to = loopback(target_port_);
  // On the loopback interface the kernel answers at once, whether or not the process runs.
  if (::connect(far, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    ::close(far);
    reset(near);
    return;
  }
  ++connections_;
  open_.push_back({{near, far, true}, {far, near, false}});
}

void tcp_proxy::drop(std::size_t which) {
  reset(open_[which].there.from);
  reset(open_[which].there.to);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
}

/// False when it is broken.
bool tcp_proxy::read_some(stream& s, stream& other) {
  if (s.ended || s.bytes >= waiting_limit)
    return true;
  std::array<std::uint8_t, 16384> part{};
  const auto n = ::recv(s.from, part.data(), part.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  s.ended = n == 0;
  if (n <= 0)
    return n == 0;
  s.decoder.push({part.data(), static_cast<std::size_t>(n)});
  for (;;) {
    const auto next = s.decoder.next();
    if (!next)
      return false;
    if (!*next)
      return true;
    pass_on(s, other, **next);
  }
}

const bootstrap::message_fault* tcp_proxy::take_fault(const stream& s, const bootstrap::message& what) {
  const std::string type = bootstrap::type_name(what.what);
  for (const auto& [towards_target, trap] : traps_) {
    const auto& f = trap->what;
    if (towards_target != s.towards_target || (!f.type.empty() && f.type != type) ||
        (f.fate == bootstrap::message_fate::refused && !bootstrap::refusal_of(what, {})) ||
        (f.fate == bootstrap::message_fate::overtaken && s.waits_to_be_overtaken(base::mono_clock::now())))
      continue;
    auto left = trap->left.load();
    while (left > 0 && !trap->left.compare_exchange_weak(left, left - 1)) {
    }
    if (left > 0) {
      trap->met = base::mono_clock::now();
      return &f;
    }
  }
  return nullptr;
}

void tcp_proxy::pass_on(stream& s, stream& other, std::span<const std::uint8_t> payload) {
  using bootstrap::message_fate;
  const auto now = base::mono_clock::now();
  const auto due = now + (s.towards_target ? to_target_ : from_target_);
  const auto message = traps_.empty() ? bootstrap::decode({}) : bootstrap::decode(payload);
  const auto* fault = message ? take_fault(s, *message) : nullptr;
  if (fault == nullptr)
    return s.add(due, payload);
  switch (fault->fate) {
  case message_fate::lost: break;
  case message_fate::twice:
    s.add(due, payload);
    s.add(due, payload);
    break;
  case message_fate::truncated: s.add(due, payload.first(payload.size() / 2)); break;
  case message_fate::late: s.add(due + fault->by, payload); break;
  case message_fate::overtaken:
    s.add(due + fault->by, payload);
    s.waiting.back().lets_next_pass = true;
    break;
  case message_fate::refused:
    if (const auto answer = bootstrap::encode(*bootstrap::refusal_of(*message, fault->text)))
      other.add(now + (other.towards_target ? to_target_ : from_target_), *answer);
    break;
  }
}

/// False when nobody takes it any more.
bool tcp_proxy::write_some(stream& s) const {
  const auto now = base::mono_clock::now();
  while (!s.waiting.empty() && s.waiting.front().due <= now) {
    auto& data = s.waiting.front().data;
    const auto n = ::send(s.to, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
      return errno == EAGAIN || errno == EINTR;
    s.bytes -= static_cast<std::size_t>(n);
    data.erase(0, static_cast<std::size_t>(n));
    if (!data.empty())
      return true;
    s.waiting.pop_front();
  }
  return true;
}

void tcp_proxy::loop() {
  while (!stopping_.load()) {
    std::vector<pollfd> fds;
    {
      std::lock_guard lock(mutex_);
      if (!held_) {
        if (!refusing_)
          fds.push_back({listener_, POLLIN, 0});
        for (const auto& c : open_)
          for (const auto* s : {&c.there, &c.back})
            if (s->bytes < waiting_limit && !s->ended)
              fds.push_back({s->from, POLLIN, 0});
      }
    }
    ::poll(fds.data(), fds.size(), poll_ms);
    std::lock_guard lock(mutex_);
    if (held_)
      continue;
    for (auto i = open_.size(); i-- > 0;) {
      bool good = true;
      auto& c = open_[i];
      for (auto [s, other] : {std::pair{&c.there, &c.back}, std::pair{&c.back, &c.there}})
        good = good && read_some(*s, *other) && write_some(*s) && !(s->ended && s->waiting.empty());
      if (!good)
        drop(i);
    }
    for (const auto& p : fds)
      if (p.fd == listener_ && p.revents != 0 && !refusing_)
        accept_one();
  }
  std::lock_guard lock(mutex_);
  while (!open_.empty())
    drop(0);
}

} // namespace actor_rdma::drill
