// SPDX-License-Identifier: Apache-2.0
//
// The completion queue's dealings with completions that rules hold back.
#include "verbs/soft/completion_queue.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/rules/raised.hpp"

#include <mutex>

namespace actor_rdma::verbs::soft {

/// Writes what is due when nobody else does. Its queue may be gone by then.
class hold_timer final : public timed {
public:
  explicit hold_timer(soft_cq& cq) : cq_{&cq} {}
  void run(nanos now, nanos, copy_budget&) override {
    std::lock_guard lock{mutex_};
    if (cq_ != nullptr)
      cq_->release_due(now);
  }
  void end() noexcept {
    std::lock_guard lock{mutex_};
    cq_ = nullptr;
  }

private:
  std::mutex mutex_;
  soft_cq* cq_;
};

void soft_cq::push_held(work_queue_name of, const std::optional<completion>& what, const cqe_hold& hold) {
  std::lock_guard lock{mutex_};
  keeper_.keep(of, what, hold, rt_.now());
  schedule_holds();
}

bool soft_cq::write_receive(soft_qp& qp, completion c) {
  if (qp.may_be_ruled()) {
    const auto now = rt_.now();
    if (const auto hold = qp.rule_receive(c, now); hold) {
      keeper_.keep(queue_of(c), c, *hold, now);
      schedule_holds();
      return true;
    }
  }
  return keeper_.is_empty() ? write({&c, 1}) : write_around({&c, 1});
}

bool soft_cq::write_around(std::span<const completion> completions) {
  const auto now = rt_.now();
  bool has_room = true;
  for (const auto& c : completions) {
    const auto of = queue_of(c);
    if (keeper_.blocks(of)) {
      keeper_.keep(of, c, {0, false, std::nullopt}, now);
      continue;
    }
    has_room = write({&c, 1});
    if (!has_room)
      break;
    keeper_.note_written(of);
    has_room = write_due(now);
    if (!has_room)
      break;
  }
  schedule_holds();
  return has_room;
}

bool soft_cq::write_due(nanos now) {
  for (auto due = keeper_.take_due(now); !due.empty(); due = keeper_.take_due(now))
    for (const auto& c : due) {
      if (!write({&c, 1}))
        return false;
      keeper_.note_written(queue_of(c));
    }
  return true;
}

void soft_cq::schedule_holds() {
  const auto next = keeper_.next_due();
  const auto& wire = rt_.wire();
  if (next == never) {
    if (timer_)
      wire->remove(*timer_);
    return;
  }
  if (!timer_)
    timer_ = std::make_shared<hold_timer>(*this);
  wire->schedule(timer_, {next, context_.device().index(), 0, 0});
}

void soft_cq::release_due(nanos now) {
  collect(); // what came before it is written before it
  std::lock_guard lock{mutex_};
  if (write_due(now))
    schedule_holds();
}

void soft_cq::hurry(const soft_qp& qp) {
  std::lock_guard lock{mutex_};
  if (keeper_.is_empty())
    return;
  keeper_.hurry(&qp);
  if (write_due(rt_.now()))
    schedule_holds();
}

void soft_cq::orphan(const soft_qp& qp) noexcept {
  std::lock_guard lock{mutex_};
  keeper_.forget(&qp);
  const auto capacity = static_cast<std::uint32_t>(cqe);
  const auto count = count_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i)
    if (auto& c = ring_[(head_ + i) % capacity]; c.qp == &qp)
      c.qp = nullptr;
}

void soft_cq::raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) {
  std::lock_guard lock{mutex_};
  if (is_ending_ || subject_of(type) != event_subject::completion_queue ||
      device != context_.device().index())
    return;
  for (std::uint32_t i = 0; i < times; ++i)
    raise_error();
}

void soft_cq::end_holds() noexcept {
  std::shared_ptr<hold_timer> timer;
  {
    std::lock_guard lock{mutex_};
    timer = timer_;
  }
  if (!timer)
    return;
  rt_.wire()->remove(*timer);
  timer->end();
}

} // namespace actor_rdma::verbs::soft
