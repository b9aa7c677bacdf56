// SPDX-License-Identifier: Apache-2.0
// Putting published entries together, and finding ranges.
#include "actors/remote_memory.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::actors {

namespace {

constexpr std::uint64_t page_bytes = 4096;

/// Whether the entry goes on where the range ends, as its next chunk.
bool continues(const remote_range& range, std::uint64_t last_chunk_bytes,
               const bootstrap::remote_buffer& entry) noexcept {
  const auto first = range.chunk_bytes;
  return entry.id == range.id && entry.addr == range.addr + range.length && last_chunk_bytes == first &&
         entry.length <= first && entry.writable == range.writable && entry.rkeys.size() == range.devices;
}

} // namespace

std::optional<std::size_t> remote_memory::find(std::uint64_t at, std::uint64_t bytes,
                                               std::size_t last) const noexcept {
  if (last < ranges.size() && ranges[last].holds(at, bytes))
    return last;
  auto i = static_cast<std::size_t>(
      std::upper_bound(ranges.begin(), ranges.end(), at,
                       [](std::uint64_t a, const remote_range& r) { return a < r.addr; }) -
      ranges.begin());
  while (i-- > 0) // ranges may overlap, so an earlier one may be the longer one
    if (ranges[i].holds(at, bytes))
      return i;
  return std::nullopt;
}

std::shared_ptr<const remote_memory>
make_remote_memory(bootstrap::incarnation owner, bootstrap::segment published, std::uint64_t features) {
  auto memory = std::make_shared<remote_memory>();
  memory->owner = owner;
  memory->features = features;
  memory->published = std::move(published);
  auto& entries = memory->published.buffers;
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.id != b.id ? a.id < b.id : a.addr < b.addr; });
  std::uint64_t last_chunk_bytes = 0;
  for (const auto& entry : entries) {
    if (memory->ranges.empty() || !continues(memory->ranges.back(), last_chunk_bytes, entry)) {
      remote_range r;
      r.addr = entry.addr;
      r.chunk_bytes = entry.length;
      r.id = entry.id;
      r.writable = entry.writable;
      r.devices = entry.rkeys.size();
      memory->ranges.push_back(std::move(r));
    }
    auto& range = memory->ranges.back();
    range.length += entry.length;
    range.rkeys.insert(range.rkeys.end(), entry.rkeys.begin(), entry.rkeys.end());
    last_chunk_bytes = entry.length;
  }
  std::sort(memory->ranges.begin(), memory->ranges.end(),
            [](const auto& a, const auto& b) { return a.addr < b.addr; });
  return memory;
}

std::uint64_t chunk_bytes_for(std::uint64_t length, const std::vector<std::uint64_t>& limits) noexcept {
  auto most = UINT64_MAX;
  for (const auto limit : limits)
    if (limit != 0)
      most = std::min(most, limit);
  if (length <= most)
    return length;
  return most < page_bytes ? most : most / page_bytes * page_bytes;
}

std::uint64_t smaller_chunk_bytes(std::uint64_t chunk_bytes, std::uint64_t length, std::uint64_t least,
                                  std::size_t most_chunks) noexcept {
  if (chunk_bytes <= least)
    return 0;
  const auto half = (chunk_bytes / 2 + page_bytes - 1) / page_bytes * page_bytes;
  const auto next = std::max(half, least);
  return next >= chunk_bytes || (length - 1) / next + 1 > most_chunks ? 0 : next;
}

} // namespace actor_rdma::actors
