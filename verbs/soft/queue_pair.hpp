// SPDX-License-Identifier: Apache-2.0
//
// A reliable connected queue pair: the requester. Posted work is executed by whoever posts it, by whoever
// polls its completion queue when it is due, by the engine thread when nobody does, or by virtual time. One
// lock, taken once per call, covers all of it; no other process ever needs that lock. The responder's half is
// in responder.hpp, the wire between them for delayed packets in packet.hpp.
#pragma once

#include "base/random.hpp"
#include "verbs/soft/completion_queue.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/handles.hpp"
#include "verbs/soft/packet.hpp"
#include "verbs/soft/receive_queue.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/responder.hpp"
#include "verbs/soft/rules/qp_rules.hpp"
#include "verbs/soft/send_queue.hpp"
#include "verbs/soft/timeline.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class soft_srq;

class soft_qp : public extended_qp,
                public timed,
                public owned_object,
                public std::enable_shared_from_this<soft_qp> {
public:
  /// `init` has been checked. The slot is claimed and still absent.
  soft_qp(soft_context& owner, soft_pd& domain, const ibv_qp_init_attr& init, std::uint32_t index);
  ~soft_qp() override;
  [[nodiscard]] static soft_qp& of(ibv_qp* qp) noexcept { return *static_cast<soft_qp*>(qp); }

  // -- verbs

  [[nodiscard]] int post_send(ibv_send_wr* first, ibv_send_wr** bad);
  [[nodiscard]] int post_recv(ibv_recv_wr* first, ibv_recv_wr** bad);
  [[nodiscard]] int modify(const ibv_qp_attr& wanted, int mask);
  void query(ibv_qp_attr& attributes, ibv_qp_init_attr& init);
  [[nodiscard]] int retire(bool forced) override;

  // -- progress

  void run(nanos now, nanos until, copy_budget& budget) override;
  /// A link or a peer changed: look again at what is stuck.
  void retry_now(nanos now);
  /// A peer moved us to ERR, or left another sign.
  void adopt_remote_error(nanos now);
  /// A peer left an atomic for us to execute.
  void answer_atomics();
  /// The fate of a packet of ours, if we still care: called by the packet.
  void packet_arrived(std::uint64_t wr, const packet& which, verdict result, nanos now);
  /// A completion that covers the queue up to here was polled.
  void release(std::uint64_t up_to) {
    if ((up_to & frees_receive) != 0)
      receives().release(static_cast<std::uint32_t>(up_to));
    else if (up_to >
             released_.load(std::memory_order_relaxed)) // a rule may have held it back behind later ones
      released_.store(up_to, std::memory_order_release);
  }
  /// A rule: its next reset or its end leaves its completions, and flushes what is outstanding.
  void leave_completions();
  /// Somebody asked for an event of queue pairs of this device, or of their completion queues.
  void raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times);

  // -- receives: called by the completion queue with its lock

  [[nodiscard]] std::uint32_t slot_index() const noexcept { return index_; }
  /// What a finished receive says.
  [[nodiscard]] completion make_receive_completion(std::uint32_t slot);
  /// There was no room for its completion.
  void drop_receive(std::uint32_t slot);
  /// What rules make of it: it may become another one, or be held.
  [[nodiscard]] std::optional<cqe_hold> rule_receive(completion& c, nanos now);

  void acknowledge_async_event() { async_events_.acknowledge(1); }
  [[nodiscard]] tier_counts tier_use();
  [[nodiscard]] bool may_be_ruled() const noexcept { return context_.rt().rules().epoch() != 0; }

private:
  friend class packet;
  class completion_batch;

  // qp_post.cpp
  [[nodiscard]] int append(const ibv_send_wr& wr);
  [[nodiscard]] bool is_clear() noexcept;
  void run_straight(copy_budget& budget);
  // qp_progress.cpp
  void progress(nanos now, copy_budget& budget);
  void step(nanos now, copy_budget& budget);
  [[nodiscard]] bool send(nanos now);
  [[nodiscard]] bool land(nanos now, copy_budget& budget);
  [[nodiscard]] bool finish(nanos now);
  void probe(nanos now);
  void go_back() noexcept;
  void mark_lost(nanos now) noexcept;
  void hold_until_change() noexcept;
  void not_ready(nanos now);
  void swallow(nanos now, bool is_hard);
  void place_by_rules(std::uint64_t wr, nanos now, bool& is_late);
  [[nodiscard]] const wr_fate* meet_own_port(nanos now);
  [[nodiscard]] bool is_answer_lost(std::uint64_t wr, nanos landed_at, nanos& done_at);
  void cover_unacknowledged(std::uint64_t wr) noexcept;
  void resend_unacknowledged() noexcept;
  [[nodiscard]] wr_facts facts_of(std::uint64_t wr) noexcept;
  void place_on_wire(std::uint64_t wr, nanos now);
  [[nodiscard]] verdict settle(std::uint64_t wr, verdict result, nanos now); ///< or `lost`, by rules
  [[nodiscard]] nanos latency() const noexcept;                              ///< one way, if it is paced
  [[nodiscard]] nanos acknowledged_at(const send_slot& slot, nanos landed_at) const noexcept;
  void launch_packet(std::uint64_t wr, nanos lands_at);
  [[nodiscard]] std::shared_ptr<packet> make_packet(std::uint64_t wr, bool is_tracked);
  [[nodiscard]] bool has_full_window(nanos now) const noexcept;
  [[nodiscard]] bool is_landing_next() noexcept;
  [[nodiscard]] bool has_work_due(nanos now) noexcept;
  [[nodiscard]] bool is_wire_open() const noexcept;
  [[nodiscard]] nanos retry_deadline() noexcept;
  [[nodiscard]] nanos next_due() noexcept;
  void reschedule();
  // qp_execute.cpp
  [[nodiscard]] bool find_responder() noexcept;
  /// No address on the way to peer_ has changed since it was found.
  [[nodiscard]] bool is_still_addressed() const noexcept;
  [[nodiscard]] ibv_wc_status check_local(std::uint64_t wr) noexcept;
  [[nodiscard]] bool find_local(std::uint32_t lkey) noexcept;
  [[nodiscard]] std::span<const ibv_sge> local_memory(std::uint64_t wr, ibv_sge& inline_sge) noexcept;
  [[nodiscard]] request request_of(const send_slot& slot) const noexcept;
  /// The caller has checked the local side and the wire.
  [[nodiscard]] verdict execute(execution& at_work, std::uint64_t wr, copy_budget& budget);
  [[nodiscard]] std::uint32_t packets_of(std::uint32_t length) const noexcept {
    return length == 0 ? 1 : ((length - 1) >> mtu_shift_) + 1;
  }
  [[nodiscard]] bool scatter(std::uint64_t wr, const packet& from) noexcept;
  [[nodiscard]] verdict execute_message(execution& at_work, std::uint64_t wr, copy_budget& budget);
  [[nodiscard]] verdict execute_atomic(execution& at_work, std::uint64_t wr);
  [[nodiscard]] static atomic_operation atomic_of(const send_slot& slot) noexcept;
  [[nodiscard]] message message_of(const send_slot& slot) const noexcept;
  // qp_receive.cpp
  [[nodiscard]] receive_queue& receives() noexcept;
  /// Ends the receives of a queue pair in ERR, as far as nobody is at work on them; the rest later.
  void flush_receives(nanos now);
  /// Takes them away without a word: for RESET and destruction, when nobody can be at work on them.
  void drop_receives();
  [[nodiscard]] completion make_flushed_receive(std::uint64_t wr_id, std::uint64_t frees);
  /// Ends the queue pair because of a receive, when only the completion queue's lock is held.
  void fail_by_receive(std::uint32_t sign) noexcept;
  [[nodiscard]] wr_facts facts_of_receive(std::uint32_t ticket, std::uint64_t wr_id,
                                          std::uint32_t length) const noexcept;
  void read_signs();
  // qp_complete.cpp
  void complete_success(std::uint64_t wr);
  void fail_head(ibv_wc_status status, nanos now);
  void flush(nanos now, bool is_marker = false);
  void drop_work() noexcept;
  void enter_error() noexcept;
  void notice_remote_error(nanos now);
  static void fill_with_garbage(ibv_wc& wc, base::rng& from);
  void overrun();
  [[nodiscard]] completion make_completion(std::uint64_t wr, ibv_wc_status status);
  void log(nanos now, log_kind kind, std::uint64_t wr, std::uint32_t detail = 0);
  void raise(ibv_event_type type);
  // queue_pair.cpp
  [[nodiscard]] int apply(const ibv_qp_attr& wanted, int mask);
  bool change_state(ibv_qp_state to) noexcept;
  [[nodiscard]] std::uint32_t port_index() const noexcept; ///< in the device table
  void give_back_reads() noexcept;
  [[nodiscard]] layout::qp_entry& entry() const noexcept { return context_.rt().tables().qps[index_]; }
  [[nodiscard]] layout::device_entry& device() const noexcept { return *port_; }
  [[nodiscard]] ibv_qp_state current_state() const noexcept { return ibv_qp::state; }

  soft_context& context_;
  soft_pd& pd_;
  soft_cq& send_cq_;
  soft_cq& recv_cq_;
  const std::uint32_t index_;
  layout::device_entry* port_; // that INIT named, the device's first one before that
  ibv_qp_init_attr init_;

  std::mutex mutex_; // everything below
  ibv_qp_attr attributes_{};
  bool retired_ = false;   // no longer in the fabric
  bool has_ended_ = false; // and nobody can be at work on it any more

  send_ring ring_;
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t landed_ = 0;
  std::uint64_t done_ = 0;
  std::atomic<std::uint64_t> released_{0};

  route way_;                           // of the address handle
  std::uint32_t own_address_epoch_ = 0; // of peer_
  responder peer_{};
  bool has_peer_ = false;
  region_cache region_{};
  region_cache receive_region_{}; // of the peer's last receive
  local_region local_{};
  tier_counts tier_use_{};
  std::uint32_t mtu_shift_ = 12;
  std::uint32_t next_psn_ = 0;
  std::uint64_t moved_bytes_ = 0; // of the request that a copy budget interrupted
  std::uint32_t reads_in_flight_ = 0;
  nanos ask_again_ = 0; // after this time, while the peer's process has to do something
  nanos last_left_at_ = 0;
  nanos last_land_at_ = 0;
  nanos last_done_at_ = 0;       // of what landed
  nanos acknowledged_until_ = 0; // of what is done

  bool is_hung_ = false;      // [sent_, posted_) met a hang
  bool is_hung_hard_ = false; // one that not even ERR ends
  std::uint64_t stuck_ = 0;   // how many of those were counted and logged
  bool is_lost_ = false;      // nobody answers for landed_
  bool is_failing_ = false;   // an error is on its way back: nothing more leaves
  bool is_not_ready_ = false; // is_lost_ because the peer had no receive: the time of its answer runs
  std::uint32_t not_ready_count_ = 0;
  bool is_retrying_ = false;
  nanos retrying_since_ = 0;
  nanos probe_at_ = never;
  std::map<std::uint64_t, std::shared_ptr<packet>> packets_; // by work request
  nanos resend_at_ = never;                                  // acknowledgements are missing
  bool leaves_completions_ = false;
  qp_rules rules_;
  bool is_scheduled_ = false;
  soft_srq* const srq_; // instead of own_receives_
  receive_queue own_receives_;
  bool receives_ended_ = false; // all were flushed
  bool needs_reset_ = false;    // a reset found somebody at work on our receives
  bool told_established_ = false;
  nanos flush_receives_at_ = 0;
  nanos flush_anyway_at_ = never;             // what is posted, though a claimed one before it is still open
  std::optional<std::uint32_t> first_marker_; // ticket of the first receive that was posted in ERR
  base::rng garbage_;

  // Guarded by the lock of recv_cq_ instead.
  qp_rules receive_rules_;
  base::rng receive_garbage_;
  event_ledger async_events_;
};

} // namespace actor_rdma::verbs::soft
