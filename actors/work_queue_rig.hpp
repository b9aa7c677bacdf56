// SPDX-License-Identifier: Apache-2.0
// What tests of the work queue share: an owner, the memory of both sides, and a QP's side of it.
#pragma once

#include "actors/slice.hpp"
#include "actors/work_queue.hpp"

#include <cstddef>
#include <memory>

namespace actor_rdma::actors {

/// An owner that is told everything and does nothing: a test overrides what it is about.
class indifferent_owner : public work_queue_owner {
public:
  void batch_ended(const std::shared_ptr<batch_state>&) noexcept override {}
  void keys_refused() override {}
  void source_barred(const refusal_budget::source&, base::time_point) override {}
  void pair_avoided(const reach::pair&, base::time_point) override {}
  void pair_works(const reach::pair&) override {}

protected:
  ~indifferent_owner() = default;
};

/// One buffer of a peer's, with a key on each of its devices.
inline std::shared_ptr<const remote_memory> one_range(std::uint64_t length, std::size_t devices) {
  auto memory = std::make_shared<remote_memory>();
  memory->ranges.resize(1);
  memory->ranges[0].length = length;
  memory->ranges[0].devices = devices;
  memory->ranges[0].rkeys.assign(devices, 9);
  return memory;
}

/// One of ours, likewise.
inline std::shared_ptr<local_buffer> one_buffer(std::uint64_t length, std::size_t devices) {
  auto buffer = std::make_shared<local_buffer>();
  buffer->length = length;
  buffer->devices = devices;
  buffer->lkeys.assign(devices, 7);
  return buffer;
}

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
