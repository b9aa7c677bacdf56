// SPDX-License-Identifier: Apache-2.0
// Storage of transfers submitted together, preallocated by the submitting thread. After submit() the fields
// below "progress" belong to the peer actor that carries the batch; the submitter only reads what is
// published with release stores: the status of each transfer and the number that remain. The waiter's sleep
// is a futex on that number.
#pragma once

#include "actors/receipt.hpp"
#include "actors/remote_memory.hpp"
#include "base/time.hpp"
#include "bootstrap/messages.hpp"
#include "observe/notice.hpp"
#include "observe/transfer.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace actor_rdma::actors {

/// Keys that one thread changes while others look at them. A device that was opened again has new ones;
/// nothing is posted on it before they are here, so whoever may use a key sees the right one.
class key_table {
public:
  key_table() = default;
  key_table(std::initializer_list<std::uint32_t> keys) : keys_(keys.size()) {
    std::size_t i = 0;
    for (const auto k : keys)
      set(i++, k);
  }
  /// Before it is shared.
  void resize(std::size_t n) { keys_ = std::vector<std::atomic<std::uint32_t>>(n); }
  void assign(std::size_t n, std::uint32_t key) {
    resize(n);
    for (auto& k : keys_)
      k.store(key, std::memory_order_relaxed);
  }
  std::uint32_t operator[](std::size_t i) const noexcept { return keys_[i].load(std::memory_order_relaxed); }
  void set(std::size_t i, std::uint32_t key) noexcept { keys_[i].store(key, std::memory_order_relaxed); }

private:
  std::vector<std::atomic<std::uint32_t>> keys_;
};

/// Memory registered on our devices. Immutable but for the counters and the keys; owned by the buffer
/// registry, shared with batches.
struct local_buffer : chunked_range {
  std::uint64_t id = 0;
  bool published = true;
  std::size_t devices = 0;
  key_table lkeys;                  ///< by chunk, then by device number; 0: not registered there now
  std::vector<std::uint32_t> rkeys; ///< likewise; the node's
  std::uint32_t lkey(std::uint64_t at, std::size_t device) const noexcept {
    return lkeys[chunk_at(at) * devices + device];
  }
  std::atomic<std::uint32_t> open_batches{0}; ///< batches that may still touch it
  std::atomic<bool> closing{false};           ///< no new batch may use it
};

/// One transfer. 64 bytes, so that a deep batch costs one cache line each.
struct alignas(64) transfer {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t length = 0;
  std::uint16_t local_buffer = 0;  ///< index in batch_state::locals
  std::uint16_t remote_buffer = 0; ///< index in remote_memory::ranges
  operation op = operation::write;
  // progress
  base::reason cause = base::reason::none;
  transfer_status stop =
      transfer_status::pending; ///< how it is to end, once nothing of it is out; pending: it goes on
  bool unconfirmed = false;     ///< a remote fence it needed was not confirmed
  bool late = false;
  std::atomic<transfer_status> status{transfer_status::pending};
  std::uint16_t queued = 0; ///< slices of it that wait to be issued again
  std::uint32_t wrs = 0;    ///< WRs that could still touch memory (local fence)
  std::uint32_t fences = 0; ///< remote fences it waits for
  std::uint64_t cut = 0;    ///< bytes handed out at least once
  std::atomic<std::uint64_t> done{
      0}; ///< bytes that have a success completion; written by the peer actor only
};
static_assert(sizeof(transfer) == 64);

class batch_state {
public:
  batch_state(std::shared_ptr<const remote_memory> target, std::size_t count);

  std::span<transfer> transfers() noexcept { return {items_.get(), count_}; }
  std::span<const transfer> transfers() const noexcept { return {items_.get(), count_}; }
  std::size_t index_of(const transfer& item) const noexcept {
    return static_cast<std::size_t>(&item - items_.get());
  }
  /// nullptr when none were asked for.
  receipt_book* receipts() const noexcept { return receipts_.get(); }
  const remote_memory& target() const noexcept { return *target_; }
  /// The peer actor's, like the fields below: the same addresses, by the peer's memory as it is now.
  void retarget(std::shared_ptr<const remote_memory> now) noexcept { target_ = std::move(now); }

  /// Any thread.
  transfer_result result(std::size_t index) const noexcept;
  /// Nothing when none were asked for, or the transfer has not ended.
  std::optional<transfer_receipt> receipt(std::size_t index) const;
  notice_result notice() const noexcept;
  bool done() const noexcept { return remaining_.load(std::memory_order_acquire) == 0; }
  /// Blocks the caller: spins for a bounded time, then sleeps on a futex. True when every transfer has ended
  /// and the notice, if there is one, is settled.
  bool wait_for(base::duration timeout) const;

  // set by the submitter before the batch is handed over
  void keep_receipts() { receipts_ = std::make_unique<receipt_book>(count_); }
  void attach(std::shared_ptr<const actor_rdma::notice> what) noexcept {
    notice_status_.store(notice_status::pending, std::memory_order_relaxed);
    remaining_.fetch_add(1, std::memory_order_relaxed);
    notice_ = std::move(what);
  }
  std::vector<std::shared_ptr<local_buffer>>
      locals;              ///< the distinct ones; their open_batches count this batch
  std::uint64_t trace = 0; ///< the caller's name for it, in events
  base::time_point submitted{};
  base::time_point deadline = base::time_point::max();
  std::function<void()> on_done; ///< runs wherever `notify` of the work queue's owner takes it

  // of the peer actor
  std::uint32_t next = 0; ///< first transfer that is not fully cut
  std::uint32_t ended = 0;
  std::uint64_t serial = 0; ///< order of arrival at the peer; names the batch in messages and deadlines
  bool stopped = false;     ///< expired, cancelled or its peer died
  bool reported_stuck = false;
  bool touched = false; ///< the queue has something to tell of it
  bool held = false;    ///< the peer refused a key of it: nothing is posted until its memory was read again
  bool passed_over = false; ///< a transfer before `next` is not fully cut: no usable rail had its keys
  std::uint64_t timer = 0;  ///< deadline_id of its next deadline

  /// Publishes the end of one transfer. Its waiter hears of it at the next flush().
  void publish(transfer& item, transfer_status status) noexcept {
    item.status.store(status, std::memory_order_release);
    failed_ += status != transfer_status::completed;
    ++unflushed_;
  }
  /// How many ended in another way than completed.
  std::uint32_t failed() const noexcept { return failed_; }
  const std::shared_ptr<const actor_rdma::notice>& attached_notice() const noexcept { return notice_; }
  /// Publishes the end of the notice, once, in the same way.
  void publish_notice(notice_status how, base::reason cause) noexcept {
    notice_cause_ = cause;
    notice_status_.store(how, std::memory_order_release);
    ++unflushed_;
  }
  /// Takes what publish() ended off the count, in one step: a waiter that spins on the count would otherwise
  /// cost a cache line transfer per transfer. Wakes the waiter when nothing remains.
  void flush() noexcept;

private:
  std::shared_ptr<const remote_memory> target_;
  std::size_t count_ = 0;
  std::unique_ptr<transfer[]> items_;
  std::unique_ptr<receipt_book> receipts_;
  std::uint32_t unflushed_ = 0;
  std::uint32_t failed_ = 0;
  std::shared_ptr<const actor_rdma::notice> notice_;
  base::reason notice_cause_ = base::reason::none; ///< written before the status
  std::atomic<notice_status> notice_status_{notice_status::none};
  std::atomic<std::uint32_t> remaining_;
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

} // namespace actor_rdma::actors
