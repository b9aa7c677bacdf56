// SPDX-License-Identifier: Apache-2.0
// The signal thread.
#include "bench/signals.hpp"

#include <csignal>
#include <ctime>
#include <utility>

#include <unistd.h>

namespace actor_rdma::bench {

namespace {

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGUSR1, SIGINT, SIGTERM})
    sigaddset(&set, number);
  return set;
}

} // namespace

signals::signals() {
  const auto set = handled();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { loop(); });
}

signals::~signals() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  thread_.join();
}

void signals::on_usr1(std::function<void()> what) {
  std::lock_guard lock(mutex_);
  usr1_ = std::move(what);
}

void signals::on_stop(std::function<void()> what) {
  std::lock_guard lock(mutex_);
  stop_ = std::move(what);
  if (stop_asked_ && stop_)
    stop_();
}

bool signals::stop_asked() const {
  std::lock_guard lock(mutex_);
  return stop_asked_;
}

void signals::wait_for_stop(base::duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return stop_asked_; });
}

void signals::loop() {
  const auto set = handled();
  constexpr timespec step{0, 50'000'000};
  for (;;) {
    const int number = sigtimedwait(&set, nullptr, &step);
    std::lock_guard lock(mutex_);
    if (ending_)
      return;
    if (number == SIGUSR1 && usr1_)
      usr1_();
    if (number != SIGINT && number != SIGTERM)
      continue;
    if (std::exchange(stop_asked_, true))
      ::_exit(128 + number);
    if (stop_)
      stop_();
    changed_.notify_all();
  }
}

} // namespace actor_rdma::bench
