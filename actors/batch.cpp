// SPDX-License-Identifier: Apache-2.0
// Publication of results and the waiter's futex.
#include "actors/batch.hpp"

#include <algorithm>
#include <climits>
#include <ctime>
#include <utility>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace actor_rdma::actors {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

long futex(const std::atomic<std::uint32_t>& word, int op, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, op, value, timeout, nullptr, 0);
}

/// Spinning longer than a wake-up costs would only take the core from the lane that is to finish the batch.
/// With more transfers than this ahead it would: then the waiter sleeps at once.
constexpr std::uint32_t worth_spinning = 8;
constexpr int spin_rounds = 200;
constexpr int pauses_per_round = 16;

} // namespace

batch_state::batch_state(std::shared_ptr<const remote_memory> target, std::size_t count)
    : target_(std::move(target)), count_(count), items_(std::make_unique<transfer[]>(count)),
      remaining_(static_cast<std::uint32_t>(count)) {}

transfer_result batch_state::result(std::size_t index) const noexcept {
  const auto& item = items_[index];
  transfer_result r;
  r.status = item.status.load(std::memory_order_acquire);
  r.bytes = item.done.load(std::memory_order_relaxed);
  if (r.status != transfer_status::pending) {
    r.cause = item.cause;
    r.late = item.late;
    r.started = item.cut > 0;
    r.remote_fence_unconfirmed = item.unconfirmed;
  }
  return r;
}

std::optional<transfer_receipt> batch_state::receipt(std::size_t index) const {
  if (!receipts_ || items_[index].status.load(std::memory_order_acquire) == transfer_status::pending)
    return std::nullopt;
  return receipts_->of(index, submitted);
}

notice_result batch_state::notice() const noexcept {
  notice_result r;
  r.status = notice_status_.load(std::memory_order_acquire);
  if (r.status != notice_status::none && r.status != notice_status::pending)
    r.cause = notice_cause_;
  return r;
}

bool batch_state::wait_for(base::duration timeout) const {
  for (int round = 0; round < spin_rounds && remaining_.load(std::memory_order_relaxed) <= worth_spinning;
       ++round) {
    if (done())
      return true;
    for (int i = 0; i < pauses_per_round; ++i)
      __builtin_ia32_pause();
  }
  const auto now = base::mono_clock::now();
  const auto until = timeout > base::time_point::max() - now ? base::time_point::max() : now + timeout;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool all = false;
  for (;;) {
    const auto left = remaining_.load(std::memory_order_seq_cst);
    if (left == 0) {
      all = true;
      break;
    }
    const auto wait = until - base::mono_clock::now();
    if (wait <= base::duration::zero())
      break;
    const auto bounded = std::min<base::duration>(wait, std::chrono::hours{1});
    const timespec ts{static_cast<time_t>(bounded.count() / 1'000'000'000),
                      static_cast<long>(bounded.count() % 1'000'000'000)};
    futex(remaining_, FUTEX_WAIT_PRIVATE, left, &ts);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return all;
}

void batch_state::flush() noexcept {
  const auto n = std::exchange(unflushed_, 0u);
  // A waiter sleeps on any value but 0, so only the step to 0 needs to look for one. seq_cst pairs with the
  // waiter's: either it sees 0 or we see it.
  if (n != 0 && remaining_.fetch_sub(n, std::memory_order_seq_cst) == n &&
      sleepers_.load(std::memory_order_seq_cst) != 0)
    futex(remaining_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

} // namespace actor_rdma::actors
