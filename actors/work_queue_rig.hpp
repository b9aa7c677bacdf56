// SPDX-License-Identifier: Apache-2.0
// What tests of the work queue share: a QP's side of it.
#pragma once

#include "actors/slice.hpp"

#include <cstddef>

namespace actor_rdma::actors {

/// The slices of a posted chunk as its QP hands them over on suspicion.
inline chunk suspicion_of(chunk& posted) {
  chunk c;
  c.slot = posted.slot;
  c.generation = posted.generation;
  for (std::size_t i = 0; i < posted.count; ++i)
    c.add(again(posted.slices[i].what), wr_end::flushed);
  return c;
}

} // namespace actor_rdma::actors
