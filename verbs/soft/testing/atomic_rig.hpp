// SPDX-License-Identifier: Apache-2.0
//
// The pair of ends with a region of b's for atomics, which a posts.
#pragma once

#include "verbs/soft/testing/rig.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace actor_rdma::verbs::soft::testing {

inline constexpr int atomic_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;

inline std::uint64_t word_at(const end& e, std::size_t at = 0) {
  std::uint64_t value = 0;
  std::memcpy(&value, e.memory + at, sizeof value);
  return value;
}

/// What was there is written to `local` in the own buffer.
inline int post_atomic(end& e, ibv_wr_opcode opcode, const address& to, std::uint64_t remote,
                       std::uint64_t compare_add, std::uint64_t swap = 0, std::uint64_t local = 0) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(e.memory) + local, 8, e.lkey};
  ibv_send_wr wr{};
  wr.wr_id = local;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic.remote_addr = to.addr + remote;
  wr.wr.atomic.rkey = to.rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
  return e.post({&wr, 1});
}

struct atomic_rig : pair_rig {
  explicit atomic_rig(nic_mode mode, bool is_virtual = true) : pair_rig{mode, is_virtual, options()} {
    region = std::move(*memory_region::reg(b->pd, b->memory, 4096, atomic_access));
    to = b->where();
    to.rkey = region.rkey();
  }
  ~atomic_rig() { (void)region.destroy(); }
  static qp_options options() {
    qp_options o;
    o.access = atomic_access;
    return o;
  }
  int post(ibv_wr_opcode opcode, std::uint64_t remote, std::uint64_t compare_add, std::uint64_t swap = 0,
           std::uint64_t local = 0) {
    return post_atomic(*a, opcode, to, remote, compare_add, swap, local);
  }
  memory_region region;
  address to;
};

} // namespace actor_rdma::verbs::soft::testing
