// SPDX-License-Identifier: Apache-2.0
// Regions of one buffer on one device, registered and taken back. For hundreds of GiB that takes minutes, and
// the device's other calls, by which queue pairs are made again, stand in the same queue. So each slow call
// sees to one region, and what waits comes in between.
#include "actors/node.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

/// `step` blocks, and is called until it is true; then `done` on the lane. One that throws is over.
void node::in_steps(std::size_t device, std::function<bool()> step, std::function<void()> done) {
  struct work {
    std::function<bool()> step;
    bool is_over = true;
  };
  auto w = std::make_shared<work>(work{std::move(step)});
  env().run_slow(
      static_cast<std::uint32_t>(device), [w] { w->is_over = w->step(); },
      [self = shared(this), device, w, done = std::move(done)] {
        const bool goes_on =
            !w->is_over && self->guarded([&] { self->in_steps(device, std::move(w->step), done); });
        if (!goes_on)
          self->guarded(done);
      });
}

/// The next region of result.chunk_bytes, or of fewer when there is no room for those: an IOMMU has as many
/// mappings as it has, and they are of limited length. At the end, which is true, the result has the keys of
/// all, or there are no regions and it says why not. Of a device that is lost there are none, and that is no
/// failure: it is registered there when the device is back.
bool node::register_next(const open_device& on, const local_buffer& what, buffer_part& part,
                         registration& result) {
  if (on.ctx.is_gone() || what.closing)
    return true; // its QPs go first; or all of it is taken back
  if (result.failure.why != base::reason::none)
    return register_failed(what, part, result);
  if (result.first_tried == 0) {
    result.first_tried = result.chunk_bytes;
    part.regions.clear(); // they were taken back
  }
  const chunked_range in{what.addr, what.length, result.chunk_bytes};
  const auto chunk = part.regions.size();
  const auto from = in.addr + chunk * in.chunk_bytes;
  const auto length = std::min(in.chunk_bytes, in.addr + in.length - from);
  const int access =
      IBV_ACCESS_LOCAL_WRITE | (what.published ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0);
  auto made = verbs::memory_region::reg(on.pd, reinterpret_cast<void*>(from), length, access);
  if (!made) {
    if (on.ctx.is_gone())
      return true;
    result.failure = made.error();
    result.failure.what += fmt::format(" (region {} of {}, {} bytes from offset {})", chunk + 1, in.chunks(),
                                       length, from - in.addr);
    return register_failed(what, part, result);
  }
  part.regions.push_back(std::move(*made));
  if (part.regions.size() < in.chunks())
    return false;
  for (const auto& region : part.regions) {
    result.lkeys.push_back(region.lkey());
    result.rkeys.push_back(region.rkey());
  }
  return true;
}

/// Takes back the last one that was made, and begins again with smaller ones if that may help.
bool node::register_failed(const local_buffer& what, buffer_part& part, registration& result) {
  if (!part.regions.empty()) {
    if (!part.regions.back().destroy())
      return true; // it goes with the rest before the next try
    part.regions.pop_back();
    return false;
  }
  if (result.least == 0 || result.failure.sys_errno != ENOMEM)
    return true;
  if (const auto next = smaller_chunk_bytes(result.chunk_bytes, what.length, result.least, max_chunks)) {
    result.failure = base::error{base::reason::none};
    result.chunk_bytes = next;
    return false;
  }
  if (result.chunk_bytes < result.first_tried)
    result.failure.what += fmt::format(", nor in regions of {} bytes", result.first_tried);
  return true;
}

/// Of one that is gone already nothing is left to do.
bool node::take_back_next(buffer_part& part, std::size_t& next, base::error& why) {
  if (next < part.regions.size())
    if (auto gone = part.regions[next++].destroy(); !gone)
      why = gone.error();
  return next >= part.regions.size();
}

} // namespace actor_rdma::actors
