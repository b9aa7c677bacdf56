// SPDX-License-Identifier: Apache-2.0
//
// The owner's half of a receive queue, of one queue pair or of a shared one: which slots are free, posting,
// and taking receives back. What requesters of all processes do with it is in receive_table.hpp.
#pragma once

#include "verbs/soft/receive_table.hpp"
#include "verbs/soft/runtime.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class receive_queue {
public:
  explicit receive_queue(runtime& rt) : rt_{rt} {}
  /// Does not close it: what outlived a forced close with a stopped process inside is never given away.
  ~receive_queue() = default;
  receive_queue(const receive_queue&) = delete;
  receive_queue& operator=(const receive_queue&) = delete;

  /// Takes the room in the tables. False when there is none.
  [[nodiscard]] bool open(std::uint32_t wrs, std::uint32_t sges, std::uint32_t pd);
  [[nodiscard]] bool is_open() const noexcept { return unit_ != 0; }
  /// The first unit, by which requesters find it.
  [[nodiscard]] std::uint32_t unit() const noexcept { return unit_; }
  /// Gives the room back. Nobody may be at work on it any more.
  void close() noexcept;

  /// `errno` values: EINVAL for too many pieces, ENOMEM for a full queue.
  [[nodiscard]] int post(const ibv_recv_wr& wr);
  /// The completion of a receive was polled, or will never be written.
  void release(std::uint32_t slot);

  /// Takes back what is posted and, if `also_claimed`, what a queue pair claimed and did not deliver; oldest
  /// first. Their states are then `delivered`, and each is to be released. What is `done` is among them only
  /// if its claimer never delivered it, so the lists of arrivals must have been taken before.
  struct taken {
    std::uint32_t ticket;
    std::uint32_t slot;
    bool is_done; // with its result
  };
  [[nodiscard]] std::vector<taken> take_back(std::uint32_t qp_index, bool also_posted, bool also_claimed);
  /// Frees what a queue pair claimed and what was delivered for it, or everything, whatever became of it.
  /// Their completions are gone.
  void reclaim(std::uint32_t qp_index, bool everything);
  [[nodiscard]] layout::receive_slot& operator[](std::uint32_t slot) const noexcept {
    return slot_at(rt_.tables(), slot);
  }

private:
  runtime& rt_;
  receive_shape shape_;
  std::uint32_t sges_ = 0;
  std::uint32_t unit_ = 0;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
};

} // namespace actor_rdma::verbs::soft
