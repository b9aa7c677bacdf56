// SPDX-License-Identifier: Apache-2.0
//
// The calls of a TCP channel: what can be done on the caller's thread is done there, the rest is handed over.
#include "bootstrap/tcp_channel.hpp"

#include "base/checks.hpp"
#include "bootstrap/codec.hpp"
#include "bootstrap/framing.hpp"
#include "bootstrap/link_end.hpp"
#include "bootstrap/tcp_loop.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>

namespace actor_rdma::bootstrap {

base::expected<std::unique_ptr<tcp_channel>> tcp_channel::create(tcp_options options) {
  unique_fd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!wake)
    return base::fail(base::reason::resource, "bootstrap", "cannot create an eventfd", errno);
  auto mail = std::make_shared<tcp::mailbox>(std::move(wake), options.send_queue_bytes);
  auto epoll = tcp::open_epoll(*mail);
  if (!epoll)
    return base::fail(epoll.error());
  return std::unique_ptr<tcp_channel>{
      new tcp_channel{std::move(options), std::move(mail), std::move(*epoll)}};
}

tcp_channel::tcp_channel(tcp_options options, std::shared_ptr<tcp::mailbox> mail, unique_fd epoll)
    : options_{std::move(options)}, mail_{std::move(mail)}, epoll_{std::make_unique<unique_fd>(
                                                                std::move(epoll))},
      names_{std::make_unique<name_resolver>(
          options_.lookup, [left = std::weak_ptr{mail_}](link_id link, name_resolver::answer found) {
            if (const auto still_there = left.lock())
              still_there->post(tcp::name_resolved{link, std::move(found)});
          })} {}

tcp_channel::~tcp_channel() {
  stop();
}

void tcp_channel::start(channel_handler& handler) {
  ACTOR_RDMA_ASSERT(!loop_, "a channel is started once");
  loop_ = std::make_unique<tcp::loop>(*mail_, std::move(*epoll_), *names_, options_, handler);
  // Signals are for the threads of the program, not for this one.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread{[this] { loop_->run(); }};
  pthread_setname_np(thread_.native_handle(), "rdma-control");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

base::expected<std::string> tcp_channel::listen(const std::string& address) {
  const auto where = split_host_port(address);
  if (!where)
    return base::fail(where.error());
  const auto number = numeric_address(*where);
  const auto found = number ? std::vector{*number} : options_.lookup(*where);
  if (!found)
    return base::fail(found.error());
  auto socket = open_listener(found->front());
  for (std::size_t next = 1; !socket && next < found->size(); ++next)
    socket = open_listener((*found)[next]);
  if (!socket)
    return base::fail(socket.error());
  auto bound = local_address(*socket);
  auto reachable = bound.to_string();
  if (bound.is_wildcard() && !options_.advertised_host.empty()) {
    reachable = join_host_port(options_.advertised_host, bound.port());
  } else if (bound.is_wildcard()) {
    auto own = reachable_address(bound.family());
    own.set_port(bound.port());
    reachable = own.to_string();
  }
  if (!mail_->post(tcp::add_listener{std::move(*socket), bound.to_string()}))
    return base::fail(base::reason::shutting_down, "bootstrap", "the channel was stopped");
  return reachable;
}

link_id tcp_channel::dial(const std::string& address) {
  const auto link = mail_->open_link();
  mail_->post(tcp::begin_dial{link, address});
  return link;
}

bool tcp_channel::send(link_id link, const message& what) {
  const auto bytes = encode(what);
  if (!bytes) {
    mail_->abort(link, link_end::not_sendable({}, bytes.error().what));
    return false;
  }
  if (bytes->size() > options_.max_message_bytes) {
    mail_->abort(link, link_end::not_sendable({}, fmt::format("{} of {} bytes, at most {} are allowed",
                                                              type_name(what.what), bytes->size(),
                                                              options_.max_message_bytes)));
    return false;
  }
  return mail_->push(link, make_frame(*bytes));
}

void tcp_channel::close(link_id link) {
  mail_->close(link);
}

void tcp_channel::stop() {
  if (!thread_.joinable())
    return;
  ACTOR_RDMA_ASSERT(thread_.get_id() != std::this_thread::get_id(), "the handler must not stop its channel");
  mail_->post(tcp::stop_loop{});
  thread_.join();
  names_->stop(std::chrono::milliseconds{200});
  loop_.reset();
}

} // namespace actor_rdma::bootstrap
