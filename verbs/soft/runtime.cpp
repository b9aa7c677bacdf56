// SPDX-License-Identifier: Apache-2.0
//
// Attaching to the tables, the registries, and the spreading of other hosts' changes.
#include "verbs/soft/runtime.hpp"

#include "base/log.hpp"
#include "verbs/soft/engine.hpp"
#include "verbs/soft/liveness.hpp"
#include "verbs/soft/packet.hpp"
#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

runtime::runtime(segment tables, const base::clock_source* clock)
    : segment_{std::move(tables)}, clock_{clock}, rules_{segment_.get()},
      raised_seen_{segment_.get().head.raised_head.load(std::memory_order_acquire)}, pid_{::getpid()},
      random_{segment_.get().head.seed} {
  seen_epoch_.store(segment_.get().head.change_epoch.load(std::memory_order_seq_cst),
                    std::memory_order_relaxed);
}

runtime::~runtime() {
  if (is_forked_child()) {
    (void)engine_.release();
    return;
  }
  engine_.reset();
  if (wire_)
    wire_->clear();
  if (process_ == nullptr || !segment_.is_named())
    return;
  if (!segment_.lock()) {
    base::log(base::level::warn, "soft NIC",
              "the segment's lock is held by a stopped process: leaving without it");
    return; // the next one to attach cleans up behind us
  }
  release_process(segment_.get(), process_index_);
  const auto& processes = segment_.get().processes;
  if (std::none_of(processes.begin(), processes.end(), [](const layout::process_entry& p) {
        return p.used.load(std::memory_order_acquire) != 0 && is_alive(p);
      }))
    segment_.remove();
  segment_.unlock();
}

void runtime::leave_file() noexcept {
  if (process_ == nullptr || !segment_.is_named() || is_forked_child())
    return;
  process_->leaving.store(1, std::memory_order_seq_cst);
  // Two that end at the same time meet here, and each has to see that the other one goes.
  constexpr int tries = 10;
  for (int i = 0; !segment_.try_lock(); ++i) {
    if (i == tries)
      return; // the next one to attach cleans up
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  const auto& processes = segment_.get().processes;
  if (std::none_of(processes.begin(), processes.end(), [](const layout::process_entry& p) {
        return p.used.load(std::memory_order_acquire) != 0 && is_alive(p) &&
               p.leaving.load(std::memory_order_seq_cst) == 0;
      }))
    segment_.remove();
  segment_.unlock();
}

bool runtime::is_forked_child() const noexcept {
  return ::getpid() != pid_;
}

void runtime::reap() {
  if (!segment_.is_named())
    return;
  auto& t = segment_.get();
  for (std::uint32_t i = 0; i < layout::max_processes; ++i) {
    const auto& p = t.processes[i];
    if (p.used.load(std::memory_order_acquire) != 0 && !is_alive(p) && is_gone(p))
      release_process(t, i);
  }
}

base::expected<void> runtime::attach() {
  reap();
  auto& t = segment_.get();
  const auto free = std::find_if(t.processes.begin(), t.processes.end(), [](const layout::process_entry& p) {
    return p.used.load(std::memory_order_acquire) == 0;
  });
  if (free == t.processes.end())
    return base::fail(base::reason::resource, "soft NIC", "the fabric has no room for another process");
  const auto self = own_identity();
  free->pid.store(self.pid, std::memory_order_relaxed);
  free->start_time.store(self.start_time, std::memory_order_relaxed);
  free->leaving.store(0, std::memory_order_relaxed);
  free->generation.fetch_add(1, std::memory_order_relaxed);
  process_ = &*free;
  process_index_ = static_cast<std::uint32_t>(free - t.processes.begin());
  wire_ = make_line();
  if (!is_virtual()) {
    wire_->set_watched(true); // nobody polls it as a duty
    if (segment_.is_named()) {
      prepare_life(*process_);
      // Peers of the same user reach our memory with process_vm calls, where a security module restricts that
      // to descendants. It fails where there is no such module.
      ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    }
    engine_ = std::make_unique<engine>(*this, *process_, segment_.is_named());
    if (!engine_->is_running()) {
      process_ = nullptr;
      return base::fail(base::reason::resource, "soft NIC", "cannot start the engine thread");
    }
  }
  free->used.store(1, std::memory_order_release);
  return {};
}

bool runtime::is_own_process(std::uint32_t index) const noexcept {
  return index == process_index_ || identity_of(segment_.get().processes[index]) ==
                                        identity_of(segment_.get().processes[process_index_]);
}

bool runtime::is_reachable(std::uint32_t index) const noexcept {
  if (index >= layout::max_processes)
    return false; // tables that somebody damaged
  return (process_ != nullptr && index == process_index_) || !segment_.is_named() ||
         is_alive(segment_.get().processes[index]);
}

// -- registries
// -----------------------------------------------------------------------------------------------------

void runtime::add(std::uint32_t index, const std::shared_ptr<soft_qp>& qp) {
  std::lock_guard lock{mutex_};
  qps_[index] = qp;
}

void runtime::remove_qp(std::uint32_t index) noexcept {
  std::shared_ptr<soft_qp> last; // ends after the lock
  std::lock_guard lock{mutex_};
  if (const auto found = qps_.find(index); found != qps_.end()) {
    last = std::move(found->second);
    qps_.erase(found);
  }
}

void runtime::add(soft_context& context) {
  std::lock_guard lock{mutex_};
  contexts_.push_back(&context);
}

void runtime::remove(soft_context& context) noexcept {
  std::unique_lock lock{mutex_};
  one_has_died_.wait(lock, [&] { return std::find(dying_.begin(), dying_.end(), &context) == dying_.end(); });
  std::erase(contexts_, &context);
}

void runtime::add(const std::shared_ptr<watched>& what) {
  std::lock_guard lock{mutex_};
  watched_.push_back(what);
}

void runtime::remove(const watched& what) noexcept {
  std::shared_ptr<watched> last; // ends after the lock
  std::lock_guard lock{mutex_};
  const auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const auto& other) { return other.get() == &what; });
  if (found == watched_.end())
    return;
  last = std::move(*found);
  watched_.erase(found);
}

std::shared_ptr<timeline> runtime::make_line() {
  if (is_virtual() && wire_)
    return wire_;
  auto line = std::make_shared<timeline>([this](const timeline& changed) {
    if (engine_)
      engine_->note(changed);
  });
  std::lock_guard lock{mutex_};
  lines_.push_back(line);
  lines_version_.fetch_add(1, std::memory_order_seq_cst);
  return line;
}

void runtime::remove(const std::shared_ptr<timeline>& line) noexcept {
  if (line == wire_)
    return;
  std::lock_guard lock{mutex_};
  std::erase(lines_, line);
  lines_version_.fetch_add(1, std::memory_order_seq_cst);
}

void runtime::refresh(lines_t& lines, std::uint64_t& seen) const {
  if (lines_version_.load(std::memory_order_seq_cst) == seen)
    return;
  std::lock_guard lock{mutex_};
  seen = lines_version_.load(std::memory_order_seq_cst);
  lines = lines_;
}

void runtime::stall(std::shared_ptr<packet> held) {
  std::lock_guard lock{mutex_};
  stalled_.push_back(std::move(held));
}

std::uint64_t runtime::random() {
  std::lock_guard lock{mutex_};
  return random_.next();
}

// -- attention
// ------------------------------------------------------------------------------------------------------

void runtime::ring(std::uint32_t process_index) noexcept {
  if (!is_virtual())
    ring_entry(segment_.get().processes[process_index]);
}

void runtime::announce_change() noexcept {
  note_arrival_anywhere();
  auto& t = segment_.get();
  t.head.change_epoch.fetch_add(1, std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < layout::max_processes; ++i)
    if (t.processes[i].used.load(std::memory_order_acquire) != 0)
      ring(i);
}

bool runtime::needs_attention() const noexcept {
  return process_ != nullptr && (process_->remote_errors.load(std::memory_order_seq_cst) != 0 ||
                                 process_->arrivals.load(std::memory_order_seq_cst) != 0 ||
                                 process_->atomics.load(std::memory_order_seq_cst) != 0 ||
                                 segment_.get().head.change_epoch.load(std::memory_order_seq_cst) !=
                                     seen_epoch_.load(std::memory_order_relaxed));
}

void runtime::look_at_ports() {
  std::unique_lock lock{mutex_};
  for (auto* const context : contexts_)
    if (!context->is_dead() && !context->outlived_its_device())
      context->check_ports();
  // One at a time, as the others may be closed meanwhile. Who closes this one waits: see remove().
  const auto has_to_die = [](const soft_context* c) { return !c->is_dead() && c->outlived_its_device(); };
  for (;;) {
    const auto next = std::find_if(contexts_.begin(), contexts_.end(), has_to_die);
    if (next == contexts_.end())
      return;
    auto& context = **next;
    dying_.push_back(&context);
    lock.unlock();
    (void)context.die();
    lock.lock();
    std::erase(dying_, &context);
    one_has_died_.notify_all();
  }
}

void runtime::attend(nanos now) {
  if (!needs_attention())
    return;
  const bool has_errors = process_->remote_errors.exchange(0, std::memory_order_seq_cst) != 0;
  const bool has_arrivals = process_->arrivals.exchange(0, std::memory_order_seq_cst) != 0;
  const bool has_atomics = process_->atomics.exchange(0, std::memory_order_seq_cst) != 0;
  const auto epoch = segment_.get().head.change_epoch.load(std::memory_order_seq_cst);
  const bool has_changes = seen_epoch_.exchange(epoch, std::memory_order_relaxed) != epoch;
  lent_qps qps;
  std::vector<std::shared_ptr<packet>> stalled;
  lent_objects objects;
  {
    std::lock_guard lock{mutex_};
    if (has_errors || has_changes || has_atomics)
      for (const auto& [index, qp] : qps_)
        qps.push_back(qp);
    if (has_arrivals || has_changes)
      objects = watched_;
    if (has_changes)
      stalled.swap(stalled_);
  }
  if (has_changes) {
    look_at_ports();
    timed_rules_.look(*this);
    raise_on_demand(qps, objects);
  }
  for (const auto& p : stalled)
    p->launch(now);
  if (has_arrivals)
    for (const auto& object : objects)
      object->look();
  for (const auto& qp : qps) {
    if (has_atomics)
      qp->answer_atomics();
    if (has_errors)
      qp->adopt_remote_error(now);
    if (has_changes)
      qp->retry_now(now);
  }
}

} // namespace actor_rdma::verbs::soft
