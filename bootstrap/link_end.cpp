// SPDX-License-Identifier: Apache-2.0
//
// The errors with which links end.
#include "bootstrap/link_end.hpp"

#include <cerrno>
#include <utility>

namespace actor_rdma::bootstrap::link_end {

namespace {

base::error make(base::reason why, const std::string& peer, std::string what, int sys_errno = 0) {
  base::error e;
  e.why = why;
  e.layer = "bootstrap";
  e.peer = peer;
  e.what = std::move(what);
  e.sys_errno = sys_errno;
  return e;
}

} // namespace

base::error refused(const std::string& peer) {
  return make(base::reason::peer_dead, peer, "connection refused", ECONNREFUSED);
}
base::error reset(const std::string& peer) {
  return make(base::reason::peer_dead, peer, "connection reset", ECONNRESET);
}
base::error closed_by_peer(const std::string& peer) {
  return make(base::reason::peer_dead, peer, "closed by the peer");
}
base::error closed_by_us(const std::string& peer) {
  return make(base::reason::cancelled, peer, "closed by this end");
}
base::error stopped(const std::string& peer) {
  return make(base::reason::shutting_down, peer, "the channel was stopped");
}
base::error timed_out(const std::string& peer, std::string what) {
  return make(base::reason::peer_silent, peer, std::move(what), ETIMEDOUT);
}
base::error protocol(const std::string& peer, std::string what) {
  return make(base::reason::protocol, peer, std::move(what));
}
base::error no_address(const std::string& peer, std::string what) {
  return make(base::reason::not_found, peer, std::move(what));
}
base::error overflow(const std::string& peer) {
  return make(base::reason::resource, peer, "the send queue is full", ENOBUFS);
}
base::error not_sendable(const std::string& peer, std::string what) {
  return make(base::reason::invalid_argument, peer, std::move(what));
}
base::error resources(const std::string& peer, std::string what, int sys_errno) {
  return make(base::reason::resource, peer, std::move(what), sys_errno);
}

base::error from_errno(const std::string& peer, const std::string& doing, int sys_errno) {
  switch (sys_errno) {
  case ECONNREFUSED: return refused(peer);
  case ECONNRESET:
  case ECONNABORTED:
  case EPIPE: return reset(peer);
  case ETIMEDOUT: return timed_out(peer, doing + " failed");
  case EHOSTUNREACH:
  case ENETUNREACH:
  case EHOSTDOWN:
  case ENETDOWN: return make(base::reason::path, peer, doing + " failed", sys_errno);
  default: return resources(peer, doing + " failed", sys_errno);
  }
}

} // namespace actor_rdma::bootstrap::link_end
