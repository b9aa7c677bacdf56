// SPDX-License-Identifier: Apache-2.0
// The public C++ API: the only header that an embedding program includes. No CAF and no verbs types.
//
// Order: transfers, and the slices they are cut into, are unordered, also within one batch and for the same
// bytes. Source and destination of an open transfer must not be changed by either side, because slices may be
// issued again on another rail. Fork: a child must not use a transport of its parent; every call there
// returns reason::unsupported. Threads: every function may be called from any thread, several at once, unless
// it says otherwise.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "observe/events.hpp"
#include "observe/notice.hpp"
#include "observe/snapshot.hpp"
#include "observe/transfer.hpp"
#include "transport/options.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace actor_rdma {

class transport;
namespace actors {
class batch_state;
}

/// Registered memory. A handle: copies name the same buffer.
class buffer {
public:
  std::uint64_t id() const noexcept { return id_; }
  void* addr() const noexcept { return addr_; }
  std::size_t length() const noexcept { return length_; }

private:
  friend class transport;
  std::uint64_t id_ = 0;
  void* addr_ = nullptr;
  std::size_t length_ = 0;
};

/// A buffer that a peer publishes.
struct published_buffer {
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  bool writable = true;
};

/// What deregister does with transfers that still use the buffer.
enum class deregister_policy : std::uint8_t {
  quiesce, ///< cancel them, wait until their WRs are fenced, then deregister
  refuse,  ///< return reason::busy
};

/// The memory of one peer, by its address. It follows the peer: after a restart of the peer it names the new
/// incarnation's memory, and transfers of the old one have failed.
class segment {
public:
  segment() = default;
  /// The peer's published buffers as of now; empty while it is not connected.
  std::vector<published_buffer> buffers() const;
  /// The incarnation whose memory transfers would address now; 0 while the peer is not connected.
  std::uint64_t incarnation() const noexcept;
  const std::string& address() const noexcept;
  explicit operator bool() const noexcept { return impl_ != nullptr; }

private:
  friend class transport;
  struct impl;
  std::shared_ptr<impl> impl_;
};

struct submit_options {
  /// For the whole life of each transfer of the batch: queued, connecting, posted or retrying. `no_deadline`
  /// must be asked for; zero means the transport's default.
  base::duration deadline{0};
  /// Called once, on the transport's completion thread, when every transfer of the batch has ended, and its
  /// notice, if it has one, is settled. It may submit and wait for nothing.
  std::function<void()> on_done;
  /// Sent to the peer's program when all transfers of the batch have completed and their data is in the
  /// peer's host memory, whatever rails it took; else it is withheld. The peer gets it once. It shares the
  /// batch's deadline. Refused with reason::unsupported when the peer's version does not take notices.
  std::optional<actor_rdma::notice> notice;
  /// The caller's name for the batch, which every event has that is about it alone: a WR of it that failed,
  /// slices issued again, a batch that is stuck, or ended badly, its notice. 0: the transport gives it a
  /// number.
  std::uint64_t trace = 0;
  /// Keep what batch::receipt() tells: about 600 bytes per transfer, and some of the lane's time.
  bool receipts = false;
  static constexpr base::duration no_deadline = base::duration::max();
};

/// Transfers submitted together. Destroying the handle does not cancel them; memory is released when they
/// have ended.
class batch {
public:
  batch() = default;
  std::size_t size() const noexcept;
  /// What events call it: submit_options::trace, or the transport's number.
  std::uint64_t trace() const noexcept;
  /// Two acquire loads. Stable once it is not `pending`.
  transfer_result result(std::size_t index) const noexcept;
  /// Which way the transfer went. Nothing while it is pending, or when the batch was submitted without
  /// `receipts`.
  std::optional<transfer_receipt> receipt(std::size_t index) const;
  /// How the batch's notice ended, or `pending`. Any thread.
  notice_result notice() const noexcept;
  /// Every transfer has ended and the notice, if there is one, is settled.
  bool done() const noexcept;
  /// Blocks the calling thread until done() or until `timeout` is over; true when it is done.
  bool wait_for(base::duration timeout) const;
  /// Transfers that have not ended stop: what is unposted never starts, what is posted is fenced. Each then
  /// has not begun (cancelled, not started), or is stopped and quiet (cancelled, started), or is complete
  /// after all; all three only when nothing of it can touch memory any more, on either side. A notice
  /// that was not sent yet never will be. Does not wait.
  void cancel();
  explicit operator bool() const noexcept { return impl_ != nullptr; }

private:
  friend class transport;
  struct impl;
  std::shared_ptr<impl> impl_;
};

/// What shutdown could not release.
struct shutdown_report {
  bool clean = true;
  std::vector<std::string> quarantined; ///< "qp node-a/soft0>node-b/soft0#1: destroy returned EBUSY"
};

class transport {
public:
  /// Opens the devices, starts the lanes and, if asked to, listens. Bad options are refused by name.
  static base::expected<std::unique_ptr<transport>> create(const options& opts);
  /// shutdown() with the configured time-out.
  ~transport();
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;

  /// Address that peers dial; empty if it does not listen.
  const std::string& address() const noexcept;
  const std::string& name() const noexcept;
  std::uint64_t incarnation() const noexcept;

  /// Registers memory for local use and (if `publish`) for peers, with every device that can take it; those
  /// that cannot are tried again. An error: none can. Blocks while the pages are pinned.
  base::expected<buffer> register_memory(void* addr, std::size_t length, bool publish = true);
  /// Returns once no WR of ours can touch the buffer, and peers' keys for it are dead. On an error the memory
  /// is still registered and must not be freed.
  base::expected<void> deregister_memory(const buffer& what,
                                         deregister_policy policy = deregister_policy::quiesce);

  /// Connects to the node at `address` and waits for its published memory. A refusal carries the peer's own
  /// words.
  base::expected<segment> import_segment(const std::string& address, base::duration timeout);

  /// Copies the requests and hands them over. Every request must lie within one local buffer and one buffer
  /// of the segment, else nothing is submitted. `would_block` only for too many open batches.
  base::expected<batch> submit(const segment& target, std::span<const transfer_request> requests,
                               submit_options opts = {});

  /// Sends a notice by itself, behind nothing. The batch has no transfers; it tells what became of the
  /// notice. `how.notice` is not used. Notices to one peer are sent in the order in which they became ready.
  base::expected<batch> notify(const segment& target, notice what, submit_options how = {});
  /// The oldest notice that has arrived, if there is one. Any thread, does not block. Still works after
  /// shutdown, for what had arrived before it. Room in the inbox is room for the senders: poll regularly, or
  /// use options::on_notice.
  std::optional<received_notice> poll_notice();

  /// Asks every actor; those that do not answer within `timeout` are named as silent.
  std::vector<observe::actor_snapshot> snapshot(base::duration timeout = std::chrono::milliseconds{
                                                    200}) const;

  /// Ends all transfers (cancelled), tells the peers, releases everything. Always returns within `timeout`.
  /// If something could not be released, the transport's threads, and with queue pairs left its connections
  /// and its listening address too, stay until the process ends: peers must not take it for gone.
  shutdown_report shutdown(base::duration timeout);

private:
  struct impl;
  explicit transport(std::unique_ptr<impl> state);
  batch make_handle(const segment& target, std::shared_ptr<actors::batch_state> state) const;
  std::unique_ptr<impl> impl_;
};

/// Page-aligned memory that the software NIC reaches from other processes without a system call. For tests,
/// demos and benchmarks; real devices take any memory. nullptr when it cannot be had.
void* allocate_shared_memory(std::size_t length) noexcept;
void free_shared_memory(void* addr, std::size_t length) noexcept;

} // namespace actor_rdma
