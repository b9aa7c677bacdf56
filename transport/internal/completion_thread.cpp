// SPDX-License-Identifier: Apache-2.0
// The callback thread's loop and its end.
#include "transport/internal/completion_thread.hpp"

#include "base/log.hpp"

#include <exception>
#include <utility>

#include <pthread.h>

namespace actor_rdma::detail {

namespace {

/// What a callback throws is its own affair.
template <class Call>
void guarded(Call&& call) {
  try {
    call();
  } catch (const std::exception& e) {
    base::log(base::level::error, "transport", "a completion callback threw: {}", e.what());
  } catch (...) {
    base::log(base::level::error, "transport", "a completion callback threw");
  }
}

} // namespace

completion_thread::completion_thread(std::function<bool()> take_notice) : state_(std::make_shared<shared>()) {
  state_->take_notice = std::move(take_notice);
  thread_ = std::thread([state = state_] { run(state); });
}

completion_thread::~completion_thread() {
  stop_within(std::chrono::seconds{1});
}

void completion_thread::push(std::shared_ptr<actors::batch_state> ended) {
  {
    std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::move(ended));
  }
  state_->wake.notify_one();
}

void completion_thread::run(const std::shared_ptr<shared>& state) {
  ::pthread_setname_np(::pthread_self(), "completions");
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->wake.wait(lock, [&] { return state->stop || state->notices || !state->queue.empty(); });
    if (state->queue.empty() && !state->notices)
      break;
    std::shared_ptr<actors::batch_state> batch;
    if (!state->queue.empty()) {
      batch = std::move(state->queue.front());
      state->queue.pop_front();
    }
    const bool notices = std::exchange(state->notices, false);
    lock.unlock();
    if (batch)
      guarded([&] { std::exchange(batch->on_done, nullptr)(); });
    batch.reset();
    bool more = notices;
    if (notices)
      guarded([&] { more = state->take_notice(); });
    lock.lock();
    state->notices = state->notices || more;
  }
  state->ended = true;
  state->over.notify_all();
}

void completion_thread::notices_came() {
  {
    std::lock_guard lock(state_->mutex);
    state_->notices = true;
  }
  state_->wake.notify_one();
}

bool completion_thread::stop_within(base::duration patience) {
  if (!thread_.joinable())
    return true;
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->wake.notify_one();
  const bool ended = state_->over.wait_for(lock, patience, [&] { return state_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
  return ended;
}

} // namespace actor_rdma::detail
