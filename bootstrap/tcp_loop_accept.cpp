// SPDX-License-Identifier: Apache-2.0
//
// Accepting. When descriptors run out, the waiting connection stays in the system's queue and would make
// epoll report the listener for ever: the listener rests for a while instead.
#include "bootstrap/link_end.hpp"
#include "bootstrap/tcp_loop.hpp"

#include <cerrno>

#include <sys/epoll.h>

namespace actor_rdma::bootstrap::tcp {

namespace {

constexpr int accepts_per_turn = 64;

} // namespace

void loop::on(add_listener&& what) {
  if (stop_deadline_)
    return;
  const auto id = mail_.new_id();
  auto& from = listeners_[id];
  from.socket = std::move(what.socket);
  from.address = std::move(what.address);
  if (!control(EPOLL_CTL_ADD, from.socket, id, EPOLLIN))
    rest(id, from, errno);
}

void loop::accept_all(link_id id, listener& from) {
  for (int i = 0; i < accepts_per_turn; ++i) {
    socket_address peer;
    auto socket = accept_one(from.socket, peer);
    const int code = errno;
    if (socket)
      admit(std::move(socket), peer);
    else if (code == EAGAIN || code == EWOULDBLOCK)
      return;
    else if (code != EINTR && code != ECONNABORTED)
      return rest(id, from, code);
  }
}

void loop::rest(link_id id, listener& from, int sys_errno) {
  const auto why = link_end::resources({}, "cannot accept on " + from.address, sys_errno);
  complain("{}, trying again in {} ms", why.to_string(),
           std::chrono::duration_cast<std::chrono::milliseconds>(options_.accept_backoff).count());
  control(EPOLL_CTL_DEL, from.socket, id, 0);
  arm(id, from.timer, base::mono_clock::now() + options_.accept_backoff);
}

void loop::on_rest_over(link_id id, listener& from) {
  arm(id, from.timer, base::time_never);
  if (!control(EPOLL_CTL_ADD, from.socket, id, EPOLLIN))
    rest(id, from, errno);
}

void loop::admit(unique_fd socket, const socket_address& peer) {
  const auto name = peer.to_string();
  if (links_.size() >= options_.max_links) {
    complain("turned {} away: all {} links are in use", name, options_.max_links);
    return;
  }
  tune_stream(socket, options_.silence_timeout);
  const auto id = mail_.open_link();
  auto& at = *links_.emplace(id, std::make_unique<link>(id, name, options_.max_message_bytes)).first->second;
  at.socket = std::move(socket);
  at.accepted = true;
  at.state = link_state::open;
  arm(id, at.timer, base::mono_clock::now() + options_.first_message_timeout);
  handler_.on_accepted(id, name);
  if (!watch(at, EPOLLIN))
    finish(at, link_end::resources(name, "cannot watch a socket", errno));
}

} // namespace actor_rdma::bootstrap::tcp
