// SPDX-License-Identifier: Apache-2.0
//
// The fault vocabulary of the software NIC: one rule is one line of key=value words, which say where it holds
// (device, peer, queue pair, operation, direction, size, verb, event), when (counted matches, a span of time)
// and what then happens. Reading a line and matching it are pure: no fabric, no clock, no counter. The
// language is documented in docs/software-nic.md.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/layout.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

/// What a rule looks at. Work: work requests, their packets and completions. Verb: calls. Event: async events
/// on their way to an application. Timer: nothing, it acts by itself when its time comes.
enum class rule_target : std::uint8_t { work, verb, event, timer };

enum class rule_action : std::uint8_t {
  drop,       ///< work: the packet is lost on the wire (dir says which)
  delay,      ///< work: the packet is late. Verb: the call is slow. Event: it is late
  reorder,    ///< work: a write's payload becomes visible in pieces, in any order, over a time
  duplicate,  ///< work: the packet arrives once more
  status,     ///< work: completes with this status
  hold_cqe,   ///< work: the payload moves, the completion comes later or never
  hold_dma,   ///< work: the requester hears nothing, the payload lands at that time all the same
  cqe_behind, ///< work: the completion lets others of its completion queue pass first
  hang,       ///< work: it and what is behind it on its queue pair never complete
  hold,       ///< work that meets its port down: is sent again when that is up, and no retry counts
  no_flush,   ///< work: no completion when it would be flushed
  fail,       ///< verb: fails with an errno
  ignore,     ///< verb (modify_qp): reports success and does nothing
  late_cqe,   ///< verb (destroy_qp, modify_qp to RESET): leaves its completions in the queue
  half,       ///< verb (create_cq, create_qp, ...): gives half of the room that it was asked for
  swallow,    ///< event: is not delivered
  burst,      ///< event: is delivered several times
  raise,      ///< timer: an async event appears
  link        ///< timer: a link goes up or down
};

/// Seen from the rule's device. `request`: its requests on the way to the peer. `ack`: what comes back for
/// them, acknowledgements and answers of reads. `tx`: everything that leaves it, its requests and its answers
/// to the peer's. `rx`: everything that arrives at it.
enum class rule_direction : std::uint8_t { request, ack, tx, rx };

enum class work_op : std::uint8_t { send, write, read, atomic, recv };
enum class cqe_class : std::uint8_t { send, recv, other };

/// The calls that rules know, in the order of their names' table.
enum class verb : std::uint8_t {
  open_device,
  close_device,
  query_device,
  query_port,
  query_gid,
  alloc_pd,
  dealloc_pd,
  reg_mr,
  dereg_mr,
  create_comp_channel,
  destroy_comp_channel,
  create_cq,
  resize_cq,
  destroy_cq,
  create_srq,
  modify_srq,
  query_srq,
  destroy_srq,
  create_ah,
  destroy_ah,
  create_qp,
  modify_qp,
  query_qp,
  destroy_qp,
  post_send,
  post_recv,
  post_srq_recv,
  poll_cq,
  req_notify_cq,
  get_cq_event,
  get_async_event,
  count
};

/// From `least` to `most` bytes, both included.
struct size_range {
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;
  [[nodiscard]] bool holds(std::uint64_t n) const noexcept { return n >= least && n <= most; }
};

struct rule {
  rule_target target = rule_target::work;
  // -- where
  std::string device{};              ///< empty: any. "a/soft0", "a" (a host), or "soft0" (on every host)
  std::string peer{};                ///< likewise
  std::optional<std::uint32_t> qp{}; ///< number; of `device`
  std::uint32_t ops = 0;             ///< bits of work_op; 0: all but recv
  rule_direction direction = rule_direction::request;
  size_range bytes{};
  size_range region{};           ///< length of the memory region of `device` that the request names
  size_range peer_region{};      ///< of the peer's
  bool at_link_down = false;     ///< work that meets its own port down, whenever it left
  std::uint64_t verbs = 0;       ///< bits of verb
  std::uint32_t states_to = 0;   ///< modify_qp: bits of ibv_qp_state; 0: any
  std::uint32_t states_from = 0; ///< likewise
  std::uint64_t events = 0;      ///< bits of ibv_event_type
  // -- when; matches are counted from 1, and only inside the span of time
  std::uint64_t skip = 0;
  std::uint64_t nth = 0; ///< 0: any
  std::uint64_t every = 0;
  std::uint64_t first = UINT64_MAX;
  std::uint64_t count = UINT64_MAX; ///< hits
  std::uint32_t chance_ppm = 1'000'000;
  nanos after = 0; ///< since the rule was added
  nanos during = never;
  // -- what
  rule_action action = rule_action::drop;
  nanos time = never;      ///< of the action; never: without end, or not given
  std::uint64_t per = 0;   ///< delay of reg_mr: `time` is for each so many bytes; 0: whatever the length
  std::uint32_t value = 0; ///< status, errno, event type, repetitions, or 1 for link up
  std::uint32_t repeat = 1;
  bool is_garbage = false; ///< status: every other field of the completion is random
  bool lands = false;      ///< status: the payload lands all the same
  bool is_alone = false;   ///< hold_cqe: later completions of its queue pass it
  bool is_hard = false;    ///< hang: the move to ERR does not flush
  bool is_marker = false;  ///< no_flush: only what is posted in ERR
  bool is_quiet = false;   ///< link: no async event
  cqe_class behind = cqe_class::other;
};

/// The longest line that a fabric keeps.
inline constexpr std::size_t max_rule_text = 247;

/// Reads one line. Unknown keys and values are refused by name, with what would be accepted. A '#' begins a
/// comment; a line without words is refused like one without `do`.
[[nodiscard]] base::expected<rule> parse_rule(std::string_view text);

// -- matching
// ---------------------------------------------------------------------------------------------

/// Whether a rule's name for a device ("", "a/soft0", "a", "soft0") means the device with this full name.
[[nodiscard]] bool names_device(std::string_view pattern, std::string_view full_name) noexcept;

/// One packet of a work request, or the work request as a whole (as its request).
struct work_facts {
  std::string_view requester{}; ///< full names
  std::string_view responder{};
  std::uint32_t requester_qp = 0;
  std::uint32_t responder_qp = 0;
  work_op op = work_op::write;
  std::uint64_t bytes = 0;
  std::uint64_t region = 0;      ///< length of the requester's memory region; 0: it names none that lives
  std::uint64_t peer_region = 0; ///< of the responder's
  bool is_answer = false;        ///< acknowledgement or data of a read, on the way back
};
[[nodiscard]] bool matches(const rule& r, const work_facts& facts) noexcept;

struct verb_facts {
  std::string_view device{};
  verb call = verb::count;
  std::uint32_t qp = 0;
  std::uint32_t from = 0; ///< modify_qp: bit of the state
  std::uint32_t to = 0;
  std::uint64_t bytes = 0; ///< reg_mr: length of the region
};
[[nodiscard]] bool matches(const rule& r, const verb_facts& facts) noexcept;

struct event_facts {
  std::string_view device{};
  ibv_event_type type{};
  std::uint32_t qp = 0;
};
[[nodiscard]] bool matches(const rule& r, const event_facts& facts) noexcept;

/// Whether a match counts that comes so long after the rule was added.
[[nodiscard]] constexpr bool is_in_time(const rule& r, nanos since_added) noexcept {
  return since_added >= r.after && (r.during == never || since_added - r.after < r.during);
}
/// Whether the rule hits its match number `n`, counted from 1. Which ones `chance` picks follows from `seed`.
[[nodiscard]] bool fires(const rule& r, std::uint64_t n, std::uint64_t seed) noexcept;

} // namespace actor_rdma::verbs::soft
