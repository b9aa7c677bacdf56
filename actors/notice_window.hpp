// SPDX-License-Identifier: Apache-2.0
// Exactly once over links that break: the numbers of notices on both sides. The sender keeps what is not
// acknowledged and sends it again, from the first of it, on every new link; the receiver takes the next
// number and nothing else. Pure: no CAF, no thread, no clock.
#pragma once

#include "bootstrap/limits.hpp"
#include "bootstrap/messages.hpp"
#include "observe/notice.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace actor_rdma::actors {

/// The sender's half, for one session with one incarnation of a peer. It holds what its owner put into it
/// plus at most notice_window given-up entries.
class send_window {
public:
  struct outgoing {
    std::uint64_t id = 0;
    std::uint64_t sequence = 0;
    const notice* what = nullptr; ///< valid until the next call
    bool repeated = false;
  };
  struct given_up {
    std::uint64_t id = 0;
    std::uint64_t sequence = 0; ///< 0: it was never sent
  };
  enum class answer : std::uint8_t { good, other_session, never_sent };

  explicit send_window(std::uint64_t session) : session_(session) {}

  /// Appends a notice under the caller's name for it.
  void put(std::uint64_t id, std::shared_ptr<const notice> what);
  /// What is to be sent next; nothing when all was sent or the receiver has no room.
  std::optional<outgoing> next();
  /// A new link: what is not acknowledged will be sent again.
  void rewind() noexcept { cursor_ = 0; }
  /// The receiver's answer; `delivered` gets those that it settles and that were not given up.
  answer acknowledge(const bootstrap::noticed& m, std::vector<outgoing>& delivered);
  /// Nobody waits for this one any more. An unsent one is forgotten; a sent one keeps its number and is sent
  /// again if need be. Nothing when it is not here.
  std::optional<given_up> give_up(std::uint64_t id);
  /// Gives up everything that was sent (and with `unsent_too` the rest) and starts anew under another name.
  std::vector<given_up> restart(std::uint64_t session, bool unsent_too);

  std::uint64_t session() const noexcept { return session_; }
  std::size_t size() const noexcept { return entries_.size(); }

private:
  struct entry {
    std::uint64_t id = 0;
    std::shared_ptr<const notice> what;
    bool abandoned = false;
  };

  std::uint64_t session_;
  std::uint64_t acked_ = 0;
  std::uint64_t limit_ = bootstrap::notice_window;
  std::deque<entry> entries_; ///< entry i has number acked_ + 1 + i, once it has been sent
  std::size_t sent_ = 0;      ///< entries that were sent at least once
  std::size_t cursor_ = 0;    ///< next to be sent on this link
};

/// The receiver's half, for one relation of one incarnation of a sender.
class receive_window {
public:
  enum class arrival : std::uint8_t {
    fresh,     ///< taken
    repeated,  ///< it is here already
    no_room,   ///< thrown away; the sender will be asked to send it again
    forgotten, ///< it belongs to a session of which nothing is known here
    nonsense,  ///< no correct sender sends this
  };

  /// `push()` puts the notice where the program finds it, or returns false when there is no room.
  template <class Push>
  arrival take(std::uint64_t session, std::uint64_t sequence, Push&& push) {
    if (session == 0 || sequence == 0)
      return arrival::nonsense;
    const bool other = session != session_;
    if (other && sequence != 1)
      return arrival::forgotten;
    if (!other && sequence <= upto_)
      return arrival::repeated;
    if (!other && sequence != upto_ + 1)
      return discarding_ ? arrival::no_room : arrival::nonsense;
    if (other) {
      session_ = session;
      upto_ = 0;
    }
    discarding_ = !push();
    if (discarding_)
      return arrival::no_room;
    upto_ = sequence;
    return arrival::fresh;
  }

  std::uint64_t session() const noexcept { return session_; } ///< 0: none yet
  std::uint64_t upto() const noexcept { return upto_; }
  /// Something was thrown away and has not come again yet.
  bool discarding() const noexcept { return discarding_; }

private:
  std::uint64_t session_ = 0;
  std::uint64_t upto_ = 0;
  bool discarding_ = false;
};

/// Receive windows of senders whose link was lost for so long that all else of them was let go: they may
/// live and send again what is here already. Bounded; the one that left first is forgotten first.
class departed_windows {
public:
  explicit departed_windows(std::size_t capacity) : capacity_(capacity) {}
  void keep(const bootstrap::caller& who, const receive_window& what);
  /// The window of a sender that came back; a fresh one when nothing is known of it.
  receive_window take(const bootstrap::caller& who);

private:
  std::size_t capacity_;
  std::deque<std::pair<bootstrap::caller, receive_window>> windows_;
};

} // namespace actor_rdma::actors
