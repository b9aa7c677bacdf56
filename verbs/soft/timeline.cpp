// SPDX-License-Identifier: Apache-2.0
//
// A binary heap whose entries know their places, so that re-scheduling moves an entry instead of adding
// another.
#include "verbs/soft/timeline.hpp"

#include <utility>

namespace actor_rdma::verbs::soft {

void timeline::place(std::size_t i, entry&& e) noexcept {
  e.what->position_ = i;
  heap_[i] = std::move(e);
}

void timeline::sift_up(std::size_t i) noexcept {
  entry moving = std::move(heap_[i]);
  while (i > 0) {
    const auto parent = (i - 1) / 2;
    if (!(moving.key < heap_[parent].key))
      break;
    place(i, std::move(heap_[parent]));
    i = parent;
  }
  place(i, std::move(moving));
}

void timeline::sift_down(std::size_t i) noexcept {
  entry moving = std::move(heap_[i]);
  for (;;) {
    auto child = 2 * i + 1;
    if (child >= heap_.size())
      break;
    if (child + 1 < heap_.size() && heap_[child + 1].key < heap_[child].key)
      ++child;
    if (!(heap_[child].key < moving.key))
      break;
    place(i, std::move(heap_[child]));
    i = child;
  }
  place(i, std::move(moving));
}

void timeline::take_out(std::size_t i) noexcept {
  heap_[i].what->position_ = timed::outside;
  const auto last = heap_.size() - 1;
  if (i != last) {
    const bool smaller = heap_[last].key < heap_[i].key;
    place(i, std::move(heap_[last]));
    heap_.pop_back();
    if (smaller)
      sift_up(i);
    else
      sift_down(i);
  } else {
    heap_.pop_back();
  }
}

void timeline::publish() noexcept {
  next_due_.store(heap_.empty() ? never : heap_.front().key.at, std::memory_order_seq_cst);
}

void timeline::schedule(const std::shared_ptr<timed>& what, const due_key& key) {
  bool earlier = false;
  {
    std::lock_guard lock{mutex_};
    const auto before = next_due_.load(std::memory_order_relaxed);
    if (what->position_ == timed::outside) {
      heap_.push_back({key, what});
      sift_up(heap_.size() - 1);
    } else {
      const auto i = what->position_;
      const bool smaller = key < heap_[i].key;
      heap_[i].key = key;
      if (smaller)
        sift_up(i);
      else
        sift_down(i);
    }
    publish();
    earlier = next_due_.load(std::memory_order_relaxed) < before;
  }
  if (earlier && on_earlier_)
    on_earlier_(*this);
}

void timeline::remove(timed& what) noexcept {
  std::shared_ptr<timed> last_owner; // released after the lock
  std::lock_guard lock{mutex_};
  if (what.position_ == timed::outside)
    return;
  last_owner = heap_[what.position_].what;
  take_out(what.position_);
  publish();
}

std::shared_ptr<timed> timeline::pop_due(nanos now, due_key& key) noexcept {
  std::lock_guard lock{mutex_};
  if (heap_.empty() || heap_.front().key.at > now)
    return nullptr;
  key = heap_.front().key;
  auto what = heap_.front().what;
  take_out(0);
  publish();
  return what;
}

void timeline::clear() noexcept {
  std::vector<entry> gone; // released after the lock
  std::lock_guard lock{mutex_};
  for (auto& e : heap_)
    e.what->position_ = timed::outside;
  gone.swap(heap_);
  publish();
}

void timeline::run_due(nanos now, copy_budget& budget) {
  due_key key;
  while (budget > 0 && next_due() <= now) {
    const auto what = pop_due(now, key);
    if (!what)
      return;
    what->run(key.at, now, budget);
  }
}

void timeline::set_watched(bool watched) noexcept {
  watched_.store(watched, std::memory_order_seq_cst);
  if (watched && next_due() != never && on_earlier_)
    on_earlier_(*this);
}

} // namespace actor_rdma::verbs::soft
