// SPDX-License-Identifier: Apache-2.0
//
// The part of the shared tables (layout.hpp) that is about atomics, one entry per queue pair as a responder:
// what it answered, and a mailbox for those that only its own process can execute. How they are used is in
// responder_atomic.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace actor_rdma::verbs::soft::layout {

/// As many as a queue pair may have under way as a responder, so that a repeated one finds its answer.
inline constexpr std::size_t kept_answers = 16;

/// `name` says of which request: generation << 25 | packet sequence number << 1 | 1, and 0 is none.
struct atomic_answer {
  std::atomic<std::uint64_t> name;
  std::atomic<std::uint64_t> value;
};

/// `mail` is generation << 32 | packet sequence number << 8 | mail_state. The requester writes the request
/// while it says `writing`, the owner the answer while it says `asked`.
struct alignas(64) atomic_entry {
  std::array<atomic_answer, kept_answers> answers;
  alignas(64) std::atomic<std::uint64_t> mail;
  std::atomic<std::uint64_t> remote_addr;
  std::atomic<std::uint64_t> compare_add;
  std::atomic<std::uint64_t> swap;
  std::atomic<std::uint64_t> before; // what was there
  std::atomic<std::uint32_t> rkey;
  std::atomic<std::uint32_t> reads_ahead;
  std::atomic<std::uint8_t> is_swap;
  std::atomic<std::uint8_t> result; // a verdict
  std::atomic<std::uint32_t> next_answer;
};

enum class mail_state : std::uint8_t { none, writing, asked, answered };

static_assert(sizeof(atomic_entry) == 320);

} // namespace actor_rdma::verbs::soft::layout
