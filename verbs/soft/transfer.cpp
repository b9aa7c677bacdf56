// SPDX-License-Identifier: Apache-2.0
//
// The copies.
#include "verbs/soft/transfer.hpp"

#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>

namespace actor_rdma::verbs::soft {

namespace {

moved from_errno(int error) noexcept {
  switch (error) {
  case ESRCH: return moved::no_process;
  case EPERM:
  case EACCES: return moved::no_permission;
  default: return moved::fault;
  }
}

moved move_piece(const move_order& order, std::byte* local, std::uint64_t at, std::uint64_t n) noexcept {
  if (order.where.way != tier::system_call) {
    std::byte* const remote = order.where.base + order.remote_offset + at;
    if (order.to_local)
      std::memmove(local, remote, n);
    else
      std::memmove(remote, local, n);
    return moved::all;
  }
  const iovec here{local, n};
  const iovec there{reinterpret_cast<void*>(order.remote_addr + at), n};
  const auto got = order.to_local ? ::process_vm_readv(order.where.pid, &here, 1, &there, 1, 0)
                                  : ::process_vm_writev(order.where.pid, &here, 1, &there, 1, 0);
  if (got == static_cast<ssize_t>(n))
    return moved::all;
  return from_errno(got < 0 ? errno : EFAULT);
}

} // namespace

bool permission::holds() const noexcept {
  const auto word = qp_word->load(std::memory_order_seq_cst);
  return qp_generation == soft::qp_generation(word) && qp_responds(word) &&
         mr_state->load(std::memory_order_seq_cst) == mr_value;
}

moved move_bytes(const move_order& order, const permission& may, std::uint64_t& done,
                 copy_budget& budget) noexcept {
  std::uint64_t skip = done;
  bool first = true;
  for (const auto& sge : order.local) {
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    while (skip < sge.length) {
      if (done == order.length)
        return moved::all;
      if (budget == 0)
        return moved::some;
      if (!first && !may.holds())
        return moved::revoked;
      first = false;
      const auto n = std::min({sge.length - skip, order.length - done, piece_bytes, std::uint64_t{budget}});
      if (const auto m = move_piece(order, reinterpret_cast<std::byte*>(sge.addr) + skip, done, n);
          m != moved::all)
        return m;
      done += n;
      skip += n;
      budget -= n;
    }
    skip = 0;
  }
  return moved::all;
}

} // namespace actor_rdma::verbs::soft
