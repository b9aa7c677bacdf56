// SPDX-License-Identifier: Apache-2.0
//
// Arming rules and acting by them.
#include "verbs/soft/rules/timed_rules.hpp"

#include "verbs/soft/control.hpp"
#include "verbs/soft/rules/raised.hpp"
#include "verbs/soft/runtime.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace actor_rdma::verbs::soft {

namespace {

constexpr auto waiting_calls = std::uint64_t{1} << static_cast<int>(verb::get_async_event) |
                               std::uint64_t{1} << static_cast<int>(verb::get_cq_event);

bool acts_by_itself(const rule& r) noexcept {
  return r.target == rule_target::timer || (r.action == rule_action::fail && (r.verbs & waiting_calls) != 0);
}

} // namespace

class timed_rules::alarm final : public timed {
public:
  alarm(runtime& rt, live_rule r) : rt_{rt}, rule_{std::move(r)} {}
  void run(nanos now, nanos, copy_budget&) override {
    const auto rules = rt_.rules().current();
    if (std::any_of(rules->begin(), rules->end(), [&](const live_rule& r) { return r.id == rule_.id; }))
      act(rt_, rule_, now);
  }

private:
  runtime& rt_;
  const live_rule rule_;
};

void timed_rules::look(runtime& rt) {
  std::lock_guard lock{mutex_};
  const auto epoch = rt.rules().epoch();
  if (epoch == seen_epoch_)
    return;
  seen_epoch_ = epoch;
  const auto rules = rt.rules().current();
  std::map<std::uint32_t, std::shared_ptr<alarm>> still;
  for (const auto& r : *rules) {
    if (!acts_by_itself(r.what))
      continue;
    auto& mine = armed_[r.id];
    if (!mine) {
      mine = std::make_shared<alarm>(rt, r);
      rt.wire()->schedule(mine, {r.added_at + r.what.after, UINT32_MAX, 0, r.id});
    }
    still[r.id] = mine;
  }
  for (const auto& [id, old] : armed_)
    if (!still.contains(id))
      rt.wire()->remove(*old);
  armed_ = std::move(still);
}

void timed_rules::act(runtime& rt, const live_rule& r, nanos now) {
  auto& t = rt.tables();
  if (r.what.target == rule_target::verb) {
    rt.wake_waiting_calls(r.what.device);
    return;
  }
  for (std::uint32_t i = 0; i < layout::max_devices; ++i) {
    auto& device = t.devices[i];
    if (device.used.load(std::memory_order_acquire) == 0 ||
        device.process.load(std::memory_order_relaxed) != rt.process_index() ||
        !names_device(r.what.device, device.name.data()) ||
        (device.port.load(std::memory_order_relaxed) != 1 && r.what.action == rule_action::raise &&
         !is_of_port(static_cast<ibv_event_type>(r.what.value))) ||
        !rt.rules().hits(r, now))
      continue;
    verdict_subject subject;
    subject.device = i;
    subject.code = r.what.action == rule_action::raise ? r.what.value : 0;
    rt.rules().record(r, now, subject, r.what.value);
    if (r.what.action == rule_action::raise)
      write_raised(t, {i, static_cast<ibv_event_type>(r.what.value), r.what.repeat, r.what.qp.value_or(0)});
    else
      change_link(t, now, i, r.what.value != 0, r.what.is_quiet);
  }
  rt.announce_change();
}

} // namespace actor_rdma::verbs::soft
