// SPDX-License-Identifier: Apache-2.0
// The work for one peer: open batches, slices that must be issued again, and the account of what every QP
// holds. QPs pull from it by credit; which rail gets a slice, and where a transfer is cut, is decided at the
// pull, so nothing is pinned to a rail that died meanwhile. It decides when a transfer has ended, and it is
// the one place that may: no terminal status while a WR of the transfer could touch memory, ours (WRs out) or
// the peer's (remote fences). Pure: no CAF, no verbs, no clock, no threads. What is thrown on the way (memory
// may run out) costs a transfer its success at most and never its end: the account of WRs, fences and ends
// needs no memory when it is kept, and recover() does what a call that threw had not come to.
#pragma once

#include "actors/reach.hpp"
#include "actors/refusal_budget.hpp"
#include "actors/settings.hpp"
#include "actors/slice.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace actor_rdma::actors {

/// What the queue tells its owner, who turns it into messages.
class work_queue_owner {
public:
  /// Every transfer of the batch has ended; the queue lets go of it. Its waiter is woken right after this
  /// call.
  virtual void batch_ended(const std::shared_ptr<batch_state>& ended) noexcept = 0;
  /// The peer's device refused a key. Batches that use it are held until refreshed() or refresh_failed().
  virtual void keys_refused() = 0;
  /// Devices refused so many requests of this pair of buffers that none are posted for a while; those that
  /// are open or come meanwhile fail (request_fault).
  virtual void source_barred(const refusal_budget::source& who, base::time_point now) = 0;
  /// A device, ours or the peer's, cannot reach some memory: nothing is posted that needs both, but for one
  /// request at `retry_at`. Again after each such request that failed.
  virtual void pair_avoided(const reach::pair& which, base::time_point retry_at) = 0;
  /// It can.
  virtual void pair_works(const reach::pair& which) = 0;

protected:
  ~work_queue_owner() = default;
};

class work_queue {
public:
  work_queue(const settings& config, work_queue_owner& owner)
      : config_(config), owner_(owner), reach_(config.reach_retry, config.reach_retry_max) {}

  // QPs
  /// `rail`: its name in receipts, the numbers if there is none. A spare one gets work only while no other
  /// one is usable that could carry it.
  slot_id add_slot(std::uint16_t local_device, std::uint16_t peer_device, rail_name rail = nullptr,
                   bool is_spare = false);
  /// The QP may be given work (it is ACTIVE), or not. A new generation starts with nothing out. `depth`: WRs
  /// that it takes, if that is less than the settings' send_queue_depth.
  void set_usable(slot_id slot, bool usable, std::uint16_t generation, std::uint32_t depth = UINT32_MAX);
  bool any_usable() const noexcept;

  // batches
  /// Gives the batch its serial. A batch without transfers (a mere notice) is not kept.
  void submit(const std::shared_ptr<batch_state>& batch);
  /// Ends every transfer of the batch that has not ended: what is unposted never starts; what is posted ends
  /// when it is fenced. Returns true when WRs are still out, so that somebody must see to their fence.
  bool stop(batch_state& batch, transfer_status how, base::reason cause);
  /// The same for all batches (peer dead, shutdown).
  void stop_all(transfer_status how, base::reason cause) noexcept;
  std::shared_ptr<batch_state> find(std::uint64_t serial) const;
  std::vector<std::shared_ptr<batch_state>> batches_using(const local_buffer& buffer) const;
  /// Those that are open. The list changes with every call.
  const auto& batches() const noexcept { return batches_; }

  /// Fills `out` (empty, with room) for the slot that would finish it first; false when no slot has credit or
  /// there is nothing to send. The caller sends the chunk to out.slot; if that throws, or pull() itself, it
  /// gives back what is in the chunk as unposted.
  bool pull(chunk& out, base::time_point now);

  /// WRs of a slot's generation have ended (their local fence is proven, or they never were posted). Also if
  /// it throws: what could not be queued again fails (internal).
  void ended(const chunk& what, base::time_point now);
  /// WRs of the slot are suspected to hang: their slices wait for another QP, while the WRs stay out. The
  /// slices carry the records that reissue() of the QP attached. If it throws, the WRs of some are all that
  /// there is.
  void suspected(const chunk& what, offer_to to = offer_to::anyone);
  /// The peer can no longer be written to by generations <= `generation` of the slot; or nobody confirmed it.
  void remote_fenced(slot_id slot, std::uint16_t generation, bool confirmed) noexcept;
  /// After an exception has left any of these calls: whatever can end now does.
  void recover() noexcept;

  /// The peer's memory was read again, later than keys_refused(). Held batches go on with the keys of now.
  /// Transfers whose range is gone fail (not_found), and so do those that were refused with the very key that
  /// is still published (request_fault). Returns how many go on.
  std::size_t refreshed(const std::shared_ptr<const remote_memory>& now);
  /// The peer published its memory anew, by itself. Where it has new keys for what open batches use (a device
  /// of its was opened again), these go on with the new ones; ranges that are gone are left to the refusal.
  void published(const std::shared_ptr<const remote_memory>& now);
  /// It could not be read: what is held fails.
  void refresh_failed(base::reason cause);
  /// Our memory may have keys where it had none. What no usable rail had the keys for is looked at again.
  void keys_made();
  /// When something that waits may be tried on a device that could not reach its memory: then keys_made() and
  /// pull() are due. max() if nothing does.
  base::time_point next_try() const noexcept;
  /// Something of the batch waits for keys: rails are usable, and none has them on both of its devices, or
  /// reaches the memory with both.
  bool lacks_keys(const batch_state& batch) const;

  // for snapshots
  std::uint64_t open_transfers() const noexcept;
  std::uint64_t outstanding() const noexcept;
  std::uint64_t waiting_slices() const noexcept { return again_.size() + held_.size() + keyless_.size(); }
  base::time_point oldest_submit() const noexcept;
  std::uint64_t open_batches() const noexcept { return batches_.size(); }

private:
  /// Two devices and the path between them, which the QPs of both share: so its rate is learned once.
  struct path_state {
    double rate = 0;                  ///< bytes per second while it had work, smoothed; 0 until measured
    base::time_point measured_from{}; ///< its last end, or when it was last given work after having none
    bool was_busy = false;            ///< it was its last end, with more behind it
    std::uint64_t load = 0;           ///< in this pull: bytes out on its usable QPs
  };
  struct slot_state {
    std::size_t path = 0; ///< in paths_
    std::uint16_t local_device = 0;
    std::uint16_t peer_device = 0;
    rail_name rail;
    bool is_spare = false;
    /// One bit. A node has no more rails than there are.
    std::uint64_t rail_mask() const noexcept { return std::uint64_t{1} << std::min<std::size_t>(path, 63); }
    bool usable = false;
    bool passed = false;     ///< in this pull: what waits needs keys that its devices do not have
    std::uint32_t depth = 0; ///< WRs that it takes
    std::uint16_t generation = 0;
    std::uint16_t fenced_upto = 0; ///< remote fence of generations <= this is settled; generations start at 1
    std::uint32_t out = 0;         ///< WRs handed to the QP and not yet ended
    std::uint64_t out_bytes = 0;
    bool declined = false; ///< at its last suspicion no other device could take some of it
    struct waiter {
      std::uint16_t generation;
      std::uint16_t more; ///< as in its slice
      transfer* item;
      batch_state* batch;
    };
    std::vector<waiter>
        waiters; ///< WRs whose transfers wait for this slot's remote fence; has room for `out`
  };

  slot_state* choose(std::uint64_t bytes, std::uint16_t avoid);
  slot_state* choose_among(bool spare, std::uint64_t bytes, std::uint16_t avoid, bool& any);
  bool has_room(const slot_state& s) const noexcept {
    return s.out < std::min(s.depth, config_.send_queue_depth);
  }
  void fill(chunk& out, slot_state& slot, base::time_point now);
  bool next_slice(slice& out, const slot_state& slot, std::size_t most, base::time_point now);
  bool next_again(slice& out, const slot_state& slot);
  /// What a rail is to a slice, best first. `tried`: somebody else is finding out.
  enum class route : std::uint8_t { open, suspect, avoided, tried, closed };
  route route_of(slice& what, const slot_state& slot) const noexcept;
  route best_route(const slice& what) const noexcept;
  bool may_carry(slice& what, const slot_state& slot) const noexcept;
  bool can_carry(const slice& what, std::uint16_t avoid = slice::no_device) const noexcept;
  bool lacks_keys(batch_state& batch, transfer& item) const noexcept;
  bool next_fresh(slice& out, const slot_state& slot, std::size_t most);
  static bool is_wanted(const slice& what) noexcept;
  static bool is_whole(const slice& what) noexcept;
  static void unqueue(const slice& what) noexcept;
  void split(const slice& what);
  void refused_together(const slot_state& slot, const ended_slice& what);
  void fail(const slice& what) noexcept;
  static void reserve_waiters(slot_state& slot);
  static bool aim(slice& what, const slot_state& slot) noexcept;
  void end_wr(slot_state& slot, std::uint16_t generation, const ended_slice& what) noexcept;
  void follow_up(const slot_state& slot, const ended_slice& what);
  void requeue(const slice& what, std::uint16_t refused_at = slice::no_device);
  static refusal_budget::source source_of(const batch_state& batch, const transfer& item);
  void request_refused(const batch_state& batch, transfer& item);
  void end_barred();
  void bar(const refusal_budget::source& who);
  static reach::pair pair_of(const slice& what, reach::side whose, std::uint16_t device) noexcept;
  static reach::pair pair_of(const slice& what, reach::side whose, const slot_state& slot) noexcept;
  void tried(const slot_state& slot, const slice& what, bool is_out) noexcept;
  void memory_refused(slice& what, reach::side whose, std::uint16_t device);
  void no_reach(const slot_state& slot, const slice& what);
  bool give_up_where_refused(const slice& what);
  void reached(const slot_state& slot, const slice& what);
  void access_refused(const slot_state& slot, const slice& what);
  bool ask_for_keys(const slot_state& slot, const slice& what);
  void hold_users_of(const remote_range& range);
  static void rekey(batch_state& batch, const std::shared_ptr<const remote_memory>& now);
  void release_held();
  void count_success(const slot_state& slot, const slice& what);
  void drop_hold(reissue_record* record) noexcept;
  void stop_transfer(transfer& item, transfer_status how, base::reason cause) noexcept;
  void mark_stopped(batch_state& batch, transfer_status how, base::reason cause) noexcept;
  void sweep() noexcept;
  void maybe_end(batch_state& batch, transfer& item) noexcept;
  void maybe_end(const slice& what) noexcept;
  void touch(batch_state& batch) noexcept;
  void settle() noexcept;
  double usual_rate() const noexcept;
  std::uint64_t next_bytes() const noexcept;
  bool has_work_out(std::size_t path) const noexcept;
  void measure(std::size_t path, std::uint64_t bytes, base::time_point now) noexcept;
  std::size_t waiting_upto(std::size_t enough) const noexcept;

  const settings& config_;
  work_queue_owner& owner_;
  std::vector<slot_state> slots_;
  std::vector<path_state> paths_;
  std::vector<std::shared_ptr<batch_state>> batches_; ///< open ones, by arrival
  std::size_t fresh_ = 0;                             ///< first batch that may have uncut bytes
  std::deque<slice> again_;                           ///< bounded by the send queues: each was posted once
  /// Slices of held batches, bounded likewise.
  struct held_slice {
    slice what;
    /// The peer's device that refused its own key; else it was only beside such a one.
    std::uint16_t refused_at = slice::no_device;
  };
  std::deque<held_slice> held_;
  std::deque<slice> keyless_; ///< no usable rail has their keys; bounded likewise
  bool passed_ = false;       ///< the slot at hand has not the keys of what waits, and another one has
  bool passed_over_ = false;  ///< a batch is
  std::shared_ptr<const remote_memory> rekeyed_; ///< the last publication that changed a key
  std::shared_ptr<const remote_memory> latest_;  ///< the last one
  refusal_budget refusals_;
  reach reach_;
  std::vector<std::pair<batch_state*, transfer*>> barred_ends_; ///< looked at once the step is done
  base::time_point now_{};                                      ///< of the last pull() or ended()
  bool sweep_needed_ = false;
  std::vector<batch_state*> touched_;                 ///< each once; has room for all of batches_
  std::vector<std::shared_ptr<batch_state>> leaving_; ///< has room for all of batches_
  std::uint64_t next_serial_ = 1;
  std::size_t turn_ = 0; ///< breaks ties between equal rails in turn
};

} // namespace actor_rdma::actors
