// SPDX-License-Identifier: Apache-2.0
//
// The engine's loop and its sleep.
#include "verbs/soft/engine.hpp"

#include "verbs/soft/liveness.hpp"
#include "verbs/soft/runtime.hpp"

#include <algorithm>
#include <climits>
#include <csignal>
#include <ctime>

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

/// How long after its last visit the engine does what a poller was expected to do. Counted from the visit,
/// not from when the work was due: a poller with much to copy is late by nature, and a second thread that
/// helps it would make one thread's benchmark the work of two. More than a time slice of the scheduler, or a
/// poller that lost its core would be helped.
constexpr nanos courtesy = 10'000'000;
/// How often mappings of peers' memory are looked through.
constexpr nanos sweep_period = 1'000'000'000;

/// When the engine should serve a line.
nanos wake_time(const timeline& line) noexcept {
  const auto due = line.next_due();
  return due == never || line.is_watched() ? due : std::max(due, line.served_at()) + courtesy;
}

std::uint32_t* futex_word(std::atomic<std::uint32_t>& word) noexcept {
  return reinterpret_cast<std::uint32_t*>(&word);
}

} // namespace

void ring_entry(layout::process_entry& entry) noexcept {
  entry.attention.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, futex_word(entry.attention), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

engine::engine(runtime& rt, layout::process_entry& entry, bool holds_life)
    : rt_{rt}, entry_{entry}, holds_life_{holds_life}, pid_{::getpid()} {
  // Signals are the application's: none may be delivered to this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  is_running_ = pthread_create(&thread_, nullptr, start, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_running_)
    has_begun_.wait(false);
}

engine::~engine() {
  if (!is_running_ || ::getpid() != pid_)
    return;
  stopping_.store(true, std::memory_order_seq_cst);
  ring_entry(entry_);
  pthread_join(thread_, nullptr);
}

void* engine::start(void* self) {
  static_cast<engine*>(self)->loop();
  return nullptr;
}

void engine::note(const timeline& line) noexcept {
  if (wake_time(line) < wakes_at_.load(std::memory_order_seq_cst))
    ring_entry(entry_);
}

void engine::loop() {
  pthread_setname_np(pthread_self(), "soft-nic");
  ::prctl(PR_SET_TIMERSLACK, 1UL); // of 50 us by default
  if (holds_life_)
    begin_life(entry_);
  has_begun_.store(true);
  has_begun_.notify_one();
  nanos next_sweep = never;
  bool was_busy = true; // somebody rang, or there was work to wait for
  while (!stopping_.load(std::memory_order_seq_cst)) {
    // Read before looking: whoever rings after this makes the sleep below return at once.
    const auto seen = entry_.attention.load(std::memory_order_seq_cst);
    wakes_at_.store(0, std::memory_order_seq_cst);
    const auto now = rt_.now();
    rt_.attend(now);
    run_lines(now);
    if (!rt_.mappings().holds_any())
      next_sweep = never;
    else if (next_sweep == never)
      next_sweep = now + sweep_period;
    if (now >= next_sweep) {
      rt_.mappings().sweep(rt_.tables(), entry_);
      next_sweep = now + sweep_period;
    }
    // Who posts and polls in turn empties its queue again and again, and would ring for each post if this
    // slept for ever as soon as nothing is there. The first sleep ends before what such a poller posts could
    // be late.
    const auto wake = next_wake();
    const auto rest = wake == never && was_busy ? now + courtesy / 2 : never;
    const auto until = std::min({wake, next_sweep, rest});
    wakes_at_.store(until, std::memory_order_seq_cst);
    if (next_wake() >= until && !rt_.needs_attention() && !stopping_.load(std::memory_order_seq_cst))
      sleep_until(seen, until);
    was_busy = wake != never || entry_.attention.load(std::memory_order_seq_cst) != seen;
  }
  if (holds_life_)
    end_life(entry_);
}

void engine::run_lines(nanos now) {
  rt_.refresh(lines_, lines_version_);
  for (const auto& line : lines_) {
    // A line that its owner served in the meantime is not due any more.
    for (copy_budget budget = budget_per_call; wake_time(*line) <= now && budget == budget_per_call;) {
      line->run_due(now, budget);
      budget = budget == 0 ? budget : budget_per_call;
    }
  }
}

nanos engine::next_wake() {
  rt_.refresh(lines_, lines_version_);
  auto next = never;
  for (const auto& line : lines_)
    next = std::min(next, wake_time(*line));
  return next;
}

void engine::sleep_until(std::uint32_t seen, nanos when) noexcept {
  timespec at{};
  at.tv_sec = when / 1'000'000'000;
  at.tv_nsec = when % 1'000'000'000;
  // The bit-set variant takes an absolute time of CLOCK_MONOTONIC.
  ::syscall(SYS_futex, futex_word(entry_.attention), FUTEX_WAIT_BITSET, seen, when == never ? nullptr : &at,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

} // namespace actor_rdma::verbs::soft
