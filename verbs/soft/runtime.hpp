// SPDX-License-Identifier: Apache-2.0
//
// One process's part in one fabric: the mapped tables, the clock, and the registries through which changes
// that other hosts make (a link, a fault, a queue pair moved to ERR) find the objects that they concern.
#pragma once

#include "base/random.hpp"
#include "base/time.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/mapping_cache.hpp"
#include "verbs/soft/rules/rule_book.hpp"
#include "verbs/soft/rules/timed_rules.hpp"
#include "verbs/soft/segment.hpp"
#include "verbs/soft/timeline.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class engine;
class event_ledger;
class packet;
class soft_context;
class soft_qp;

/// Something of this process that others leave work for: a completion queue, a shared receive queue.
class watched {
public:
  watched() = default;
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  virtual ~watched() = default;
  /// Looks what has come. Called by whoever attends to the process's entry.
  virtual void look() = 0;
  /// Somebody asked for an event of this device: raises it if it is one of things like this.
  virtual void raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) = 0;
};

class runtime {
public:
  /// `clock` is null for the steady clock; any other makes time virtual, and then there is no thread.
  runtime(segment tables, const base::clock_source* clock);
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  [[nodiscard]] layout::tables& tables() const noexcept { return segment_.get(); }
  [[nodiscard]] segment& memory() noexcept { return segment_; }
  [[nodiscard]] bool is_virtual() const noexcept { return clock_ != nullptr; }
  [[nodiscard]] nanos now() const noexcept {
    if (const auto at = event_time_.load(std::memory_order_relaxed); at != never)
      return at;
    return (clock_ != nullptr ? clock_->now() : base::mono_clock::now()).time_since_epoch().count();
  }
  /// Virtual time: while something runs, it is as late as that was due; `never` ends it.
  void set_event_time(nanos at) noexcept { event_time_.store(at, std::memory_order_relaxed); }
  /// Virtual time: something has come, or a fault has changed, and it is not known for whom.
  void note_arrival_anywhere() noexcept {
    if (is_virtual())
      ++arrivals_anywhere_;
  }
  [[nodiscard]] std::uint64_t arrivals_anywhere() const noexcept { return arrivals_anywhere_; }

  // -- the process's entry
  // ----------------------------------------------------------------------------------------

  /// Takes an entry and starts the engine. The caller holds the segment's lock.
  [[nodiscard]] base::expected<void> attach();
  /// In a child of the process that attached: entry, thread and objects are the parent's, and none of them
  /// may be touched on the way to the child's exit.
  [[nodiscard]] bool is_forked_child() const noexcept;
  /// The process ends without taking its objects apart: removes the segment's file if nobody else uses it.
  void leave_file() noexcept;
  /// Frees what processes left that are gone. The caller holds the segment's lock.
  void reap();
  [[nodiscard]] bool is_attached() const noexcept { return process_ != nullptr; }
  [[nodiscard]] layout::process_entry& process() const noexcept { return *process_; }
  [[nodiscard]] std::uint32_t process_index() const noexcept { return process_index_; }
  /// Whether the process behind an entry is this one, possibly by another attachment.
  [[nodiscard]] bool is_own_process(std::uint32_t index) const noexcept;
  /// One load; true for every process of a private fabric.
  [[nodiscard]] bool is_reachable(std::uint32_t index) const noexcept;

  // -- registries
  // -------------------------------------------------------------------------------------------------

  void add(std::uint32_t index, const std::shared_ptr<soft_qp>& qp);
  void remove_qp(std::uint32_t index) noexcept;
  void add(soft_context& context);
  /// Waits while the engine is at it: afterwards nobody looks at it, nor at its device.
  void remove(soft_context& context) noexcept;
  void add(const std::shared_ptr<watched>& what);
  void remove(const watched& what) noexcept;
  /// The line of a new completion queue: its own, or in virtual time everybody's.
  [[nodiscard]] std::shared_ptr<timeline> make_line();
  void remove(const std::shared_ptr<timeline>& line) noexcept;
  using lines_t = std::vector<std::shared_ptr<timeline>>;
  /// All of them; the list is copied only when `seen` is not its version.
  void refresh(lines_t& lines, std::uint64_t& seen) const;
  /// Where packets travel that outlive their sender.
  [[nodiscard]] const std::shared_ptr<timeline>& wire() const noexcept { return wire_; }
  /// Keeps a packet until a link changes.
  void stall(std::shared_ptr<packet> held);
  [[nodiscard]] mapping_cache& mappings() noexcept { return mappings_; }
  /// Seeded: garbage for error completions and the like.
  [[nodiscard]] std::uint64_t random();

  // -- rules
  // --------------------------------------------------------------------------------------------------------

  [[nodiscard]] rule_book& rules() noexcept { return rules_; }
  /// A verb takes longer: it sleeps, or, in virtual time, somebody may ask how long it would have.
  void take_time(nanos span);
  [[nodiscard]] nanos take_verb_delay() noexcept { return verb_delay_.exchange(0); }
  /// Delivers an event later, unless what it speaks of is gone by then.
  void raise_later(soft_context& context, const ibv_async_event& event, event_ledger* ledger,
                   std::uint32_t times, nanos at);
  /// Contexts of the named devices: calls that wait for events look again.
  void wake_waiting_calls(std::string_view device);

  // -- attention
  // --------------------------------------------------------------------------------------------------

  /// Wakes the engine of a process.
  void ring(std::uint32_t process_index) noexcept;
  /// After a change of a device's link or faults.
  void announce_change() noexcept;
  [[nodiscard]] bool needs_attention() const noexcept;
  /// Brings what others changed to the objects of this process: events, errors, retries.
  void attend(nanos now);

private:
  class late_event;
  // What attend() looks at without the lock. These objects may outlive their context and device meanwhile:
  // they have to find out, under their own locks, that they were retired, before they touch either.
  using lent_qps = std::vector<std::shared_ptr<soft_qp>>;
  using lent_objects = std::vector<std::shared_ptr<watched>>;
  void raise_on_demand(const lent_qps& qps, const lent_objects& objects);
  void look_at_ports();

  segment segment_;
  const base::clock_source* clock_;
  rule_book rules_;
  timed_rules timed_rules_;
  std::uint64_t raised_seen_;
  std::atomic<nanos> verb_delay_{0};
  std::atomic<nanos> event_time_{never};
  std::uint64_t arrivals_anywhere_ = 0;
  layout::process_entry* process_ = nullptr;
  std::uint32_t process_index_ = 0;
  std::int32_t pid_ = 0;
  mapping_cache mappings_;

  mutable std::mutex mutex_; // guards what follows, never held while work is executed
  base::rng random_;
  std::map<std::uint32_t, std::shared_ptr<soft_qp>> qps_;
  std::vector<soft_context*> contexts_;
  std::vector<const soft_context*> dying_; // somebody is at them without the lock
  std::condition_variable one_has_died_;
  std::vector<std::shared_ptr<watched>> watched_;
  lines_t lines_;
  std::atomic<std::uint64_t> lines_version_{1};
  std::vector<std::shared_ptr<packet>> stalled_;
  std::shared_ptr<timeline> wire_;
  std::atomic<std::uint32_t> seen_epoch_{0};
  std::unique_ptr<engine> engine_;
};

} // namespace actor_rdma::verbs::soft
