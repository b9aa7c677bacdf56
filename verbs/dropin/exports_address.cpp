// SPDX-License-Identifier: Apache-2.0
//
// Exported: address handles. They are checked copies of what they were made from.
#include "verbs/dropin/extended.hpp"
#include "verbs/dropin/library.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/routing.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

#include <endian.h>

using namespace actor_rdma::verbs;
using dropin::nic;

namespace {

class address_handle : public ibv_ah, public soft::owned_object {
public:
  explicit address_handle(soft::soft_pd& domain) : ibv_ah{} {
    context = domain.context;
    pd = &domain;
    domain.children.fetch_add(1);
  }
  ~address_handle() override { static_cast<soft::soft_pd*>(pd)->children.fetch_sub(1); }
};

/// 0 or errno.
int check(ibv_context* context, const ibv_ah_attr& attributes) {
  const auto* const port = soft::soft_context::of(context).device().port_entry(attributes.port_num);
  return port == nullptr ? EINVAL : soft::check_address_handle(*port, attributes);
}

/// Index of one of our own addresses, or -1.
int index_of_gid(ibv_context* context, std::uint8_t number, const ibv_gid& gid) {
  ibv_port_attr port{};
  if (verbs_get_ctx(context)->query_port(context, number, &port, sizeof port) != 0)
    return -1;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port.gid_tbl_len); ++i) {
    ibv_gid_entry entry{};
    if (nic().query_gid_ex(context, 1, i, &entry) == 0 && std::memcmp(&entry.gid, &gid, sizeof gid) == 0)
      return static_cast<int>(i);
  }
  return -1;
}

} // namespace

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* handle, ibv_ah_attr* wanted) {
  if (const int error = check(handle->context, *wanted); error != 0) {
    errno = error;
    return nullptr;
  }
  auto& pd = static_cast<soft::soft_pd&>(*handle);
  return soft::soft_context::of(pd.context).own(std::make_shared<address_handle>(pd));
}

int ibv_destroy_ah(ibv_ah* handle) {
  auto& ah = static_cast<address_handle&>(*handle);
  soft::soft_context::of(ah.context).disown(ah);
  return 0;
}

/// The way back to whoever sent what completed. -1 and errno.
int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* out) {
  *out = {};
  out->dlid = wc->slid;
  out->sl = wc->sl;
  out->src_path_bits = wc->dlid_path_bits;
  out->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0)
    return 0;
  const int index = index_of_gid(context, port, grh->dgid);
  if (index < 0) {
    errno = EINVAL;
    return -1;
  }
  const auto flow = be32toh(grh->version_tclass_flow);
  out->is_global = 1;
  out->grh.dgid = grh->sgid;
  out->grh.sgid_index = static_cast<std::uint8_t>(index);
  out->grh.flow_label = flow & 0xfffff;
  out->grh.traffic_class = static_cast<std::uint8_t>(flow >> 20);
  out->grh.hop_limit = grh->hop_limit;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  ibv_ah_attr attributes{};
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0)
    return nullptr;
  return ibv_create_ah(pd, &attributes);
}

/// The fabric has no Ethernet addresses of its own: those that a GID was derived from.
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes,
                                std::uint8_t mac[ETHERNET_LL_SIZE], std::uint16_t* vlan) {
  if (const int error = check(context, *attributes); error != 0)
    return error;
  std::memcpy(mac, &attributes->grh.dgid.raw[10], ETHERNET_LL_SIZE);
  if (vlan != nullptr)
    *vlan = 0xffff;
  return 0;
}

} // extern "C"
