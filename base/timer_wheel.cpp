// SPDX-License-Identifier: Apache-2.0
//
// Where timers are kept and how the wheel moves on. See the header for the idea.
#include "base/timer_wheel.hpp"

#include <algorithm>
#include <bit>

namespace actor_rdma::base {

timer_wheel::timer_wheel(time_point start, duration tick, std::size_t reserve)
    : start_{start}, tick_length_{tick} {
  ACTOR_RDMA_ASSERT(tick > duration::zero(), "a wheel's tick must be longer than nothing");
  nodes_.reserve(reserve);
  due_.reserve(reserve);
  heads_.fill(none);
}

timer_id timer_wheel::arm(time_point when, std::uint64_t token) {
  std::uint32_t index = free_;
  if (index != none) {
    free_ = nodes_[index].next;
  } else {
    ACTOR_RDMA_ASSERT(nodes_.size() < none, "a wheel is full");
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  auto& n = nodes_[index];
  n.when = when;
  n.token = token;
  n.sequence = next_sequence_++;
  link(index, list_for(tick_of(when)));
  ++size_;
  not_before_ = std::min(not_before_, when);
  return timer_id{(std::uint64_t{n.generation} << 32) | index};
}

bool timer_wheel::cancel(timer_id id) noexcept {
  const auto index = find(id);
  if (index == none)
    return false;
  if (nodes_[index].list != due_list)
    unlink(index);
  release(index);
  return true;
}

std::optional<time_point> timer_wheel::next_deadline() const noexcept {
  if (size_ == 0)
    return std::nullopt;
  time_point earliest = time_never;
  for (const auto& entry : due_) { // only after a callback threw
    if (find(entry.id) != none)
      earliest = std::min(earliest, entry.when);
  }
  std::uint32_t list = none;
  if (const auto tick = earliest_tick(list)) {
    if (list < slots) {
      for (auto i = heads_[list]; i != none; i = nodes_[i].next)
        earliest = std::min(earliest, nodes_[i].when);
    } else {
      earliest = std::min(earliest, time_of(*tick));
    }
  }
  return std::max(earliest, not_before_); // neither is later than the truth
}

std::uint64_t timer_wheel::tick_of(time_point when) const noexcept {
  if (when <= start_)
    return tick_;
  // The difference of two signed numbers, taken unsigned, because it may exceed what a duration holds.
  const auto elapsed = static_cast<std::uint64_t>(when.time_since_epoch().count()) -
                       static_cast<std::uint64_t>(start_.time_since_epoch().count());
  return std::max(tick_, elapsed / static_cast<std::uint64_t>(tick_length_.count()));
}

time_point timer_wheel::time_of(std::uint64_t tick) const noexcept {
  const auto length = static_cast<std::uint64_t>(tick_length_.count());
  const auto room = static_cast<std::uint64_t>(time_never.time_since_epoch().count()) -
                    static_cast<std::uint64_t>(start_.time_since_epoch().count());
  if (tick > room / length)
    return time_never;
  return time_point{duration{static_cast<std::int64_t>(
      static_cast<std::uint64_t>(start_.time_since_epoch().count()) + tick * length)}};
}

std::uint32_t timer_wheel::find(timer_id id) const noexcept {
  const auto index = static_cast<std::uint32_t>(id.value);
  const auto generation = static_cast<std::uint32_t>(id.value >> 32);
  if (index >= nodes_.size() || nodes_[index].generation != generation || nodes_[index].list == none)
    return none;
  return index;
}

std::uint32_t timer_wheel::list_for(std::uint64_t tick) const noexcept {
  const auto difference = tick ^ tick_;
  const auto level =
      difference == 0 ? 0U : (static_cast<unsigned>(std::bit_width(difference)) - 1) / digit_bits;
  if (level >= levels)
    return far_list;
  return level * slots + static_cast<std::uint32_t>((tick >> (level * digit_bits)) % slots);
}

std::optional<std::uint64_t> timer_wheel::earliest_tick(std::uint32_t& list) const noexcept {
  // Lower levels come first: all of a level lies before the next slot of the level above it.
  for (unsigned level = 0; level < levels; ++level) {
    const auto& words = occupied_[level];
    for (unsigned w = 0; w < words.size(); ++w) {
      if (words[w] == 0)
        continue;
      const auto slot = w * 64 + static_cast<unsigned>(std::countr_zero(words[w]));
      list = level * slots + slot;
      const auto shift = level * digit_bits;
      const auto above = tick_ >> (shift + digit_bits) << (shift + digit_bits);
      return above | (std::uint64_t{slot} << shift);
    }
  }
  if (heads_[far_list] == none)
    return std::nullopt;
  list = far_list;
  constexpr unsigned shift = levels * digit_bits;
  return ((tick_ >> shift) + 1) << shift;
}

void timer_wheel::link(std::uint32_t index, std::uint32_t list) noexcept {
  auto& n = nodes_[index];
  n.list = list;
  n.previous = none;
  n.next = heads_[list];
  if (n.next != none)
    nodes_[n.next].previous = index;
  heads_[list] = index;
  if (list < far_list)
    occupied_[list / slots][list % slots / 64] |= std::uint64_t{1} << (list % 64);
}

void timer_wheel::unlink(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  if (n.next != none)
    nodes_[n.next].previous = n.previous;
  if (n.previous != none)
    nodes_[n.previous].next = n.next;
  else
    heads_[n.list] = n.next;
  if (heads_[n.list] == none && n.list < far_list)
    occupied_[n.list / slots][n.list % slots / 64] &= ~(std::uint64_t{1} << (n.list % 64));
}

void timer_wheel::release(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  n.list = none;
  if (++n.generation == 0)
    n.generation = 1; // an id of zero means none
  n.next = free_;
  free_ = index;
  --size_;
}

void timer_wheel::move_down(std::uint32_t list) noexcept {
  // Detached first: a far timer may go back to the list that it came from.
  auto index = heads_[list];
  heads_[list] = none;
  if (list < far_list)
    occupied_[list / slots][list % slots / 64] &= ~(std::uint64_t{1} << (list % 64));
  while (index != none) {
    const auto next = nodes_[index].next;
    link(index, list_for(tick_of(nodes_[index].when)));
    index = next;
  }
}

void timer_wheel::take_due(std::uint32_t list, time_point now) {
  for (auto index = heads_[list]; index != none;) {
    const auto& n = nodes_[index];
    const auto next = n.next;
    if (n.when <= now) {
      due_.push_back(due_entry{n.when, n.sequence, timer_id{(std::uint64_t{n.generation} << 32) | index}});
      unlink(index);
      nodes_[index].list = due_list;
    }
    index = next;
  }
}

void timer_wheel::collect_due(time_point now) {
  const auto target = tick_of(now);
  std::uint32_t list = none;
  for (;;) {
    const auto tick = earliest_tick(list);
    if (!tick || *tick > target)
      break;
    tick_ = *tick;
    if (list >= slots) {
      move_down(list);
      continue;
    }
    take_due(list, now);
    if (tick_ == target)
      break; // what is left here is due later within this tick
  }
  tick_ = target;
  std::sort(due_.begin(), due_.end(), [](const due_entry& a, const due_entry& b) {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  });
  not_before_ = time_point::min(); // until next_due() has found nothing more: a callback may throw
}

bool timer_wheel::next_due(std::uint64_t& token) noexcept {
  while (!due_.empty()) {
    const auto index = find(due_.back().id);
    due_.pop_back();
    if (index == none)
      continue; // cancelled by an earlier callback
    token = nodes_[index].token;
    release(index);
    return true;
  }
  not_before_ = next_deadline().value_or(time_never);
  return false;
}

} // namespace actor_rdma::base
