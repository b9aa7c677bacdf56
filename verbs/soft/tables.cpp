// SPDX-License-Identifier: Apache-2.0
//
// Claiming, freeing and numbering of slots.
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cstring>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class Entry, std::size_t N>
std::optional<std::uint32_t> claim(std::array<Entry, N>& entries, std::atomic<std::uint32_t>& cursor,
                                   std::uint32_t process) {
  for (std::size_t tries = 0; tries < N; ++tries) {
    const auto index = cursor.fetch_add(1, std::memory_order_relaxed) % N;
    std::uint32_t nobody = 0;
    if (entries[index].owner.load(std::memory_order_relaxed) == 0 &&
        entries[index].owner.compare_exchange_strong(nobody, process + 1, std::memory_order_acq_rel))
      return static_cast<std::uint32_t>(index);
  }
  return std::nullopt;
}

constexpr std::uint32_t rkey_bit = 1U << 15;
static_assert(layout::max_mrs == rkey_bit && layout::max_qps == 1U << 16);

std::uint32_t new_key(const layout::tables& t, std::uint32_t index, std::uint32_t kind) noexcept {
  const auto generation = t.mrs[index].generation.load(std::memory_order_relaxed);
  // An odd step visits all 65,536 tags before one returns.
  const auto first = mix(t.head.seed + (std::uint64_t{index} << 32 | kind));
  const auto tag = static_cast<std::uint32_t>(first + std::uint64_t{generation} * 0x9e37) & 0xffff;
  return tag << 16 | kind | (index ^ t.head.mr_scatter);
}

} // namespace

void initialise(layout::tables& t, std::uint64_t seed) noexcept {
  t.head.version = layout::version;
  t.head.bytes_low = static_cast<std::uint32_t>(sizeof t);
  t.head.seed = seed;
  t.head.qp_scatter = static_cast<std::uint32_t>(mix(seed ^ 1)) & (layout::max_qps - 1);
  t.head.mr_scatter = static_cast<std::uint32_t>(mix(seed ^ 2)) & (layout::max_mrs - 1);
  t.head.magic.store(layout::magic, std::memory_order_release);
}

std::optional<std::uint32_t> claim_queue_pair(layout::tables& t, std::uint32_t process) {
  const auto index = claim(t.qps, t.head.next_qp, process);
  if (index) {
    auto& entry = t.qps[*index];
    entry.word.store((qp_generation(entry.word.load(std::memory_order_relaxed)) + 1) << 8,
                     std::memory_order_seq_cst);
    entry.qpn.store(new_qp_number(t, *index), std::memory_order_relaxed);
    entry.signs.store(0, std::memory_order_relaxed);
    entry.receive_queue.store(0, std::memory_order_relaxed);
    entry.receiving.store(0, std::memory_order_relaxed);
  }
  return index;
}

void release_queue_pair(layout::tables& t, std::uint32_t index) noexcept {
  t.qps[index].owner.store(0, std::memory_order_release);
}

std::optional<std::uint32_t> claim_memory_region(layout::tables& t, std::uint32_t process) {
  const auto index = claim(t.mrs, t.head.next_mr, process);
  if (index)
    t.mrs[*index].generation.fetch_add(1, std::memory_order_relaxed);
  return index;
}

void release_memory_region(layout::tables& t, std::uint32_t index) noexcept {
  t.mrs[index].owner.store(0, std::memory_order_release);
}

std::optional<std::uint32_t> claim_completion_queue(layout::tables& t, std::uint32_t process) {
  const auto index = claim(t.cqs, t.head.next_cq, process);
  if (index) {
    t.cqs[*index].armed.store(0, std::memory_order_relaxed);
    t.cqs[*index].arrived.store(0, std::memory_order_relaxed);
  }
  return index;
}

void release_completion_queue(layout::tables& t, std::uint32_t index) noexcept {
  t.cqs[index].owner.store(0, std::memory_order_release);
}

std::optional<std::uint32_t> claim_device(layout::tables& t, std::uint32_t process, std::string_view name) {
  const auto free = std::find_if(t.devices.begin(), t.devices.end(), [](const layout::device_entry& d) {
    return d.used.load(std::memory_order_acquire) == 0;
  });
  if (free == t.devices.end())
    return std::nullopt;
  free->generation.fetch_add(1, std::memory_order_relaxed);
  free->process.store(process, std::memory_order_relaxed);
  free->link_seq.store(0, std::memory_order_relaxed);
  free->loss_seq.store(0, std::memory_order_relaxed);
  free->hang.store(0, std::memory_order_relaxed);
  free->delay.store(0, std::memory_order_relaxed);
  free->lid.store(0, std::memory_order_relaxed);
  for (auto& wire : free->wires) {
    wire.tx_free.store(0, std::memory_order_relaxed);
    wire.rx_free.store(0, std::memory_order_relaxed);
    wire.is_down.store(0, std::memory_order_relaxed);
  }
  free->memory.free_at.store(0, std::memory_order_relaxed);
  free->memory.fs_per_byte.store(0, std::memory_order_relaxed);
  free->bond_turns.store(0, std::memory_order_relaxed);
  free->bytes_sent.store(0, std::memory_order_relaxed);
  free->stuck_wrs.store(0, std::memory_order_relaxed);
  free->open_qps.store(0, std::memory_order_relaxed);
  free->open_mrs.store(0, std::memory_order_relaxed);
  const auto length = std::min<std::size_t>(name.size(), layout::max_name);
  std::memcpy(free->name.data(), name.data(), length);
  free->name[length] = '\0';
  const auto index = static_cast<std::uint32_t>(free - t.devices.begin());
  free->port.store(1, std::memory_order_relaxed);
  free->first_port.store(index, std::memory_order_relaxed);
  if (t.head.device_slots.load(std::memory_order_relaxed) <= index) // under the segment's lock
    t.head.device_slots.store(index + 1, std::memory_order_release);
  return index;
}

std::uint32_t device_slots(const layout::tables& t) noexcept {
  // Another process may have written nonsense into the header.
  return std::min(t.head.device_slots.load(std::memory_order_acquire), std::uint32_t{layout::max_devices});
}

void release_device(layout::tables& t, std::uint32_t index) noexcept {
  t.devices[index].used.store(0, std::memory_order_release);
}

std::string device_name(const layout::device_entry& device) {
  return device.name.data();
}

namespace {

/// Whether a thread of another process, perhaps a stopped one, is at work on a queue pair of this one.
bool is_visited(const layout::tables& t, std::uint32_t index) noexcept {
  for (const auto& process : t.processes) {
    if (&process == &t.processes[index] || process.used.load(std::memory_order_acquire) == 0)
      continue;
    for (const auto& slot : process.hazards) {
      const auto target = slot.target.load(std::memory_order_seq_cst);
      if (slot.sequence.load(std::memory_order_seq_cst) % 2 != 0 && target >> 32 != 0 &&
          t.qps[(target >> 32) - 1].owner.load(std::memory_order_acquire) == index + 1)
        return true;
    }
  }
  return false;
}

} // namespace

void release_process(layout::tables& t, std::uint32_t index) noexcept {
  // What a visitor may still write to is left to the next process that has this entry, and freed with it.
  const bool keeps_receives = is_visited(t, index);
  for (auto& device : t.devices)
    if (device.used.load(std::memory_order_acquire) != 0 &&
        device.process.load(std::memory_order_relaxed) == index)
      device.used.store(0, std::memory_order_release);
  for (auto& qp : t.qps) {
    if (qp.owner.load(std::memory_order_acquire) != index + 1)
      continue;
    qp.word.store((qp_generation(qp.word.load(std::memory_order_relaxed)) + 1) << 8,
                  std::memory_order_seq_cst);
    if (!keeps_receives)
      qp.owner.store(0, std::memory_order_release);
  }
  if (!keeps_receives) {
    for (auto& cq : t.cqs)
      if (cq.owner.load(std::memory_order_acquire) == index + 1)
        cq.owner.store(0, std::memory_order_release);
    for (auto& owner : t.block_owners)
      if (owner.load(std::memory_order_acquire) == index + 1)
        owner.store(0, std::memory_order_release);
    t.head.first_free_block.store(0, std::memory_order_relaxed);
  }
  for (auto& mr : t.mrs) {
    if (mr.owner.load(std::memory_order_acquire) != index + 1)
      continue;
    mr.state.store(0, std::memory_order_seq_cst);
    mr.owner.store(0, std::memory_order_release);
  }
  auto& process = t.processes[index];
  for (auto& slot : process.hazards) {
    slot.target.store(0, std::memory_order_relaxed);
    slot.sequence.store(0, std::memory_order_relaxed);
    slot.taken.store(0, std::memory_order_relaxed);
  }
  process.remote_errors.store(0, std::memory_order_relaxed);
  process.arrivals.store(0, std::memory_order_relaxed);
  process.generation.fetch_add(1, std::memory_order_release);
  process.used.store(0, std::memory_order_release);
}

std::uint32_t new_qp_number(const layout::tables& t, std::uint32_t index) noexcept {
  const auto generation = qp_generation(t.qps[index].word.load(std::memory_order_relaxed));
  // Never 0 in the upper byte: QP numbers 0 and 1 are special everywhere.
  const auto tag = 1 + static_cast<std::uint32_t>((mix(t.head.seed + index) % 255 + generation) % 255);
  return tag << 16 | (index ^ t.head.qp_scatter);
}

std::uint32_t new_lkey(const layout::tables& t, std::uint32_t index) noexcept {
  return new_key(t, index, 0);
}
std::uint32_t new_rkey(const layout::tables& t, std::uint32_t index) noexcept {
  return new_key(t, index, rkey_bit);
}

} // namespace actor_rdma::verbs::soft
