// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as something that can be polled for, so that a run which is asked to stop takes down
// what it has started. Made on the main thread before any other thread is.
#pragma once

#include <csignal>
#include <optional>

#include <sys/signalfd.h>
#include <unistd.h>

namespace actor_rdma::drill {

class stop_signals {
public:
  stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~stop_signals() {
    ::close(fd_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  int fd() const noexcept { return fd_; }
  /// The one that has come; remembered from then on.
  std::optional<int> came() {
    signalfd_siginfo info{};
    if (!came_ && ::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      came_ = static_cast<int>(info.ssi_signo);
    return came_;
  }

private:
  sigset_t before_{};
  int fd_ = -1;
  std::optional<int> came_;
};

} // namespace actor_rdma::drill
