// SPDX-License-Identifier: Apache-2.0
//
// Bytes in and out of a link, and the ways in which it closes.
#include "bootstrap/codec.hpp"
#include "bootstrap/link_end.hpp"
#include "bootstrap/tcp_loop.hpp"

#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace actor_rdma::bootstrap::tcp {

namespace {

constexpr int reads_per_turn = 16; // so that one busy peer does not keep the others waiting

} // namespace

bool loop::read(link& at) {
  for (int i = 0; i < reads_per_turn; ++i) {
    const auto got = ::recv(at.socket.get(), read_buffer_.data(), read_buffer_.size(), 0);
    const int code = errno;
    const bool closing = at.state == link_state::closing;
    if (got < 0 && code == EINTR)
      continue;
    if (got < 0 && (code == EAGAIN || code == EWOULDBLOCK))
      return true;
    if (got <= 0) {
      if (closing)
        finish(at, at.end);
      else if (at.send_errno != 0)
        finish(at, link_end::from_errno(at.peer, "sending", at.send_errno));
      else if (got == 0)
        finish(at, link_end::closed_by_peer(at.peer));
      else
        finish(at, link_end::from_errno(at.peer, "receiving", code));
      return false;
    }
    if (closing)
      continue; // nobody waits for it any more
    at.input.push({read_buffer_.data(), static_cast<std::size_t>(got)});
    if (!take_messages(at))
      return false;
  }
  return true;
}

bool loop::take_messages(link& at) {
  while (at.state == link_state::open) {
    const auto payload = at.input.next();
    if (!payload) {
      fault(at, payload.error().what);
      return false;
    }
    if (!*payload)
      return true;
    if (!take_message(at, **payload))
      return false;
  }
  return true;
}

bool loop::take_message(link& at, std::span<const std::uint8_t> payload) {
  auto decoded = decode(payload);
  if (decoded) {
    if (!std::exchange(at.heard, true))
      arm(at.id, at.timer, base::time_never);
    handler_.on_message(at.id, std::move(*decoded));
    return true;
  }
  const auto& failure = decoded.error();
  if (!failure.other_version) {
    fault(at, failure.text);
    return false;
  }
  complain("closing the link with {}: {}", at.peer, failure.text);
  const auto id = at.id;
  const auto answer = encode(wrong_version_answer(failure));
  if (answer)
    mail_.push(id, make_frame(*answer));
  begin_close(at, link_end::protocol(at.peer, failure.text));
  return find(id) != nullptr;
}

bool loop::flush(link& at) {
  for (auto& bytes : mail_.take_frames(at.id))
    at.output.push_back(std::move(bytes));
  while (!at.output.empty()) {
    const auto& front = at.output.front();
    const auto sent =
        ::send(at.socket.get(), front.data() + at.output_sent, front.size() - at.output_sent, MSG_NOSIGNAL);
    const int code = errno;
    if (sent < 0 && code == EINTR)
      continue;
    if (sent < 0 && (code == EAGAIN || code == EWOULDBLOCK))
      break;
    if (sent < 0)
      return on_write_error(at, code);
    mail_.sent(at.id, static_cast<std::size_t>(sent));
    at.output_sent += static_cast<std::size_t>(sent);
    if (at.output_sent == front.size()) {
      at.output.pop_front();
      at.output_sent = 0;
    }
  }
  if (at.output.empty() && at.state == link_state::closing && !std::exchange(at.shut, true))
    ::shutdown(at.socket.get(), SHUT_WR);
  watch(at, at.output.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
  return true;
}

bool loop::on_write_error(link& at, int sys_errno) {
  // The peer's last words, a reject perhaps, may have come before it went.
  at.send_errno = sys_errno;
  if (!read(at))
    return false;
  finish(at, at.state == link_state::closing ? at.end : link_end::from_errno(at.peer, "sending", sys_errno));
  return false;
}

void loop::begin_close(link& at, base::error why) {
  mail_.seal(at.id);
  if (at.state == link_state::closing)
    return;
  if (at.state != link_state::open)
    return finish(at, why);
  at.state = link_state::closing;
  at.end = std::move(why);
  arm(at.id, at.timer, base::mono_clock::now() + options_.linger);
  flush(at);
}

void loop::fault(link& at, const std::string& text) {
  complain("closed the link with {}: {}", at.peer, text);
  finish(at, link_end::protocol(at.peer, text));
}

} // namespace actor_rdma::bootstrap::tcp
