// SPDX-License-Identifier: Apache-2.0
//
// The responder's half of a request. It runs on the requester's thread, but it decides as the responder's
// hardware would: by the queue pair's state, the packet sequence number, the key, the range and the rights,
// at the moment when the request arrives. A queue pair executing its own work and a delayed packet both come
// through here.
#pragma once

#include "verbs/soft/hazard.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/routing.hpp"
#include "verbs/soft/tables.hpp"
#include "verbs/soft/transfer.hpp"

#include <cstdint>
#include <span>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class runtime;

/// Numbers of packets are 24 bits wide and wrap.
inline constexpr std::uint32_t psn_mask = 0xffffff;

/// The responder's queue pair as the requester resolved it. A later life of the same slot has another
/// generation.
struct responder {
  std::uint32_t qp_index = 0;
  std::uint64_t generation = 0;
  std::uint32_t device = 0;
  std::uint32_t device_generation = 0;
  std::uint32_t process = 0;
  std::uint32_t pd = 0;
  route way;                       ///< that it was found by
  std::uint32_t address_epoch = 0; ///< of its device at that time
};

/// Finds the queue pair `qpn` at the end of the way, if it is connected to us and ready to respond.
[[nodiscard]] bool resolve(const runtime& rt, const route& way, std::uint32_t qpn, std::uint32_t own_qpn,
                           responder& out) noexcept;
/// Whether a packet from our queue pair would reach the responder's port now: both links up, and of bonds the
/// members that the two queue pairs use, device and process there.
[[nodiscard]] bool is_wire_open(const runtime& rt, std::uint32_t own_device, std::uint32_t own_qp_index,
                                const responder& to) noexcept;

struct request {
  bool is_read = false;      // something comes back
  bool moves_payload = true; // not in null mode
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t psn = 0;
  std::uint32_t packets = 1;
  std::uint32_t path_mtu = 4096;
  std::uint32_t port_mtu = 4096; ///< of the requester's port
  std::uint32_t reads_ahead = 0; ///< READs and atomics that this one, if it is one, found under way
};

enum class verdict : std::uint8_t {
  executed,
  unfinished,      ///< the copy budget is used up: ask again
  asked,           ///< the responder's process has to do it: ask again later
  not_ready,       ///< no receive is posted: a receiver-not-ready answer
  lost,            ///< nobody there, or not in a state to answer: no answer comes
  invalid_request, ///< refused: the operation is not allowed on this queue pair
  access_error,    ///< refused: key, range or rights
  operation_error  ///< refused: the memory could not be reached
};
[[nodiscard]] ibv_wc_status status_of(verdict refusal) noexcept;

/// The last region that a queue pair spoke to: what a key means and the way there need not be found again.
/// Valid as long as the region's state word and the mappings' epoch are what they were.
struct region_cache {
  std::uint32_t rkey = 0;
  std::uint32_t index = 0;
  std::uint64_t state = 0;
  std::uint64_t epoch = 0;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0; // none if the region belongs to another protection domain
  bool has_way = false;
  reachable where;

  void choose(const layout::tables& t, std::uint32_t key) noexcept {
    if (rkey == key)
      return;
    *this = {};
    rkey = key;
    index = index_of_key(t, key);
  }
};

/// Executes the request, beginning at `done` bytes. A refusal also moves the responder's queue pair to ERR.
[[nodiscard]] verdict serve(runtime& rt, execution& at_work, const responder& to, const request& what,
                            std::span<const ibv_sge> local, region_cache& cache, std::uint64_t& done,
                            copy_budget& budget);

/// What a request that takes a receive carries besides. A SEND, or with `is_write` a WRITE with immediate
/// data.
struct message {
  bool is_write = false;
  bool has_imm = false;
  bool is_solicited = false;
  std::uint32_t imm_data = 0; // as it travels
  std::uint32_t src_qpn = 0;
};

/// An atomic operation on 8 bytes.
struct atomic_operation {
  bool is_swap = false; // compare and swap, else fetch and add
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
};

/// As serve() for an atomic, which answers with what was there before. Atomic against every requester and the
/// owner's own instructions: memory that this process cannot reach with instructions of its own, as its own
/// or by a mapping, is changed by the owner's engine, which the requester asks. Executed once, however often
/// it comes: the responder keeps its last answers.
[[nodiscard]] verdict serve_atomic(runtime& rt, execution& at_work, const responder& to, const request& what,
                                   const atomic_operation& operation, const ibv_sge& local,
                                   region_cache& cache);

/// By the owner: executes the atomic that lies in the mailbox of one of its queue pairs, if there is one.
void answer_atomic(runtime& rt, std::uint32_t qp_index);

/// As serve() for a request that takes a receive: claims one, places the payload in it, and delivers its
/// completion to the owner's list. `receives` caches the region of the last receive.
[[nodiscard]] verdict serve_message(runtime& rt, execution& at_work, const responder& to, const request& what,
                                    const message& with, std::span<const ibv_sge> local, region_cache& cache,
                                    region_cache& receives, std::uint64_t& done, copy_budget& budget);

} // namespace actor_rdma::verbs::soft
