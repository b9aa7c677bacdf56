// SPDX-License-Identifier: Apache-2.0
//
// A completion queue: a bounded ring of completions, the channel that it wakes, and the timeline of the work
// that will end in it. Completions are only ever written by the process that owns the queue. Receives that
// peers finished wait on a list in the shared tables until the owner looks.
#pragma once

#include "verbs/soft/event_queue.hpp"
#include "verbs/soft/handles.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/rules/completion_keeper.hpp"
#include "verbs/soft/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class soft_qp;

struct completion {
  ibv_wc wc;
  soft_qp* qp; // outlives it: a queue pair that goes takes its completions along, or leaves them without it
  std::uint64_t release_to; // the send queue is free up to here once this is polled; or a receive's slot
};
/// In `release_to`: it is the slot of a receive.
inline constexpr std::uint64_t frees_receive = std::uint64_t{1} << 63;
inline constexpr std::uint64_t is_solicited = std::uint64_t{1} << 62;

[[nodiscard]] inline work_queue_name queue_of(const completion& c) noexcept {
  return {c.qp, (c.release_to & frees_receive) != 0};
}

class hold_timer;

class soft_cq : public extended_cq,
                public owned_object,
                public watched,
                public std::enable_shared_from_this<soft_cq> {
public:
  /// The slot in the tables is claimed.
  soft_cq(soft_context& owner, std::uint32_t index, int capacity, void* user_context, soft_channel* notify);
  ~soft_cq() override;
  [[nodiscard]] static soft_cq& of(ibv_cq* cq) noexcept { return *static_cast<soft_cq*>(cq); }

  [[nodiscard]] int poll(int limit, ibv_wc* out);
  void arm(bool solicited_only);
  /// False when one of them found no room: the queue is then in error, and so is the queue pair.
  [[nodiscard]] bool push(std::span<const completion> completions);
  /// Brings in the receives that peers finished.
  void collect();
  void look() override { collect(); }
  /// Keeps what waits. 0, or EINVAL when that is more than there would be room for.
  [[nodiscard]] int resize(int capacity);

  /// From now on receives of this queue pair end here.
  void add_receiver(soft_qp& qp);
  void remove_receiver(const soft_qp& qp) noexcept;
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// Takes away what a queue pair wrote: it is reset or destroyed. The slots of its receives are not freed.
  void purge(const soft_qp& qp, bool only_receives = false);

  // Rules. Where nothing is held this costs a look at an empty list.
  /// Keeps a completion back, or the place of one that is absent.
  void push_held(work_queue_name of, const std::optional<completion>& what, const cqe_hold& hold);
  /// The queue pair is about to be flushed: what is held for a time comes now, the rest never.
  void hurry(const soft_qp& qp);
  /// Leaves what a queue pair wrote, although it goes.
  void orphan(const soft_qp& qp) noexcept;
  void release_due(nanos now);
  /// With the lock.
  void raise_error();
  void raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) override;

  [[nodiscard]] std::uint32_t dependents() const noexcept override { return users.load(); }
  [[nodiscard]] int retire(bool forced) override;

  [[nodiscard]] timeline& line() noexcept { return *line_; }

  std::atomic<std::uint32_t> users{0}; // queue pairs
  event_ledger channel_events;
  event_ledger async_events;

private:
  enum class armed : std::uint8_t { no, for_any, for_solicited };
  /// With the lock. Errors count as solicited, successes of a requester do not.
  void notify(bool any_solicited);
  void make_progress();
  [[nodiscard]] bool write(std::span<const completion> completions);
  [[nodiscard]] bool write_around(std::span<const completion> completions);
  [[nodiscard]] bool write_receive(soft_qp& qp, completion c);
  [[nodiscard]] bool write_due(nanos now);
  void schedule_holds();
  void end_holds() noexcept;

  soft_context& context_; // may be gone when somebody still looks here after the end
  runtime& rt_;
  const std::uint32_t index_;
  layout::cq_entry& entry_;
  const std::shared_ptr<timeline> line_;
  std::mutex mutex_;
  std::map<std::uint32_t, soft_qp*> receivers_; // by slot
  std::unique_ptr<completion[]> ring_;
  std::uint32_t head_ = 0;
  std::atomic<std::uint32_t> count_{0};
  armed armed_ = armed::no;
  bool overrun_ = false;
  bool is_ending_ = false; // no event of it is raised any more
  bool has_ended_ = false;
  completion_keeper<completion> keeper_;
  std::shared_ptr<hold_timer> timer_; // made with the first hold
};

} // namespace actor_rdma::verbs::soft
