// SPDX-License-Identifier: Apache-2.0
//
// The runtime's part in rules: events on demand and events that are late, calls that take long or wait.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/runtime.hpp"
#include "verbs/soft/shared_receive_queue.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace actor_rdma::verbs::soft {

class runtime::late_event final : public timed {
public:
  late_event(runtime& rt, soft_context& context, const ibv_async_event& event, event_ledger* ledger,
             std::uint32_t times)
      : rt_{rt}, context_{context}, event_{event}, ledger_{ledger}, times_{times} {}

  void run(nanos, nanos, copy_budget&) override {
    // Whoever ends what the event is about takes it out of the registry first, and that waits for us.
    std::lock_guard lock{rt_.mutex_};
    const auto is_context = [&](const soft_context* c) { return c == &context_; };
    if (std::none_of(rt_.contexts_.begin(), rt_.contexts_.end(), is_context))
      return;
    if (!is_there())
      return;
    context_.deliver(event_, ledger_, times_);
  }

private:
  /// The handle is compared and not looked at, nor cast: what it names may be gone.
  bool is_there() const {
    switch (subject_of(event_.event_type)) {
    case event_subject::queue_pair:
      return std::any_of(rt_.qps_.begin(), rt_.qps_.end(),
                         [&](const auto& entry) { return entry.second.get() == event_.element.qp; });
    case event_subject::completion_queue: return is_watched<soft_cq>(event_.element.cq);
    case event_subject::shared_receive_queue: return is_watched<soft_srq>(event_.element.srq);
    case event_subject::device: break;
    }
    return true;
  }

  template <class Object, class Handle>
  bool is_watched(const Handle* named) const {
    return std::any_of(rt_.watched_.begin(), rt_.watched_.end(), [&](const auto& w) {
      return static_cast<const Handle*>(dynamic_cast<const Object*>(w.get())) == named;
    });
  }

  runtime& rt_;
  soft_context& context_;
  const ibv_async_event event_;
  event_ledger* const ledger_;
  const std::uint32_t times_;
};

void runtime::take_time(nanos span) {
  if (is_virtual())
    verb_delay_.fetch_add(span);
  else
    std::this_thread::sleep_for(std::chrono::nanoseconds{span});
}

void runtime::raise_later(soft_context& context, const ibv_async_event& event, event_ledger* ledger,
                          std::uint32_t times, nanos at) {
  wire_->schedule(std::make_shared<late_event>(*this, context, event, ledger, times),
                  {at, context.device().index(), 0, 0});
}

void runtime::wake_waiting_calls(std::string_view device) {
  std::lock_guard lock{mutex_};
  for (auto* const context : contexts_)
    if (names_device(device, context->device().entry().name.data()))
      context->wake_waiting_calls();
}

void runtime::raise_on_demand(const lent_qps& qps, const lent_objects& objects) {
  for (const auto& wanted : read_raised(tables(), raised_seen_)) {
    if (wanted.device >= layout::max_devices)
      continue; // tables that somebody damaged
    const auto subject = subject_of(wanted.type);
    if (subject == event_subject::device) {
      std::lock_guard lock{mutex_};
      const auto& entry = tables().devices[wanted.device];
      for (auto* const context : contexts_)
        if (context->device().index() == entry.first_port.load(std::memory_order_relaxed))
          context->raise_of_port(is_of_port(wanted.type) ? entry.port.load(std::memory_order_relaxed) : 0,
                                 wanted.type, wanted.times);
      continue;
    }
    if (subject != event_subject::queue_pair && wanted.qp_num == 0) {
      for (const auto& object : objects)
        object->raise_on_demand(wanted.type, wanted.device, wanted.times);
      continue;
    }
    for (const auto& qp : qps)
      if (wanted.qp_num == 0 || wanted.qp_num == qp->qp_num)
        qp->raise_on_demand(wanted.type, wanted.device, wanted.times);
  }
}

} // namespace actor_rdma::verbs::soft
