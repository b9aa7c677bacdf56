// SPDX-License-Identifier: Apache-2.0
//
// Writing, polling and notifying.
#include "verbs/soft/completion_queue.hpp"

#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/receive_table.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace actor_rdma::verbs::soft {

soft_cq::soft_cq(soft_context& owner, std::uint32_t index, int capacity, void* user_context,
                 soft_channel* notify_on)
    : extended_cq{}, context_{owner}, rt_{owner.rt()}, index_{index}, entry_{owner.rt().tables().cqs[index]},
      line_{owner.rt().make_line()}, ring_{std::make_unique_for_overwrite<completion[]>(
                                         static_cast<std::size_t>(capacity))} {
  context = &owner.context;
  channel = notify_on;
  cq_context = user_context;
  cqe = capacity;
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
  if (notify_on != nullptr)
    notify_on->users.fetch_add(1);
}

soft_cq::~soft_cq() {
  end_holds();
  rt_.remove(line_);
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

int soft_cq::retire(bool forced) {
  if (!forced && users.load() != 0)
    return EBUSY;
  rt_.remove(static_cast<const watched&>(*this));
  soft_channel* notified = nullptr;
  {
    std::lock_guard lock{mutex_};
    is_ending_ = true;
    notified = static_cast<soft_channel*>(channel);
  }
  end_holds();
  context_.async_events().drop(async_events);
  if (notified != nullptr)
    notified->events.drop(channel_events);
  if (!forced) {
    async_events.wait();
    channel_events.wait();
  }
  if (users.load() != 0)
    return EBUSY; // a forced close found a stopped process inside one of its queue pairs
  std::lock_guard lock{mutex_};
  if (std::exchange(has_ended_, true))
    return 0; // a verb and the loss of the device have met
  channel = nullptr;
  if (notified != nullptr)
    notified->users.fetch_sub(1);
  context_.device().allowances().cqs.give(1);
  release_completion_queue(rt_.tables(), index_);
  return 0;
}

void soft_cq::make_progress() {
  auto& rt = rt_;
  if (rt.is_virtual())
    return; // there, things happen when time advances
  if (line_->next_due() == never && rt.wire()->next_due() == never)
    return;
  copy_budget budget = budget_per_call;
  const auto now = rt.now();
  line_->note_served(now);
  line_->run_due(now, budget);
  rt.wire()->run_due(now, budget);
}

int soft_cq::poll(int limit, ibv_wc* out) {
  make_progress();
  if (entry_.arrived.load(std::memory_order_relaxed) != 0)
    collect();
  if (count_.load(std::memory_order_acquire) == 0)
    return 0;
  std::lock_guard lock{mutex_};
  const auto capacity = static_cast<std::uint32_t>(cqe);
  auto count = count_.load(std::memory_order_relaxed);
  const auto n = std::min(count, static_cast<std::uint32_t>(std::max(limit, 0)));
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto& c = ring_[head_];
    out[i] = c.wc;
    if (c.qp != nullptr)
      c.qp->release(c.release_to);
    head_ = head_ + 1 == capacity ? 0 : head_ + 1;
  }
  count_.store(count - n, std::memory_order_release);
  return static_cast<int>(n);
}

void soft_cq::arm(bool solicited_only) {
  collect(); // what was there before raises no event
  {
    std::lock_guard lock{mutex_};
    if (armed_ != armed::for_any)
      armed_ = solicited_only ? armed::for_solicited : armed::for_any;
    entry_.armed.store(1, std::memory_order_seq_cst);
  }
  if (entry_.arrived.load(std::memory_order_seq_cst) != 0)
    collect(); // it came in between, and its sender may not have seen that we wait
  if (!rt_.is_virtual())
    line_->set_watched(true);
}

bool soft_cq::push(std::span<const completion> completions) {
  if (completions.empty())
    return true; // and no event
  std::lock_guard lock{mutex_};
  return keeper_.is_empty() ? write(completions) : write_around(completions);
}

bool soft_cq::write(std::span<const completion> completions) {
  const auto capacity = static_cast<std::uint32_t>(cqe);
  auto count = count_.load(std::memory_order_relaxed);
  bool any_solicited = false;
  for (const auto& c : completions) {
    if (count == capacity || overrun_) {
      count_.store(count, std::memory_order_release);
      if (!overrun_) {
        overrun_ = true;
        raise_error();
      }
      return false;
    }
    const auto at = head_ + count;
    ring_[at >= capacity ? at - capacity : at] = c;
    ++count;
    any_solicited |= c.wc.status != IBV_WC_SUCCESS || (c.release_to & is_solicited) != 0;
  }
  count_.store(count, std::memory_order_release);
  if (!is_ending_)
    context_.device().note_arrival();
  notify(any_solicited);
  return true;
}

void soft_cq::raise_error() {
  if (is_ending_)
    return;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = this;
  context_.raise(event, &async_events);
}

void soft_cq::collect() {
  auto& t = rt_.tables();
  std::lock_guard lock{mutex_};
  if (is_ending_)
    return; // who looks now was lent it before; its entry may be another one's by now
  for (auto at = take_arrivals(t, entry_); at != 0;) {
    auto& slot = slot_at(t, at);
    const auto next = slot.next.load(std::memory_order_relaxed);
    const auto word = slot.word.load(std::memory_order_seq_cst);
    slot.word.store(with_state(word, receive_state::delivered), std::memory_order_seq_cst);
    if (const auto receiver = receivers_.find(claimer_of(word)); receiver != receivers_.end()) {
      if (!write_receive(*receiver->second, receiver->second->make_receive_completion(at)))
        receiver->second->drop_receive(at);
    }
    at = next;
  }
}

void soft_cq::add_receiver(soft_qp& qp) {
  std::lock_guard lock{mutex_};
  receivers_[qp.slot_index()] = &qp;
}

void soft_cq::remove_receiver(const soft_qp& qp) noexcept {
  std::lock_guard lock{mutex_};
  receivers_.erase(qp.slot_index());
}

void soft_cq::notify(bool any_solicited) {
  if (armed_ == armed::no || (armed_ == armed::for_solicited && !any_solicited))
    return;
  armed_ = armed::no;
  entry_.armed.store(0, std::memory_order_seq_cst);
  if (!rt_.is_virtual())
    line_->set_watched(false);
  if (channel != nullptr)
    static_cast<soft_channel*>(channel)->events.push(this, &channel_events);
}

int soft_cq::resize(int capacity) {
  collect();
  auto ring = std::make_unique_for_overwrite<completion[]>(static_cast<std::size_t>(capacity));
  std::lock_guard lock{mutex_};
  const auto count = count_.load(std::memory_order_relaxed);
  if (count > static_cast<std::uint32_t>(capacity))
    return EINVAL;
  for (std::uint32_t i = 0; i < count; ++i)
    ring[i] = ring_[(head_ + i) % static_cast<std::uint32_t>(cqe)];
  ring_ = std::move(ring);
  head_ = 0;
  cqe = capacity;
  return 0;
}

void soft_cq::purge(const soft_qp& qp, bool only_receives) {
  std::lock_guard lock{mutex_};
  keeper_.forget(&qp);
  const auto capacity = static_cast<std::uint32_t>(cqe);
  const auto count = count_.load(std::memory_order_relaxed);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& c = ring_[(head_ + i) % capacity];
    if (c.qp != &qp || (only_receives && (c.release_to & frees_receive) == 0))
      ring_[(head_ + kept++) % capacity] = c;
  }
  count_.store(kept, std::memory_order_release);
}

} // namespace actor_rdma::verbs::soft
