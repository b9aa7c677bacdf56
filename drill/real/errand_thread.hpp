// SPDX-License-Identifier: Apache-2.0
// A thread that does what it is given, one after the other. Memory that is taken back and registered again
// needs the order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace actor_rdma::drill {

class errand_thread {
public:
  errand_thread() : thread_([this] { loop(); }) {}
  ~errand_thread() { finish(); }
  errand_thread(const errand_thread&) = delete;
  errand_thread& operator=(const errand_thread&) = delete;

  void add(std::function<void()> what) {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(what));
    }
    changed_.notify_all();
  }
  /// Waits until all is done; nothing may be added afterwards.
  void finish() {
    {
      std::lock_guard lock(mutex_);
      finishing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return finishing_ || !waiting_.empty(); });
      if (waiting_.empty())
        return;
      const auto next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool finishing_ = false;
  std::thread thread_;
};

} // namespace actor_rdma::drill
