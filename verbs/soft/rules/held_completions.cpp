// SPDX-License-Identifier: Apache-2.0
//
// The completion queue's dealings with completions that rules hold back.
#include "verbs/soft/completion_queue.hpp"

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
  keeper_.keep(of, what, hold, context_.rt().now());
  schedule_holds();
}

bool soft_cq::write_around(std::span<const completion> completions, bool is_recv) {
  const auto now = context_.rt().now();
  bool has_room = true;
  for (const auto& c : completions) {
    const work_queue_name of{c.qp, is_recv};
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
    if (!write(due))
      return false;
  return true;
}

void soft_cq::schedule_holds() {
  const auto next = keeper_.next_due();
  const auto& wire = context_.rt().wire();
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
  std::lock_guard lock{mutex_};
  if (write_due(now))
    schedule_holds();
}

void soft_cq::hurry(const soft_qp& qp) {
  std::lock_guard lock{mutex_};
  if (keeper_.is_empty())
    return;
  keeper_.hurry(&qp);
  if (write_due(context_.rt().now()))
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

void soft_cq::end_holds() noexcept {
  std::shared_ptr<hold_timer> timer;
  {
    std::lock_guard lock{mutex_};
    timer = timer_;
  }
  if (!timer)
    return;
  context_.rt().wire()->remove(*timer);
  timer->end();
}

} // namespace actor_rdma::verbs::soft
