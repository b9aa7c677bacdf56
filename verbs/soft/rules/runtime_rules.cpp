// SPDX-License-Identifier: Apache-2.0
//
// The runtime's part in rules: events on demand and events that are late, calls that take long or wait.
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/runtime.hpp"

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
    // Whoever ends a context or a queue pair takes it out of the registry first, and that waits for us.
    std::lock_guard lock{rt_.mutex_};
    const auto is_context = [&](const soft_context* c) { return c == &context_; };
    if (std::none_of(rt_.contexts_.begin(), rt_.contexts_.end(), is_context))
      return;
    if (subject_of(event_.event_type) == event_subject::queue_pair &&
        std::none_of(rt_.qps_.begin(), rt_.qps_.end(),
                     [&](const auto& entry) { return entry.second.get() == event_.element.qp; }))
      return;
    context_.deliver(event_, ledger_, times_);
  }

private:
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

void runtime::raise_on_demand(const lent_qps& qps) {
  for (const auto& wanted : read_raised(tables(), raised_seen_)) {
    if (subject_of(wanted.type) == event_subject::device) {
      std::lock_guard lock{mutex_};
      ibv_async_event event{};
      event.event_type = wanted.type;
      event.element.port_num = 1;
      for (auto* const context : contexts_)
        if (context->device().index() == wanted.device)
          context->raise(event, nullptr, wanted.times);
      continue;
    }
    for (const auto& qp : qps)
      if (qp->device_index() == wanted.device && (wanted.qp_num == 0 || wanted.qp_num == qp->qp_num))
        for (std::uint32_t i = 0; i < wanted.times; ++i)
          qp->raise_on_demand(wanted.type);
  }
}

} // namespace actor_rdma::verbs::soft
