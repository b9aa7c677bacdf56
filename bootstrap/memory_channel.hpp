// SPDX-License-Identifier: Apache-2.0
//
// The control channel of a simulation: channels of named nodes in one process, in virtual time, with no
// threads. Nothing is handed over when it is sent: it becomes an event that waits for its time, and the
// simulation decides when time passes and which of the events that are due happens next. What a link delivers
// keeps its order, as on TCP; whatever a black hole swallows is delivered late or ends in a time-out, as on
// TCP. Every message really goes through the codec. The same calls in the same order give the same run.
#pragma once

#include "base/time.hpp"
#include "bootstrap/channel.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::bootstrap {

struct memory_options {
  base::duration latency = std::chrono::microseconds{100}; ///< one way
  base::duration dial_timeout = std::chrono::seconds{3};
  base::duration silence_timeout = std::chrono::seconds{5}; ///< how long a link survives in a black hole
  std::size_t send_queue_bytes = std::size_t{8} << 20;      ///< undelivered, of each direction of a link
};

/// What becomes of control messages. `late`: by so much, and so is everything behind it on its link.
/// `refused`: a CONNECT does not arrive, and its sender gets a REJECT. `overtaken`: it changes places with
/// the next one on its link, or goes alone when none has followed for so long.
enum class message_fate : std::uint8_t { lost, twice, truncated, late, refused, overtaken };

/// The next `count` messages from one node to another, of one type ("connect") or of any.
struct message_fault {
  message_fate fate = message_fate::lost;
  std::string from;
  std::string to;
  std::string type;
  std::uint64_t count = 1;
  base::duration by{};
  std::string text; ///< of the refusal
};

/// What message_fate::refused answers to an attempt to connect; nothing if the message is none.
std::optional<message> refusal_of(const message& what, const std::string& text);

class memory_network {
public:
  /// An event that is due, as a trace would show it.
  struct pending_event {
    base::time_point due;
    std::uint64_t sequence; ///< in the order of creation
    std::string node;       ///< whose handler will be called
    link_id link;           ///< as that node names it; 0 for a dial that nobody has accepted yet
    std::string what;       ///< a message's type; "dial", "dialled", "closed by peer", ...
  };

  explicit memory_network(memory_options options = {});
  ~memory_network();

  /// A channel for a node, which must not have another living one. A node that was killed or stopped may come
  /// back.
  std::unique_ptr<channel> make_channel(const std::string& node);

  // -- time and delivery --------------------------------------------------------------------------

  [[nodiscard]] base::time_point now() const;
  void set_now(base::time_point now);
  /// When something will be due; may be in the past, and is nothing when all is quiet.
  [[nodiscard]] std::optional<base::time_point> next_event() const;
  /// Events that may happen now, the one that has been due longest first; at most one of each end of a link.
  [[nodiscard]] std::vector<pending_event> due() const;
  /// Makes one of due() happen, the first unless told otherwise. False when there is no such event.
  bool deliver_one(std::size_t index = 0);

  // -- faults -------------------------------------------------------------------------------------

  /// All links between two nodes end with a reset at once; what is on its way is lost.
  void cut(const std::string& a, const std::string& b);
  /// One link, named by one of its ends.
  void cut(link_id link);
  /// Whether dials to an address are refused although someone listens there.
  void refuse(const std::string& address, bool on);
  /// Whether nothing gets through between two nodes, in either direction and without a word.
  void black_hole(const std::string& a, const std::string& b, bool on);
  /// The process is gone: what it has sent arrives, then its links are reset; its listeners refuse. Together
  /// with a black hole to everyone this is a host that lost power.
  void kill(const std::string& node);
  void set_latency(const std::string& from, const std::string& to, base::duration latency);
  /// The next message from one node to another loses its second half.
  void truncate_next(const std::string& from, const std::string& to);
  /// Faults of one direction are used up in the order in which they were asked for.
  void next_messages(message_fault what);
  /// Those that have not come yet are left alone. When the last one was met, if any was since the last call.
  std::optional<base::time_point> end_message_faults();

  class core;

private:
  const std::shared_ptr<core> core_; // the channels share it, so that neither need outlive the other
};

} // namespace actor_rdma::bootstrap
