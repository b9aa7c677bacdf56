// SPDX-License-Identifier: Apache-2.0
//
// Choosing members.
#include "verbs/soft/bond.hpp"

#include "verbs/soft/runtime.hpp"

#include <algorithm>
#include <array>

namespace actor_rdma::verbs::soft {

void join_bond(layout::tables& t, std::uint32_t device, std::uint32_t qp_index) noexcept {
  const auto turn = t.devices[device].bond_turns.fetch_add(1, std::memory_order_relaxed);
  t.bond_turns[qp_index].store(turn, std::memory_order_relaxed);
}

std::uint32_t member_of(const layout::tables& t, std::uint32_t device, std::uint32_t qp_index,
                        nanos now) noexcept {
  const auto& d = t.devices[device];
  const auto count = std::min(d.bond_members.load(std::memory_order_relaxed), layout::max_bond_members);
  if (count <= 1)
    return 0;
  const auto turn = t.bond_turns[qp_index].load(std::memory_order_relaxed);
  const auto usual = turn % count;
  const auto& wire = d.wires[usual];
  if (wire.is_down.load(std::memory_order_acquire) == 0 ||
      now < wire.leaves_at.load(std::memory_order_relaxed))
    return usual;
  std::array<std::uint32_t, layout::max_bond_members> up{};
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < count; ++i)
    if (d.wires[i].is_down.load(std::memory_order_relaxed) == 0)
      up[found++] = i;
  return found == 0 ? usual : up[turn / count % found];
}

bool is_member_up(const runtime& rt, std::uint32_t device, std::uint32_t qp_index) noexcept {
  const auto& t = rt.tables();
  const auto& d = t.devices[device];
  if (d.bond_members.load(std::memory_order_relaxed) <= 1)
    return true;
  return d.wires[member_of(t, device, qp_index, rt.now())].is_down.load(std::memory_order_relaxed) == 0;
}

way_end end_of(layout::tables& t, std::uint32_t device, std::uint32_t qp_index, nanos now) noexcept {
  auto& d = t.devices[device];
  const auto host = d.memory_of.load(std::memory_order_relaxed) % layout::max_devices;
  return {d.wires[member_of(t, device, qp_index, now)], t.devices[host].memory};
}

} // namespace actor_rdma::verbs::soft
