// SPDX-License-Identifier: Apache-2.0
#include "actors/named_thread.hpp"

#include <csignal>
#include <utility>

#include <pthread.h>

namespace actor_rdma::actors {

namespace {

/// A new thread inherits the mask, so it is blocked here and not in the thread, where it would be a moment
/// too late.
class all_signals_blocked {
public:
  all_signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~all_signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  all_signals_blocked(const all_signals_blocked&) = delete;
  all_signals_blocked& operator=(const all_signals_blocked&) = delete;

private:
  sigset_t before_{};
};

} // namespace

std::thread named_thread(const std::string& name, std::function<void()> body) {
  const all_signals_blocked mask;
  return std::thread{[name = name.substr(0, 15), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    body();
  }};
}

} // namespace actor_rdma::actors
