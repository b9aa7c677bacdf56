// SPDX-License-Identifier: Apache-2.0
// Driving both engines.
#include "bench/drive.hpp"

#include "bench/core_round_trip.hpp"
#include "bench/cpu_time.hpp"
#include "bench/raw_engine.hpp"
#include "bench/submitter.hpp"
#include "bench/text.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

using namespace std::chrono_literals;

constexpr base::duration warm_up = 200ms;
constexpr base::duration progress_period = 1s;
/// For open transfers, once the run is told to stop.
constexpr base::duration grace = 1s;
/// A run of so many batches waits at least so long for a target that died.
constexpr base::duration counted_run_limit = 30s;

/// The threads of a run, and who waits for them.
class crew {
public:
  template <class Body>
  void start(Body body) {
    {
      std::lock_guard lock(mutex_);
      ++running_;
    }
    threads_.emplace_back([this, body] {
      body();
      std::lock_guard lock(mutex_);
      if (--running_ == 0)
        changed_.notify_all();
    });
  }
  /// True when all have ended.
  bool wait_until(base::time_point when) {
    std::unique_lock lock(mutex_);
    const auto left = when - base::mono_clock::now();
    return changed_.wait_for(lock, std::max(left, base::duration::zero()), [&] { return running_ == 0; });
  }
  void join() {
    for (auto& t : threads_)
      t.join();
    threads_.clear();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t running_ = 0;
  std::vector<std::thread> threads_;
};

struct totals {
  std::uint64_t bytes = 0;
  std::uint64_t completed = 0;
  std::uint64_t not_completed = 0;
};

totals sum(const std::vector<const live_counters*>& all) {
  totals t;
  for (const auto* l : all) {
    t.bytes += l->bytes.load(std::memory_order_relaxed);
    t.completed += l->completed.load(std::memory_order_relaxed);
    t.not_completed += l->not_completed.load(std::memory_order_relaxed);
  }
  return t;
}

class course {
public:
  course(const settings& what, run_control& control, signals* watch)
      : what_(what), control_(control), watch_(watch) {}

  /// `begin` starts the threads, `measuring` is called when the time begins to count.
  void run(crew& threads, const std::vector<const live_counters*>& live, const std::function<void()>& begin,
           const std::function<void()>& measuring, run_result& result) {
    if (watch_ != nullptr)
      watch_->on_stop([this] {
        fmt::print(
            stderr,
            "stopping: what is open in {:.0f} s is cancelled; a second signal ends the process as it is\n",
            to_seconds(grace));
        control_.interrupt(grace);
      });
    const bool is_timed = what_.batches == 0;
    if (is_timed) {
      control_.set_end(base::mono_clock::now() + warm_up + what_.time);
      begin();
      threads.wait_until(base::mono_clock::now() + std::min(warm_up, what_.time / 2));
    }
    const auto from = base::mono_clock::now();
    const auto cpu_from = process_cpu_time();
    const auto limit = what_.trials > 0 ? 24h
                       : is_timed       ? what_.time
                                        : std::max(what_.time, counted_run_limit);
    control_.set_end(from + limit);
    control_.begin_measuring();
    measuring();
    if (!is_timed)
      begin();
    wait(threads, live, from, is_timed ? from + limit : base::time_never);
    control_.finish();
    threads.join();
    result.measured = base::mono_clock::now() - from;
    result.cpu = process_cpu_time() - cpu_from;
    if (watch_ != nullptr)
      watch_->on_stop(nullptr);
  }

private:
  void wait(crew& threads, const std::vector<const live_counters*>& live, base::time_point from,
            base::time_point until) {
    auto before = sum(live);
    for (auto next = from + progress_period;; next += progress_period) {
      // Once stopped, the open batches still end in their own time.
      if (threads.wait_until(std::min(next, until)) || base::mono_clock::now() >= until)
        return;
      const auto now = sum(live);
      fmt::print(
          stderr, "{:>5.0f} s  {:>12}  {:>9}op/s{}\n", to_seconds(next - from),
          rate_text(static_cast<double>(now.bytes - before.bytes) / to_seconds(progress_period)),
          count_text(static_cast<double>(now.completed - before.completed) / to_seconds(progress_period)),
          now.not_completed > 0 ? fmt::format("  {} not completed", now.not_completed) : "");
      before = now;
    }
  }

  const settings& what_;
  run_control& control_;
  signals* watch_;
};

/// Between two processes nobody knows what the target's memory holds after other runs: it is written with
/// what checks expect there at the begin.
base::expected<void> reset_target(const settings& what, const actor_parts& parts) {
  if (!what.verify || !parts.memory.peer.empty())
    return {};
  constexpr std::uint64_t piece = 4 << 20;
  prepare_target(what, parts.memory.local);
  const auto link = parts.link.current();
  std::vector<transfer_request> requests;
  for (std::uint64_t at = 0; at < what.range; at += piece)
    requests.push_back(
        {operation::write, parts.memory.local.data() + at, link.base + at, std::min(piece, what.range - at)});
  submit_options how;
  how.deadline = what.deadline;
  const auto written = parts.initiator.get().submit(link.target, requests, std::move(how));
  if (!written)
    return base::fail(written.error());
  written->wait_for(std::min<base::duration>(what.deadline, 60s) + 10s);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (const auto r = written->result(i); r.status != transfer_status::completed)
      return base::fail(
          r.cause, "bench",
          fmt::format("the target's memory could not be prepared for --verify: writing it {}: {}",
                      to_string(r.status), base::to_string(r.cause)));
  prepare_local(what, parts.memory.local);
  return {};
}

bool all_rails_usable(const transport& t) {
  bool any = false;
  for (const auto& s : t.snapshot()) {
    if (s.kind != "qp" && s.kind != "device")
      continue;
    any = any || s.kind == "qp";
    if (s.state != "ACTIVE")
      return false;
  }
  return any;
}

/// A notice is delivered when it is in the target's inbox, and the target comes to it a little later.
notice_counts notices_of_run(node& target, const notice_counts& before, std::uint64_t delivered) {
  const auto until = base::mono_clock::now() + 5s;
  auto seen = target.notices().since(before);
  while (seen.received < delivered && base::mono_clock::now() < until) {
    std::this_thread::sleep_for(1ms);
    seen = target.notices().since(before);
  }
  return seen;
}

bool measures_one_at_a_time(const settings& what) {
  return what.batch == 1 && what.depth == 1 && what.threads == 1 && !what.verify;
}

} // namespace

base::expected<run_result> run_actor_engine(const settings& what, const actor_parts& parts, signals* watch) {
  if (auto ready = reset_target(what, parts); !ready)
    return base::fail(ready.error());
  run_result result;
  const auto noticed_before = parts.target != nullptr ? parts.target->notices() : notice_counts{};
  run_control control(what.batches);
  std::vector<std::unique_ptr<submitter>> workers;
  std::vector<const live_counters*> live;
  for (std::uint32_t i = 0; i < what.threads; ++i) {
    workers.push_back(
        std::make_unique<submitter>(what, i, parts.initiator.get(), parts.link, control, parts.memory));
    if (auto ready = workers.back()->prepare(); !ready)
      return base::fail(ready.error());
    live.push_back(&workers.back()->live());
  }
  std::unique_ptr<fault_run> faults;
  if (!what.faults.empty()) {
    fault_run::surroundings in;
    in.net = parts.net;
    in.events = parts.events;
    in.bytes_done = [&live] { return sum(live).bytes; };
    in.is_settled = [&parts] { return all_rails_usable(parts.initiator.get()); };
    in.on_trials_done = [&control] { control.finish(); };
    auto made = fault_run::create(what, std::move(in));
    if (!made)
      return base::fail(made.error());
    faults = std::move(*made);
  }
  if (measures_one_at_a_time(what))
    result.core_round_trip = measure_core_round_trip();
  crew threads;
  course(what, control, watch)
      .run(
          threads, live,
          [&] {
            for (auto& w : workers)
              threads.start([worker = w.get()] { worker->run(); });
          },
          [&] {
            if (faults)
              faults->start();
          },
          result);
  if (faults)
    result.faults = faults->finish();
  if (parts.state)
    result.state = parts.state->so_far();
  for (auto& w : workers) {
    if (w->left_something())
      w->abandon_memory();
    else
      w->sweep();
    result.count.merge(w->count());
  }
  if (what.notices && parts.target != nullptr)
    result.notices = notices_of_run(*parts.target, noticed_before, result.count.notices_delivered);
  return result;
}

base::expected<run_result> run_raw_engine(const settings& what, raw_link& link, run_memory memory,
                                          signals* watch) {
  run_result result;
  run_control control(what.batches);
  raw_engine engine(what, link, control, memory);
  base::expected<void> outcome;
  crew threads;
  if (measures_one_at_a_time(what))
    result.core_round_trip = measure_core_round_trip();
  course(what, control, watch)
      .run(
          threads, {&engine.live()}, [&] { threads.start([&] { outcome = engine.run(); }); }, [] {}, result);
  if (!outcome)
    return base::fail(outcome.error());
  engine.sweep();
  result.count = engine.count();
  return result;
}

} // namespace actor_rdma::bench
