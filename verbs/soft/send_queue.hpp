// SPDX-License-Identifier: Apache-2.0
//
// The send queue of a queue pair: a ring of work requests, copied when they are posted, and the counters that
// move over it: posted >= sent >= landed >= done >= released. Sent: it left, or has its place on the wire.
// Landed: the responder did it or refused it. Done: its completion was written, or it needed none. Released:
// a completion that covers it was polled; until then its slot is taken, which is how selective signalling
// fills a queue.
#pragma once

#include "verbs/soft/layout.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

inline constexpr std::uint32_t max_sges = 4;
inline constexpr std::uint32_t max_inline_bytes = 512;
inline constexpr std::uint32_t max_message_bytes = 1U << 30;

/// Two cache lines: what every work request needs is in the first, times and further pieces are in the
/// second.
struct alignas(64) send_slot {
  std::uint64_t wr_id;
  std::uint64_t remote_addr;
  std::uint32_t rkey;
  std::uint32_t length;
  std::uint32_t psn;
  std::uint32_t packets;
  bool is_read : 1; // or an atomic: something comes back
  bool is_atomic : 1;
  bool takes_receive : 1; // of the peer
  bool is_inline : 1;
  bool is_signaled : 1;
  bool is_fenced : 1;
  bool is_solicited : 1;
  bool is_packet : 1;  // on the wire as a packet of its own, which lands whatever becomes of this queue
  std::uint8_t opcode; // ibv_wr_opcode
  std::uint8_t num_sge;
  std::uint8_t status; // ibv_wc_status
  union {
    std::uint32_t imm_data;
    std::uint32_t reads_ahead; // of a READ or atomic that left: how many were under way
  };
  ibv_sge sge[max_sges];
  nanos left_at; // when the acknowledge timer begins; until it leaves, when it was posted
  nanos land_at;
  nanos done_at;
};
static_assert(sizeof(send_slot) == 128 && offsetof(send_slot, sge) + sizeof(ibv_sge) <= 64);

/// IBA: 4.096 us * 2^timeout, and 0 is no timer.
[[nodiscard]] constexpr nanos ack_timeout(std::uint8_t timeout) noexcept {
  return timeout == 0 ? never : nanos{4096} << timeout;
}

/// What the last local key meant. Valid as long as the region's state word is what it was.
struct local_region {
  const std::atomic<std::uint64_t>* state = nullptr;
  std::uint64_t value = 0;
  std::uint32_t lkey = 0;
  std::uint32_t access = 0;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
};

class send_ring {
public:
  void allocate(std::uint32_t wrs, std::uint32_t inline_bytes) {
    const auto size = std::bit_ceil(wrs);
    mask_ = size - 1;
    inline_bytes_ = inline_bytes;
    slots_ = std::make_unique_for_overwrite<send_slot[]>(size);
    if (inline_bytes != 0)
      inline_data_ = std::make_unique_for_overwrite<std::byte[]>(std::size_t{size} * inline_bytes);
  }
  [[nodiscard]] send_slot& operator[](std::uint64_t index) noexcept { return slots_[index & mask_]; }
  [[nodiscard]] std::byte* inline_data(std::uint64_t index) noexcept {
    return inline_data_.get() + (index & mask_) * inline_bytes_;
  }

private:
  std::uint64_t mask_ = 0;
  std::size_t inline_bytes_ = 0;
  std::unique_ptr<send_slot[]> slots_;
  std::unique_ptr<std::byte[]> inline_data_;
};

} // namespace actor_rdma::verbs::soft
