// SPDX-License-Identifier: Apache-2.0
//
// Dialling: resolve unless the host is a number, then try the addresses one after the other. All of it shares
// one time-out; an address that does not answer gets an equal part of what is left, so that a dead first
// address does not use up the time of a living second one.
#include "bootstrap/link_end.hpp"
#include "bootstrap/tcp_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

namespace actor_rdma::bootstrap::tcp {

void loop::on(begin_dial&& what) {
  const auto id = what.link;
  auto& at =
      *links_.emplace(id, std::make_unique<link>(id, what.address, options_.max_message_bytes)).first->second;
  const auto where = split_host_port(what.address);
  if (stop_deadline_)
    return finish(at, link_end::stopped(at.peer));
  if (!where)
    return finish(at, link_end::no_address(at.peer, where.error().what));
  if (where->port == 0)
    return finish(at, link_end::no_address(at.peer, "port 0 cannot be dialled"));
  if (links_.size() > options_.max_links)
    return finish(at, link_end::resources(at.peer, "all links are in use", 0));
  at.dial_deadline = base::mono_clock::now() + options_.dial_timeout;
  if (const auto number = numeric_address(*where)) {
    at.candidates.push_back(*number);
    return connect_next(at);
  }
  arm(id, at.timer, at.dial_deadline);
  names_.ask(id, *where, at.dial_deadline);
}

void loop::on(name_resolved&& what) {
  auto* const at = find(what.link);
  if (!at || at->state != link_state::resolving)
    return;
  if (!what.addresses)
    return finish(*at, link_end::no_address(at->peer, what.addresses.error().what));
  at->candidates = std::move(*what.addresses);
  std::reverse(at->candidates.begin(), at->candidates.end()); // the best one is taken first, from the back
  connect_next(*at);
}

void loop::connect_next(link& at) {
  at.state = link_state::connecting;
  while (!at.candidates.empty()) {
    const auto parts = static_cast<std::int64_t>(at.candidates.size());
    const auto address = at.candidates.back();
    at.candidates.pop_back();
    auto socket = begin_connect(address);
    if (!socket) {
      at.dial_error = link_end::from_errno(at.peer, "connecting", socket.error().sys_errno);
      continue;
    }
    at.socket = std::move(*socket);
    at.interest = 0; // the socket before, if any, has left epoll
    if (!watch(at, EPOLLOUT)) {
      at.dial_error = link_end::resources(at.peer, "cannot watch a socket", errno);
      continue;
    }
    const auto now = base::mono_clock::now();
    arm(at.id, at.timer, now + std::max(at.dial_deadline - now, base::duration{0}) / parts);
    return;
  }
  finish(at, at.dial_error);
}

void loop::on_connect_done(link& at) {
  if (const int code = take_socket_error(at.socket); code != 0) {
    at.dial_error = link_end::from_errno(at.peer, "connecting", code);
    return connect_next(at);
  }
  if (is_connected_to_itself(at.socket)) {
    at.dial_error = link_end::refused(at.peer);
    return connect_next(at);
  }
  become_open(at);
}

void loop::on_connect_expired(link& at) {
  at.dial_error = link_end::timed_out(at.peer, "connecting took too long");
  connect_next(at);
}

void loop::become_open(link& at) {
  tune_stream(at.socket, options_.silence_timeout);
  at.state = link_state::open;
  at.candidates.clear();
  arm(at.id, at.timer, base::time_never);
  watch(at, EPOLLIN);
  handler_.on_dialled(at.id);
  flush(at); // what was sent while it was not up yet
}

} // namespace actor_rdma::bootstrap::tcp
