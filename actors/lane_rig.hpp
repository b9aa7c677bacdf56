// SPDX-License-Identifier: Apache-2.0
//
// What the tests of one lane stand on: a system with one lane, a completion queue that the test fills, so
// that it decides when a completion arrives, and sinks. In a test the sinks stand before the lane, so that
// the lane ends first, also when a check fails.
#pragma once

#include "actors/lane_scheduler.hpp"
#include "base/time.hpp"
#include "verbs/objects.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace actor_rdma::actors::testing {

template <class Condition>
bool eventually(Condition condition, base::duration limit = std::chrono::seconds{20}) {
  const auto end = base::mono_clock::now() + limit;
  while (!condition()) {
    if (base::mono_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  return true;
}

class one_lane {
public:
  explicit one_lane(lane_options options = {}) {
    lane_scheduler_options all;
    all.lanes = 1;
    all.lane = std::move(options);
    use_lanes(config_, all);
    system_ = std::make_unique<caf::actor_system>(config_);
  }
  lane& get() { return lanes_of(*system_)->at(0); }
  lane* operator->() { return &get(); }

  /// Runs `body` on the lane and waits for it.
  void on_lane(const std::function<void()>& body) {
    auto done = std::make_shared<std::promise<void>>();
    get().post([done, body] {
      body();
      done->set_value();
    });
    REQUIRE(done->get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
  }
  /// Waits until the lane is asleep.
  void await_sleep() {
    std::uint64_t before = 0;
    on_lane([&] { before = get().counters().sleeps; });
    REQUIRE(eventually([&] { return get().counters().sleeps > before; }));
  }

private:
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
};

/// A completion queue with its channel, filled by the test.
class fake_queue {
public:
  explicit fake_queue(int capacity = 4096) {
    context_.ops.poll_cq = [](ibv_cq* cq, int room, ibv_wc* out) { return of(cq).poll(room, out); };
    context_.ops.req_notify_cq = [](ibv_cq* cq, int) { return of(cq).arm(); };
    table_.get_cq_event = [](ibv_comp_channel* from, ibv_cq** cq, void** cq_context) {
      std::uint64_t one = 0;
      if (::read(from->fd, &one, sizeof one) != sizeof one)
        return -1;
      *cq = nullptr;
      *cq_context = nullptr;
      return 0;
    };
    table_.ack_cq_events = [](ibv_cq*, unsigned) {};
    table_.destroy_comp_channel = [](ibv_comp_channel*) { return 0; };
    channel_.context = &context_;
    channel_.fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
    cq_.context = &context_;
    cq_.channel = &channel_;
    cq_.cq_context = this;
    cq_.cqe = capacity;
    owner_ = std::make_unique<verbs::completion_channel>(table_, &channel_, "fake0", verbs::closed_flag{});
  }
  ~fake_queue() {
    owner_.reset();
    ::close(channel_.fd);
  }
  fake_queue(const fake_queue&) = delete;
  fake_queue& operator=(const fake_queue&) = delete;

  void complete(std::uint64_t wr_id) {
    std::lock_guard lock{mutex_};
    ibv_wc wc{};
    wc.wr_id = wr_id;
    entries_.push_back(wc);
    if (std::exchange(armed_, false))
      ::eventfd_write(channel_.fd, 1);
  }
  void break_polling() { broken_ = true; }
  void break_arming(int error) { arm_error_ = error; }
  /// Arrives between an empty poll and the arming that follows, so no event will tell of it.
  void complete_after_next_arming(std::uint64_t wr_id) {
    std::lock_guard lock{mutex_};
    late_ = wr_id;
  }
  ibv_cq* cq() { return &cq_; }
  verbs::completion_channel& channel() { return *owner_; }
  int armings() const { return armings_; }
  int polls() const { return polls_; }

private:
  static fake_queue& of(ibv_cq* cq) { return *static_cast<fake_queue*>(cq->cq_context); }
  int poll(int room, ibv_wc* out) {
    std::lock_guard lock{mutex_};
    ++polls_;
    if (broken_)
      return -1;
    int n = 0;
    for (; n < room && !entries_.empty(); ++n) {
      out[n] = entries_.front();
      entries_.pop_front();
    }
    return n;
  }
  int arm() {
    std::lock_guard lock{mutex_};
    ++armings_;
    if (arm_error_ != 0)
      return arm_error_;
    if (late_ != 0) {
      ibv_wc wc{};
      wc.wr_id = std::exchange(late_, 0);
      entries_.push_back(wc);
    }
    armed_ = true;
    return 0;
  }

  ibv_context context_{};
  ibv_comp_channel channel_{};
  ibv_cq cq_{};
  verbs::provider table_;
  std::unique_ptr<verbs::completion_channel> owner_;
  std::mutex mutex_;
  std::deque<ibv_wc> entries_;
  bool armed_ = false;
  std::uint64_t late_ = 0;
  std::atomic<bool> broken_{false};
  std::atomic<int> arm_error_{0};
  std::atomic<int> armings_{0};
  std::atomic<int> polls_{0};
};

struct entry {
  char kind; ///< 'c'ompletion, 'd'eadline, 'f'ailure
  std::uint64_t value;
  bool operator==(const entry&) const = default;
};

/// Writes down what the lane tells it; read on the lane or when nothing more can come.
class recorder_sink final : public cq_sink, public deadline_sink {
public:
  void on_completions(std::span<const ibv_wc> completions) override {
    largest_batch = std::max(largest_batch, completions.size());
    for (const auto& wc : completions)
      log.push_back({'c', wc.wr_id});
    count += completions.size();
  }
  void on_cq_failed(int error) override {
    log.push_back({'f', static_cast<std::uint64_t>(error)});
    ++count;
  }
  void on_deadline(std::uint64_t token) override {
    log.push_back({'d', token});
    ++count;
  }
  std::vector<entry> log;
  std::size_t largest_batch = 0;
  std::atomic<std::size_t> count{0};
};

struct function_sink final : cq_sink, deadline_sink, fd_sink {
  std::function<void()> body;
  void on_completions(std::span<const ibv_wc>) override { body(); }
  void on_cq_failed(int) override { body(); }
  void on_deadline(std::uint64_t) override { body(); }
  void on_readable(int) override { body(); }
};

struct test_pipe {
  int ends[2] = {-1, -1};
  test_pipe() { REQUIRE(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0); }
  ~test_pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void write() { CHECK(::write(ends[1], "x", 1) == 1); }
  void empty() {
    char buffer[16];
    while (::read(ends[0], buffer, sizeof buffer) > 0) {
    }
  }
};

} // namespace actor_rdma::actors::testing
