// SPDX-License-Identifier: Apache-2.0
//
// The lock-free steps.
#include "verbs/soft/receive_table.hpp"

#include "verbs/soft/segment.hpp"

#include <bit>
#include <new>

namespace actor_rdma::verbs::soft {

namespace {

constexpr std::uint32_t ring_units = sizeof(layout::receive_ring) / sizeof(layout::receive_unit);
constexpr std::uint32_t places_per_unit = sizeof(layout::receive_unit) / sizeof(std::uint32_t);
constexpr std::uint32_t block_count = layout::max_receive_units / layout::units_per_block;

constexpr std::uint32_t blocks_of(std::uint32_t units) noexcept {
  return (units + layout::units_per_block - 1) / layout::units_per_block;
}

std::atomic<std::uint32_t>& place(layout::tables& t, std::uint32_t queue, std::uint32_t position) noexcept {
  auto* const places = reinterpret_cast<std::atomic<std::uint32_t>*>(&t.receive_units[queue + ring_units]);
  return places[position & ring_at(t, queue).mask.load(std::memory_order_relaxed)];
}

/// Takes `count` free blocks in a row, beginning at one of them; otherwise none, and where to go on.
bool take_run(layout::tables& t, std::uint32_t first, std::uint32_t count, std::uint32_t process,
              std::uint32_t& next) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t nobody = 0;
    auto& owner = t.block_owners[first + i];
    if (owner.load(std::memory_order_relaxed) == 0 &&
        owner.compare_exchange_strong(nobody, process + 1, std::memory_order_acq_rel))
      continue;
    next = first + i + 1;
    while (i-- > 0)
      t.block_owners[first + i].store(0, std::memory_order_release);
    return false;
  }
  return true;
}

void release_blocks(layout::tables& t, std::uint32_t first, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i)
    t.block_owners[first + i].store(0, std::memory_order_release);
  auto& hint = t.head.first_free_block;
  auto seen = hint.load(std::memory_order_relaxed);
  while (first < seen && !hint.compare_exchange_weak(seen, first, std::memory_order_relaxed)) {
  }
}

std::optional<std::uint32_t> take_blocks(layout::tables& t, std::uint32_t count,
                                         std::uint32_t process) noexcept {
  // The first block is never given away: unit 0 means none everywhere.
  for (const auto begin : {t.head.first_free_block.load(std::memory_order_relaxed), 1U})
    for (auto at = begin == 0 ? 1U : begin; at + count <= block_count;) {
      std::uint32_t next = 0;
      if (take_run(t, at, count, process, next)) {
        if (at == begin)
          t.head.first_free_block.store(at + count, std::memory_order_relaxed);
        return at;
      }
      at = next;
    }
  return std::nullopt;
}

/// Moves the head by one if it is still at `position`.
void pass(layout::receive_ring& ring, std::uint32_t position) noexcept {
  ring.head.compare_exchange_strong(position, position + 1, std::memory_order_seq_cst);
}

} // namespace

receive_shape shape_of(std::uint32_t wrs, std::uint32_t sges) noexcept {
  receive_shape shape;
  shape.wrs = wrs;
  shape.ring_size = std::bit_ceil(wrs);
  shape.units_per_slot = sges > 1 ? 2 : 1;
  shape.first_slot = ring_units + (shape.ring_size + places_per_unit - 1) / places_per_unit;
  shape.units = shape.first_slot + wrs * shape.units_per_slot;
  return shape;
}

std::optional<std::uint32_t> claim_receive_queue(const segment& memory, std::uint32_t process,
                                                 const receive_shape& shape, std::uint32_t pd) {
  auto& t = memory.get();
  const auto count = blocks_of(shape.units);
  const auto block = take_blocks(t, count, process);
  if (!block)
    return std::nullopt;
  const auto first = *block * layout::units_per_block;
  if (!memory.reserve(&t.receive_units[first], shape.units * sizeof(layout::receive_unit))) {
    release_blocks(t, *block, count);
    return std::nullopt;
  }
  auto* const at = &t.receive_units[first];
  auto& ring = *new (at) layout::receive_ring{};
  ring.mask.store(shape.ring_size - 1, std::memory_order_relaxed);
  ring.pd.store(pd, std::memory_order_relaxed);
  for (auto unit = shape.first_slot; unit < shape.units; unit += shape.units_per_slot)
    new (at + unit) layout::receive_slot{};
  return first;
}

void release_receive_queue(layout::tables& t, std::uint32_t first_unit, const receive_shape& shape) noexcept {
  release_blocks(t, first_unit / layout::units_per_block, blocks_of(shape.units));
}

void post_receive(layout::tables& t, std::uint32_t queue, std::uint32_t slot) noexcept {
  auto& ring = ring_at(t, queue);
  const auto ticket = ring.tail.load(std::memory_order_relaxed);
  if (ticket - ring.head.load(std::memory_order_seq_cst) > ring.mask.load(std::memory_order_relaxed))
    pass_claimed(t, queue); // a claimer did not come to do it
  slot_at(t, slot).word.store(receive_word(ticket, 0, receive_state::posted), std::memory_order_seq_cst);
  place(t, queue, ticket).store(slot, std::memory_order_seq_cst);
  ring.tail.store(ticket + 1, std::memory_order_seq_cst);
}

void pass_claimed(layout::tables& t, std::uint32_t queue) noexcept {
  auto& ring = ring_at(t, queue);
  for (;;) {
    const auto position = ring.head.load(std::memory_order_seq_cst);
    if (position == ring.tail.load(std::memory_order_seq_cst))
      return;
    const auto slot = place(t, queue, position).load(std::memory_order_seq_cst);
    if (slot_at(t, slot).word.load(std::memory_order_seq_cst) ==
        receive_word(position, 0, receive_state::posted))
      return;
    pass(ring, position);
  }
}

std::uint32_t claim_receive(layout::tables& t, std::uint32_t queue, std::uint32_t qp_index) noexcept {
  auto& ring = ring_at(t, queue);
  for (;;) {
    const auto position = ring.head.load(std::memory_order_seq_cst);
    if (position == ring.tail.load(std::memory_order_seq_cst))
      return 0;
    const auto slot = place(t, queue, position).load(std::memory_order_seq_cst);
    // If the head has moved on, the place may hold a later receive: its ticket says so.
    auto posted = receive_word(position, 0, receive_state::posted);
    const bool is_mine = slot_at(t, slot).word.compare_exchange_strong(
        posted, receive_word(position, qp_index, receive_state::claimed), std::memory_order_seq_cst);
    pass(ring, position);
    if (is_mine)
      return slot;
  }
}

bool reached_limit(layout::tables& t, std::uint32_t queue) noexcept {
  auto& ring = ring_at(t, queue);
  auto limit = ring.limit.load(std::memory_order_seq_cst);
  while (limit != 0 && posted_receives(t, queue) < limit)
    if (ring.limit.compare_exchange_weak(limit, 0, std::memory_order_seq_cst)) {
      ring.limit_reached.store(1, std::memory_order_seq_cst);
      return true;
    }
  return false;
}

bool finish_receive(layout::receive_slot& slot, std::uint64_t claimed_word) noexcept {
  return slot.word.compare_exchange_strong(claimed_word, with_state(claimed_word, receive_state::done),
                                           std::memory_order_seq_cst);
}

void add_arrival(layout::tables& t, layout::cq_entry& cq, std::uint32_t slot) noexcept {
  auto& next = slot_at(t, slot).next;
  auto last = cq.arrived.load(std::memory_order_relaxed);
  do {
    next.store(last, std::memory_order_relaxed);
  } while (!cq.arrived.compare_exchange_weak(last, slot, std::memory_order_seq_cst));
}

std::uint32_t take_arrivals(layout::tables& t, layout::cq_entry& cq) noexcept {
  auto slot = cq.arrived.exchange(0, std::memory_order_seq_cst);
  std::uint32_t oldest = 0;
  while (slot != 0) { // turned round
    auto& next = slot_at(t, slot).next;
    const auto earlier = next.load(std::memory_order_relaxed);
    next.store(oldest, std::memory_order_relaxed);
    oldest = slot;
    slot = earlier;
  }
  return oldest;
}

} // namespace actor_rdma::verbs::soft
