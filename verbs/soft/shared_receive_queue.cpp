// SPDX-License-Identifier: Apache-2.0
//
// Life and limit of a shared receive queue.
#include "verbs/soft/shared_receive_queue.hpp"

#include "verbs/soft/rules/raised.hpp"

#include <cerrno>
#include <utility>

namespace actor_rdma::verbs::soft {

soft_srq::soft_srq(soft_context& owner, soft_pd& domain, const ibv_srq_init_attr& init)
    : ibv_srq{}, context_{owner}, rt_{owner.rt()}, pd_{domain}, attributes_{init.attr}, receives_{
                                                                                            owner.rt()} {
  context = &owner.context;
  srq_context = init.srq_context;
  pd = &domain;
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
}

soft_srq::~soft_srq() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

bool soft_srq::open() {
  if (!receives_.open(attributes_.max_wr, attributes_.max_sge, pd_.handle))
    return false;
  handle = receives_.unit();
  pd_.children.fetch_add(1);
  rt_.add(std::static_pointer_cast<watched>(shared_from_this()));
  return true;
}

int soft_srq::post(ibv_recv_wr* first, ibv_recv_wr** bad) {
  for (; first != nullptr; first = first->next) {
    *bad = first;
    if (const int error = receives_.post(*first); error != 0)
      return error;
  }
  return 0;
}

int soft_srq::modify(const ibv_srq_attr& wanted, int mask) {
  if ((mask & ~IBV_SRQ_LIMIT) != 0) // it cannot be resized, and the device says so
    return EINVAL;
  if ((mask & IBV_SRQ_LIMIT) == 0)
    return 0;
  if (wanted.srq_limit > attributes_.max_wr)
    return EINVAL;
  auto& t = rt_.tables();
  ring_at(t, receives_.unit()).limit.store(wanted.srq_limit, std::memory_order_seq_cst);
  if (reached_limit(t, receives_.unit()))
    look();
  return 0;
}

void soft_srq::query(ibv_srq_attr& out) const {
  out = attributes_;
  out.srq_limit = ring_at(rt_.tables(), receives_.unit()).limit.load(std::memory_order_seq_cst);
}

void soft_srq::look() {
  std::lock_guard lock{mutex_};
  if (is_ending_ || !receives_.is_open() ||
      ring_at(rt_.tables(), receives_.unit()).limit_reached.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  raise(IBV_EVENT_SRQ_LIMIT_REACHED);
}

void soft_srq::raise(ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.srq = this;
  context_.raise(event, &async_events);
}

void soft_srq::raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) {
  std::lock_guard lock{mutex_};
  if (is_ending_ || subject_of(type) != event_subject::shared_receive_queue ||
      device != context_.device().index())
    return;
  for (std::uint32_t i = 0; i < times; ++i)
    raise(type);
}

int soft_srq::retire(bool forced) {
  if (!forced && users.load() != 0)
    return EBUSY;
  rt_.remove(static_cast<const watched&>(*this));
  {
    std::lock_guard lock{mutex_};
    is_ending_ = true;
  }
  context_.async_events().drop(async_events);
  if (!forced)
    async_events.wait();
  if (users.load() != 0)
    return EBUSY; // a forced close found a stopped process inside one of its queue pairs
  std::lock_guard lock{mutex_};
  if (std::exchange(has_ended_, true))
    return 0;
  receives_.close();
  pd_.children.fetch_sub(1);
  context_.device().allowances().srqs.give(1);
  return 0;
}

} // namespace actor_rdma::verbs::soft
