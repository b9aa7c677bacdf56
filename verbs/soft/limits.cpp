// SPDX-License-Identifier: Apache-2.0
//
// Which options a device can have.
#include "verbs/soft/limits.hpp"

#include "verbs/soft/addressing.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/shaper.hpp"

#include <fmt/format.h>

namespace actor_rdma::verbs::soft {

namespace {

struct checked_limit {
  const char* name;
  std::uint32_t device_limits::*value;
  std::uint32_t least;
};

constexpr checked_limit limits_of_objects[] = {
    {"max_qp", &device_limits::max_qp, 0},
    {"max_qp_wr", &device_limits::max_qp_wr, 1},
    {"max_sge", &device_limits::max_sge, 1},
    {"max_cq", &device_limits::max_cq, 0},
    {"max_cqe", &device_limits::max_cqe, 1},
    {"max_srq", &device_limits::max_srq, 0},
    {"max_srq_wr", &device_limits::max_srq_wr, 1},
    {"max_mr", &device_limits::max_mr, 0},
    {"max_qp_rd_atom", &device_limits::max_qp_rd_atom, 0},
    {"max_res_rd_atom", &device_limits::max_res_rd_atom, 0},
};

} // namespace

std::string check_options(const device_options& options) {
  constexpr device_limits most;
  static_assert(most.max_qp == layout::max_qps && most.max_mr == layout::max_mrs &&
                most.max_cq == layout::max_cqs);
  for (const auto& limit : limits_of_objects) {
    const auto value = options.limits.*limit.value;
    const auto greatest = most.*limit.value;
    if (value < limit.least || value > greatest)
      return fmt::format("{} is {} to {}, not {}", limit.name, limit.least, greatest, value);
  }
  if (options.limits.max_mr_size > most.max_mr_size)
    return fmt::format("max_mr_size is 0 to {}, not {}", most.max_mr_size, options.limits.max_mr_size);
  if (options.bond_members < 1 || options.bond_members > layout::max_bond_members)
    return fmt::format("bond_members is 1 to {}, not {}", layout::max_bond_members, options.bond_members);
  if (options.host_memory_gbit_s != 0 &&
      !(options.host_memory_gbit_s >= min_rate_gbit_s && options.host_memory_gbit_s <= max_rate_gbit_s))
    return fmt::format("host_memory_gbit_s is {} to {}, or 0 for as much as comes, not {}", min_rate_gbit_s,
                       max_rate_gbit_s, options.host_memory_gbit_s);
  if (options.ports < 1 || options.ports > layout::max_ports)
    return fmt::format("ports is 1 to {}, not {}", layout::max_ports, options.ports);
  if (!is_mtu(options.mtu))
    return fmt::format("mtu is 256, 512, 1024, 2048 or 4096, not {}", options.mtu);
  if (options.link_layer != IBV_LINK_LAYER_ETHERNET && options.link_layer != IBV_LINK_LAYER_INFINIBAND)
    return fmt::format("link_layer is {} (InfiniBand) or {} (Ethernet), not {}",
                       static_cast<int>(IBV_LINK_LAYER_INFINIBAND), static_cast<int>(IBV_LINK_LAYER_ETHERNET),
                       options.link_layer);
  const bool is_ib = options.link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (!is_ib && (options.lid != 0 || options.subnet_prefix != default_subnet_prefix))
    return "lid and subnet_prefix are of InfiniBand ports";
  if (options.lid != 0 && (options.lid < least_lid || options.lid > greatest_lid))
    return fmt::format("lid is {} to {}, or 0 for one that is free, not {}", least_lid, greatest_lid,
                       options.lid);
  for (const auto& row : options.gids)
    if (is_ib && row.type != IBV_GID_TYPE_IB)
      return fmt::format("GID {} has type {}, an InfiniBand port has GIDs of type IB only", row.index,
                         row.type);
  for (const auto& row : options.gids)
    if (row.index >= layout::gids_per_port || row.type > IBV_GID_TYPE_ROCE_V2)
      return fmt::format("a GID has index 0 to {} and type IB, RoCE v1 or RoCE v2, not index {}, type {}",
                         layout::gids_per_port - 1, row.index, row.type);
  return {};
}

} // namespace actor_rdma::verbs::soft
