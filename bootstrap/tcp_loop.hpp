// SPDX-License-Identifier: Apache-2.0
//
// The control thread of a TCP channel: one epoll loop over listeners, links and the mailbox. A link is
// RESOLVING, CONNECTING, OPEN or CLOSING and leaves through finish(), which is the only place that calls
// on_closed. Each state but OPEN has a timer. The handler is called with no lock held and nothing half done,
// so it may call the channel.
//
// Closing is graceful: what is queued is sent, then our direction is shut, then what still comes is thrown
// away until the peer shuts its direction or the linger time is over. Closing a socket with unread bytes
// would make the system send a reset, which can overtake and destroy our last message at the peer.
#pragma once

#include "base/log.hpp"
#include "base/time.hpp"
#include "bootstrap/channel.hpp"
#include "bootstrap/framing.hpp"
#include "bootstrap/name_resolver.hpp"
#include "bootstrap/tcp_mailbox.hpp"
#include "bootstrap/tcp_options.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::bootstrap::tcp {

/// An epoll that watches the mailbox.
base::expected<unique_fd> open_epoll(const mailbox& mail);

class loop {
public:
  loop(mailbox& mail, unique_fd epoll, name_resolver& names, const tcp_options& options,
       channel_handler& handler);

  /// The body of the thread; returns after stop_loop, when the last link is gone or its time is over.
  void run();

private:
  enum class link_state : std::uint8_t { resolving, connecting, open, closing };

  struct link {
    link(link_id number, std::string name, std::size_t max_payload)
        : id{number}, peer{std::move(name)}, input{max_payload} {}

    const link_id id;
    const std::string peer; // the address that was dialled, or where it was accepted from
    link_state state = link_state::resolving;
    unique_fd socket;
    std::uint32_t interest = 0; // what epoll watches for
    base::time_point timer = base::time_never;

    bool accepted = false;
    bool heard = false; // a valid message came
    frame_decoder input;
    std::deque<frame> output;
    std::size_t output_sent = 0; // of output.front()
    bool shut = false;           // our direction
    int send_errno = 0;          // of the send that failed, while what has come is still read
    base::error end;             // CLOSING: what on_closed will say

    std::vector<socket_address> candidates; // CONNECTING: addresses that are still to be tried
    base::time_point dial_deadline{};
    base::error dial_error;
  };

  struct listener {
    unique_fd socket;
    std::string address;
    base::time_point timer = base::time_never; // resting until then
  };

  // Commands
  void on(add_listener&& what);
  void on(begin_dial&& what);
  void on(name_resolved&& what);
  void on(flush_link&& what);
  void on(close_link&& what);
  void on(abort_link&& what);
  void on(stop_loop&& what);

  // Accepting
  void accept_all(link_id id, listener& from);
  void rest(link_id id, listener& from, int sys_errno);
  void on_rest_over(link_id id, listener& from);
  void admit(unique_fd socket, const socket_address& peer);

  // Dialling
  void connect_next(link& at);
  void on_connect_done(link& at);
  void on_connect_expired(link& at);
  void become_open(link& at);

  // Input, output and ends. Those that return bool say whether the link still exists.
  bool read(link& at);
  bool take_messages(link& at);
  bool take_message(link& at, std::span<const std::uint8_t> payload);
  bool flush(link& at);
  bool on_write_error(link& at, int sys_errno);
  void begin_close(link& at, base::error why);
  void fault(link& at, const std::string& text);
  void finish(link& at, const base::error& why);

  // The loop
  void on_event(link_id id, std::uint32_t events);
  void on_timer(link_id id);
  // False, with errno, when the system is out of memory for it.
  bool watch(link& at, std::uint32_t interest);
  bool control(int how, const unique_fd& socket, link_id id, std::uint32_t interest);
  void arm(link_id id, base::time_point& timer, base::time_point when);
  [[nodiscard]] int wait_ms() const;
  [[nodiscard]] link* find(link_id id);
  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args);

  mailbox& mail_;
  const unique_fd epoll_;
  name_resolver& names_;
  const tcp_options& options_;
  channel_handler& handler_;
  std::map<link_id, std::unique_ptr<link>> links_;
  std::map<link_id, listener> listeners_;
  std::set<std::pair<base::time_point, link_id>> timers_;
  std::vector<std::uint8_t> read_buffer_;
  std::optional<base::time_point> stop_deadline_;
  base::rate_limiter complaints_{20, std::chrono::seconds{10}};
};

/// A line about what a stranger did, unless there were too many of late.
template <class... Args>
void loop::complain(fmt::format_string<Args...> format, Args&&... args) {
  if (!complaints_.allow(base::mono_clock::now()))
    return;
  if (const auto held_back = complaints_.take_suppressed(); held_back > 0)
    base::log(base::level::warn, "bootstrap", "{} complaints like the next one were held back", held_back);
  base::log(base::level::warn, "bootstrap", format, std::forward<Args>(args)...);
}

} // namespace actor_rdma::bootstrap::tcp
