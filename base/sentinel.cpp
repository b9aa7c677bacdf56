// SPDX-License-Identifier: Apache-2.0
// The sentinel's loop.
#include "base/sentinel.hpp"

#include <algorithm>
#include <ctime>

#include <sys/prctl.h>

namespace actor_rdma::base {

sentinel::sentinel() : thread_([this] { loop(); }) {}

sentinel::~sentinel() {
  stopping_.store(true);
  thread_.join();
}

void sentinel::begin() {
  std::lock_guard lock(mutex_);
  delays_.clear();
}

std::vector<sentinel::delay> sentinel::delays() const {
  std::lock_guard lock(mutex_);
  return delays_;
}

duration sentinel::worst(time_point from, time_point until) const {
  std::lock_guard lock(mutex_);
  duration worst{};
  for (const auto& d : delays_)
    if (d.came >= from && d.due <= until)
      worst = std::max(worst, d.came - d.due);
  return worst;
}

void sentinel::loop() {
  ::prctl(PR_SET_TIMERSLACK, 1UL); // of 50 us by default
  auto due = mono_clock::now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    due += period;
    const auto ns = due.time_since_epoch().count();
    timespec at{};
    at.tv_sec = ns / 1'000'000'000;
    at.tv_nsec = ns % 1'000'000'000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    const auto came = mono_clock::now();
    if (came - due > tolerance) {
      std::lock_guard lock(mutex_);
      delays_.push_back({due, came});
    }
    due = std::max(due, came - period);
  }
}

} // namespace actor_rdma::base
