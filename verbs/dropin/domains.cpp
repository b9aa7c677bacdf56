// SPDX-License-Identifier: Apache-2.0
//
// Thread domains and parent domains. The NIC allocates nothing on behalf of an application and locks per
// queue, so both only have to exist: a thread domain promises what nobody needs, and a parent domain is its
// protection domain under another handle. Allocators that it may bring are not called.
#include "verbs/dropin/extended.hpp"
#include "verbs/soft/resources.hpp"

#include <cerrno>
#include <memory>

namespace actor_rdma::verbs::dropin {

namespace {

class thread_domain : public ibv_td, public soft::owned_object {
public:
  explicit thread_domain(ibv_context* owner) : ibv_td{owner} {}
};

/// Objects made in it carry the number of the protection domain itself, so that keys of one serve the other.
class parent_domain : public soft::soft_pd {
public:
  explicit parent_domain(soft::soft_pd& base) : soft_pd(base.context, base.handle), base_{base} {
    base_.children.fetch_add(1);
  }
  ~parent_domain() override { base_.children.fetch_sub(1); }

private:
  soft::soft_pd& base_;
};

} // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) {
  if (wanted->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return soft::soft_context::of(context).own(std::make_shared<thread_domain>(context));
}

int dealloc_td(ibv_td* handle) {
  auto& td = static_cast<thread_domain&>(*handle);
  soft::soft_context::of(td.context).disown(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  constexpr std::uint32_t known =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (wanted->pd == nullptr || (wanted->comp_mask & ~known) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return soft::soft_context::of(context).own(
      std::make_shared<parent_domain>(static_cast<soft::soft_pd&>(*wanted->pd)));
}

} // namespace actor_rdma::verbs::dropin
