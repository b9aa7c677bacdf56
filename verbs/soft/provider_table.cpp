// SPDX-License-Identifier: Apache-2.0
//
// Thin: from libibverbs' calling conventions to the objects, with the checks that belong to neither.
#include "verbs/soft/provider_table.hpp"

#include "verbs/soft/attributes.hpp"
#include "verbs/soft/completion_queue.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/rules/ruled_verbs.hpp"
#include "verbs/soft/shared_receive_queue.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

namespace {

/// NULL and errno, as every create call reports failure.
std::nullptr_t refuse(int error) noexcept {
  errno = error;
  return nullptr;
}

/// Takes an object out of the fabric and frees it, unless others depend on it. `errno` values as the result.
template <class Object>
int destroy(Object& object) {
  auto& context = soft_context::of(object.context);
  if (context.rt().is_forked_child())
    return 0;
  if (object.dependents() != 0)
    return EBUSY;
  if (const int error = object.retire(false); error != 0)
    return error;
  context.disown(object);
  return 0;
}

// -- device and context
// ---------------------------------------------------------------------------------------------

ibv_context* open_device(ibv_device* device) {
  if (const int error = judge_open(*static_cast<soft_device*>(device)); error != 0)
    return refuse(error);
  auto* const context = static_cast<soft_device*>(device)->open();
  if (context == nullptr)
    return nullptr;
  set_data_path(*context);
  return &context->context;
}

int close_device(ibv_context* context) {
  auto& c = soft_context::of(context);
  return c.rt().is_forked_child() ? 0 : c.device().close(c);
}

int get_async_event(ibv_context* context, ibv_async_event* out) {
  const auto event = soft_context::of(context).async_events().pop();
  if (!event)
    return -1;
  *out = *event;
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  switch (subject_of(event->event_type)) {
  case event_subject::queue_pair: soft_qp::of(event->element.qp).acknowledge_async_event(); break;
  case event_subject::completion_queue: soft_cq::of(event->element.cq).async_events.acknowledge(1); break;
  case event_subject::shared_receive_queue:
    soft_srq::of(event->element.srq).async_events.acknowledge(1);
    break;
  case event_subject::device: break; // nobody waits for those
  }
}

// -- protection domain and memory
// -----------------------------------------------------------------------------------

ibv_pd* alloc_pd(ibv_context* context) {
  auto& c = soft_context::of(context);
  const auto number = c.rt().tables().head.next_pd.fetch_add(1, std::memory_order_relaxed) + 1;
  return c.own(std::make_shared<soft_pd>(context, number));
}

int dealloc_pd(ibv_pd* pd) {
  return destroy(static_cast<soft_pd&>(*pd));
}

/// Whether every page of the range is mapped. (Where a driver would pin them.)
bool is_mapped(void* addr, std::size_t length) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(addr) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(addr) + length;
  return ::msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0;
}

ibv_mr* reg_mr(ibv_pd* handle, void* addr, std::size_t length, int access) {
  auto& pd = static_cast<soft_pd&>(*handle);
  auto& c = soft_context::of(pd.context);
  constexpr int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | static_cast<int>(IBV_ACCESS_RELAXED_ORDERING);
  const bool needs_local = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (length == 0 || (access & ~known) != 0 || (needs_local && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
      reinterpret_cast<std::uintptr_t>(addr) + length < length)
    return refuse(EINVAL);
  if (length > c.device().limits().max_mr_size)
    return refuse(EINVAL);
  if (!is_mapped(addr, length))
    return refuse(EFAULT);
  auto& free_mrs = c.device().allowances().mrs;
  if (!free_mrs.take(1, c.device().limits().max_mr))
    return refuse(ENOMEM);
  const auto index = claim_memory_region(c.rt().tables(), c.rt().process_index());
  if (!index) {
    free_mrs.give(1);
    return refuse(ENOMEM);
  }
  return c.own(std::make_shared<soft_mr>(c.rt(), pd, *index, addr, length, access, c.device().index()));
}

int dereg_mr(ibv_mr* mr) {
  return destroy(static_cast<soft_mr&>(*mr));
}

// -- completions
// ----------------------------------------------------------------------------------------------------

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  auto channel = std::make_shared<soft_channel>(context);
  if (channel->fd < 0)
    return refuse(EMFILE);
  return soft_context::of(context).own(std::move(channel));
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  return destroy(static_cast<soft_channel&>(*channel));
}

ibv_cq* create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector) {
  auto& c = soft_context::of(context);
  const auto& limits = c.device().limits();
  if (entries < 1 || static_cast<std::uint32_t>(entries) > limits.max_cqe || vector != 0)
    return refuse(EINVAL);
  auto& free_cqs = c.device().allowances().cqs;
  if (!free_cqs.take(1, limits.max_cq))
    return refuse(ENOMEM);
  const auto index = claim_completion_queue(c.rt().tables(), c.rt().process_index());
  if (!index) {
    free_cqs.give(1);
    return refuse(ENOMEM);
  }
  auto cq = std::make_shared<soft_cq>(c, *index, entries, user, static_cast<soft_channel*>(channel));
  c.rt().add(std::static_pointer_cast<watched>(cq));
  return c.own(std::move(cq));
}

int destroy_cq(ibv_cq* cq) {
  return destroy(soft_cq::of(cq));
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  const auto event = static_cast<soft_channel*>(channel)->events.pop();
  if (!event)
    return -1;
  *cq = *event;
  *user = (*cq)->cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned count) {
  soft_cq::of(cq).channel_events.acknowledge(count);
}

/// A rule's errno is negative here, like every failure to poll.
int poll_cq(ibv_cq* cq, int limit, ibv_wc* out) {
  return soft_cq::of(cq).poll(limit, out);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  soft_cq::of(cq).arm(solicited_only != 0);
  return 0;
}

// -- shared receive queues
// ------------------------------------------------------------------------------------------

ibv_srq* create_srq(ibv_pd* handle, ibv_srq_init_attr* wanted) {
  auto& pd = static_cast<soft_pd&>(*handle);
  auto& c = soft_context::of(pd.context);
  const auto& limits = c.device().limits();
  auto& attr = wanted->attr;
  if (attr.max_wr == 0 || attr.max_wr > limits.max_srq_wr || attr.max_sge > limits.max_sge)
    return refuse(EINVAL);
  attr.max_sge = std::max(attr.max_sge, 1U);
  if (!c.device().allowances().srqs.take(1, limits.max_srq))
    return refuse(ENOMEM);
  auto srq = std::make_shared<soft_srq>(c, pd, *wanted);
  if (!srq->open()) {
    c.device().allowances().srqs.give(1);
    return refuse(ENOMEM);
  }
  return c.own(std::move(srq));
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* wanted, int mask) {
  return soft_srq::of(srq).modify(*wanted, mask);
}

int query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  soft_srq::of(srq).query(*out);
  return 0;
}

int destroy_srq(ibv_srq* srq) {
  return destroy(soft_srq::of(srq));
}

// -- queue pairs
// ----------------------------------------------------------------------------------------------------

ibv_qp* create_qp(ibv_pd* handle, ibv_qp_init_attr* wanted) {
  auto& pd = static_cast<soft_pd&>(*handle);
  auto& c = soft_context::of(pd.context);
  auto& cap = wanted->cap;
  if (wanted->qp_type != IBV_QPT_RC)
    return refuse(EOPNOTSUPP);
  const auto& limits = c.device().limits();
  if (wanted->send_cq == nullptr || wanted->recv_cq == nullptr || cap.max_send_wr > limits.max_qp_wr ||
      cap.max_recv_wr > limits.max_qp_wr || cap.max_send_sge > limits.max_sge ||
      cap.max_recv_sge > limits.max_sge || cap.max_inline_data > max_inline_bytes)
    return refuse(EINVAL);
  cap.max_send_wr = std::max(cap.max_send_wr, 1U);
  cap.max_send_sge = std::max(cap.max_send_sge, 1U);
  if (wanted->srq != nullptr)
    cap.max_recv_wr = cap.max_recv_sge = 0;
  else if (cap.max_recv_wr != 0)
    cap.max_recv_sge = std::max(cap.max_recv_sge, 1U);
  auto& free_qps = c.device().allowances().qps;
  if (!free_qps.take(1, limits.max_qp))
    return refuse(ENOMEM);
  const auto index = claim_queue_pair(c.rt().tables(), c.rt().process_index());
  if (!index) {
    free_qps.give(1);
    return refuse(ENOMEM);
  }
  auto qp = std::make_shared<soft_qp>(c, pd, *wanted, *index);
  c.rt().add(*index, qp);
  return c.own(std::move(qp));
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  return soft_qp::of(qp).modify(*wanted, mask);
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  soft_qp::of(qp).query(*attributes, *init);
  return 0;
}

int destroy_qp(ibv_qp* qp) {
  return destroy(soft_qp::of(qp));
}

} // namespace

provider make_provider() {
  provider p;
  p.name = "soft";
  p.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
  p.open_device = open_device;
  p.close_device = ruled<verb::close_device, close_device>;
  p.get_async_event = [](ibv_context* c, ibv_async_event* out) {
    return get_async_event_by_rules(c, out, get_async_event);
  };
  p.ack_async_event = ack_async_event;
  p.query_device = ruled<verb::query_device, query_device>;
  p.query_port = [](ibv_context* c, std::uint8_t port, ibv_port_attr* out) {
    return ruled<verb::query_port, query_port>(c, port, out, sizeof *out);
  };
  p.query_gid = ruled<verb::query_gid, query_gid, reports::minus_one>;
  p.query_gid_ex = ruled<verb::query_gid, query_gid_ex>;
  p.interface_is_up = interface_is_up;
  p.query_pkey = query_pkey;
  p.alloc_pd = ruled<verb::alloc_pd, alloc_pd>;
  p.dealloc_pd = ruled<verb::dealloc_pd, dealloc_pd>;
  p.reg_mr = [](ibv_pd* pd, void* addr, std::size_t length, int access) {
    return reg_mr_by_rules(pd, addr, length, access, reg_mr);
  };
  p.dereg_mr = ruled<verb::dereg_mr, dereg_mr>;
  p.create_comp_channel = ruled<verb::create_comp_channel, create_comp_channel>;
  p.destroy_comp_channel = ruled<verb::destroy_comp_channel, destroy_comp_channel>;
  p.abandon_comp_channel = [](ibv_comp_channel*) {}; // its descriptor is its context's
  p.create_cq = [](ibv_context* c, int entries, void* user, ibv_comp_channel* channel, int vector) {
    return create_cq_by_rules(c, entries, user, channel, vector, create_cq);
  };
  p.destroy_cq = ruled<verb::destroy_cq, destroy_cq>;
  p.resize_cq = resize_cq;
  p.get_cq_event = [](ibv_comp_channel* channel, ibv_cq** cq, void** user) {
    return get_cq_event_by_rules(channel, cq, user, get_cq_event);
  };
  p.ack_cq_events = ack_cq_events;
  p.create_srq = [](ibv_pd* pd, ibv_srq_init_attr* wanted) {
    return create_srq_by_rules(pd, wanted, create_srq);
  };
  p.modify_srq = ruled<verb::modify_srq, modify_srq>;
  p.query_srq = ruled<verb::query_srq, query_srq>;
  p.destroy_srq = ruled<verb::destroy_srq, destroy_srq>;
  p.create_qp = [](ibv_pd* pd, ibv_qp_init_attr* wanted) {
    return create_qp_by_rules(pd, wanted, create_qp);
  };
  p.modify_qp = [](ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
    return modify_by_rules(qp, wanted, mask, modify_qp);
  };
  p.query_qp = ruled<verb::query_qp, query_qp>;
  p.destroy_qp = [](ibv_qp* qp) { return destroy_by_rules(qp, destroy_qp); };
  p.wc_status_str = wc_status_name;
  p.event_type_str = event_type_name;
  return p;
}

void set_data_path(soft_context& context) noexcept {
  context.query_port = ruled<verb::query_port, query_port>;
  auto& ops = context.context.ops;
  ops.post_send = [](ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
    auto& own = soft_qp::of(qp);
    return own.may_be_ruled() ? post_send_by_rules(own, first, bad) : own.post_send(first, bad);
  };
  ops.poll_cq = ruled<verb::poll_cq, poll_cq, reports::negative>;
  ops.req_notify_cq = ruled<verb::req_notify_cq, req_notify_cq>;
  ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) {
    auto& own = soft_qp::of(qp);
    return own.may_be_ruled() ? post_recv_by_rules(own, first, bad) : own.post_recv(first, bad);
  };
  ops.post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad) {
    auto& own = soft_srq::of(srq);
    return own.may_be_ruled() ? post_srq_recv_by_rules(own, first, bad) : own.post(first, bad);
  };
}

int resize_cq(ibv_cq* cq, int entries) {
  const auto& limits = soft_context::of(cq->context).device().limits();
  if (entries < 1 || static_cast<std::uint32_t>(entries) > limits.max_cqe)
    return EINVAL;
  return resize_cq_by_rules(cq, entries,
                            [](ibv_cq* of, int wanted) { return soft_cq::of(of).resize(wanted); });
}

tier_counts tier_use(ibv_qp* qp) {
  return soft_qp::of(qp).tier_use();
}

} // namespace actor_rdma::verbs::soft
