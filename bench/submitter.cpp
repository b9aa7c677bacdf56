// SPDX-License-Identifier: Apache-2.0
// The submitting loop.
#include "bench/submitter.hpp"

#include "bench/cpu_time.hpp"
#include "bench/notice_book.hpp"
#include "bench/text.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

using namespace std::chrono_literals;

/// Long after its deadline a transfer must have ended: fences and shutdown have their own, much smaller
/// bounds.
constexpr base::duration patience = patience_after_run;
/// How often a waiting thread looks whether the run was told to stop.
constexpr base::duration look_up = 100ms;
/// After a failure that is not the target's end, so that a persistent one does not become a storm.
constexpr base::duration pause_after_failure = 10ms;
/// Reading the thread's CPU clock costs as much as handing over some transfers: small batches are sampled.
constexpr std::uint64_t always_sampled_batch = 256;
constexpr std::uint64_t sampling_interval = 64;

/// Threads of several runs over one pair of nodes count their notices from zero each.
std::atomic<std::uint32_t> next_source{0};

} // namespace

submitter::submitter(const settings& what, std::uint32_t thread, transport& over, target_link& link,
                     run_control& control, run_memory memory)
    : what_(what), thread_(thread), source_(next_source++), transport_(over), link_(link), control_(control),
      memory_(memory),
      content_(what, thread, memory,
               [this](std::uint64_t offset, std::uint64_t length) { return read_back(offset, length); }),
      requests_(what.batch) {}

base::expected<void> submitter::prepare() {
  if (!what_.verify || what_.op == operation::read || !memory_.peer.empty())
    return {};
  returned_ = memory_block(content::read_back_bytes(what_));
  if (!returned_)
    return base::fail(base::reason::resource, "", "no memory for reading back what was written");
  const auto registered = transport_.register_memory(returned_.data(), returned_.size(), false);
  return registered ? base::expected<void>{} : base::fail(registered.error());
}

void submitter::run() {
  view_ = link_.current();
  for (bool goes_on = true; goes_on || !open_.empty();) {
    if (!measuring_ && control_.is_measuring()) {
      measuring_ = true;
      count_.begin_measuring();
    }
    const bool lost = view_.is_lost();
    if (goes_on && lost && open_.empty())
      goes_on = restore_link();
    auto last = lost ? submitted::refused : submitted::yes;
    while (goes_on && last == submitted::yes && open_.size() < what_.depth) {
      last = submit_one();
      goes_on = last != submitted::run_is_over;
      if (what_.pause > base::duration::zero())
        std::this_thread::sleep_for(what_.pause);
    }
    if (!open_.empty())
      take_oldest();
  }
}

submitter::submitted submitter::submit_one() {
  if (!control_.take_ticket())
    return submitted::run_is_over;
  auto& where = content_.take();
  content_.before(where);
  for (std::uint64_t i = 0; i < what_.batch; ++i) {
    auto& r = requests_[i];
    const auto at = where.offset + i * what_.size;
    r.op = what_.op;
    r.local = memory_.local.data() + at;
    r.remote = view_.base + at;
    r.length = what_.size;
  }
  submit_options how;
  how.deadline = what_.deadline;
  if (what_.notices) {
    const bool shows_content = what_.verify && what_.op == operation::write;
    how.notice =
        to_notice({source_, where.round, submits_, where.offset, shows_content ? what_.batch_bytes() : 0});
  }
  const bool sampled = what_.batch >= always_sampled_batch || submits_ % sampling_interval == 0;
  ++submits_;
  const auto begin = base::mono_clock::now();
  const auto cpu_begin = sampled ? thread_cpu_time() : base::duration{};
  auto handed_over = transport_.submit(view_.target, requests_, std::move(how));
  if (sampled) {
    count_.submit_cpu += thread_cpu_time() - cpu_begin;
    count_.submit_sampled += what_.batch;
  }
  if (handed_over) {
    open_.push_back({std::move(*handed_over), &where, begin});
    return submitted::yes;
  }
  content_.lost(where);
  if (view_.is_lost()) { // the loop waits for the target
    control_.return_ticket();
    return submitted::refused;
  }
  count_.failed += what_.batch;
  count_.causes[handed_over.error().why] += what_.batch;
  live_counters::add(live_.not_completed, what_.batch);
  link_.report(view_, handed_over.error().why, "submit refused: " + handed_over.error().to_string());
  std::this_thread::sleep_for(pause_after_failure);
  return submitted::refused;
}

/// Waits for the end; false when it does not come. What has no deadline is cancelled some time after the run.
bool submitter::wait(batch& handle) {
  const bool has_deadline = what_.deadline != submit_options::no_deadline;
  const auto give_up = has_deadline ? base::mono_clock::now() + what_.deadline + patience : base::time_never;
  while (!handle.wait_for(look_up)) {
    const auto now = base::mono_clock::now();
    if (!has_deadline && cancel_at_ == base::time_never &&
        control_.finished().load(std::memory_order_relaxed))
      cancel_at_ = now + patience;
    if (control_.wants_cancel() || now >= cancel_at_) {
      handle.cancel();
      for (auto& other : open_)
        other.handle.cancel();
      handle.wait_for(patience);
      break;
    }
    if (now >= give_up)
      break;
  }
  return handle.done();
}

std::string submitter::why_stuck() const {
  if (what_.deadline == submit_options::no_deadline || control_.wants_cancel())
    return fmt::format("thread {}: a batch is still open {} after it was cancelled", thread_,
                       time_text(patience));
  return fmt::format("thread {}: a batch is still open {} after its deadline of {}", thread_,
                     time_text(patience), time_text(what_.deadline));
}

void submitter::take_oldest() {
  auto oldest = std::move(open_.front());
  open_.pop_front();
  if (!wait(oldest.handle)) {
    for (std::size_t i = 0; i < oldest.handle.size(); ++i)
      count_.stuck += oldest.handle.result(i).status == transfer_status::pending ? 1 : 0;
    content_.lost(*oldest.where);
    link_.report(view_, base::reason::timeout, why_stuck());
    control_.finish();
    return;
  }
  const auto took = base::mono_clock::now() - oldest.submitted;
  const auto before = count_.completed;
  for (std::size_t i = 0; i < oldest.handle.size(); ++i)
    count_result(oldest.handle.result(i));
  if (what_.notices) {
    const bool delivered = oldest.handle.notice().status == notice_status::delivered;
    ++(delivered ? count_.notices_delivered : count_.notices_not_delivered);
  }
  count_.latency.record(static_cast<std::uint64_t>(took.count()));
  ++count_.batches;
  const auto completed = count_.completed - before;
  live_counters::add(live_.bytes, completed * what_.size);
  live_counters::add(live_.completed, completed);
  if (completed == oldest.handle.size()) {
    content_.after(*oldest.where, count_);
    return;
  }
  live_counters::add(live_.not_completed, oldest.handle.size() - completed);
  content_.lost(*oldest.where);
  report_failures(oldest.handle, took);
  if (!view_.is_lost())
    std::this_thread::sleep_for(pause_after_failure);
}

void submitter::count_result(const transfer_result& r) {
  switch (r.status) {
  case transfer_status::completed:
    ++count_.completed;
    count_.bytes += what_.size;
    return;
  case transfer_status::timed_out: ++count_.timed_out; break;
  case transfer_status::pending: ++count_.stuck; break;
  case transfer_status::failed:
  case transfer_status::cancelled: ++count_.failed; break;
  }
  ++count_.causes[r.cause];
}

void submitter::report_failures(const batch& handle, base::duration after) {
  for (std::size_t i = 0; i < handle.size(); ++i) {
    const auto r = handle.result(i);
    if (r.status != transfer_status::completed)
      link_.report(view_, r.cause,
                   fmt::format("thread {}: transfer {}: {}, {} after it was submitted{}", thread_,
                               to_string(r.status), base::to_string(r.cause), time_text(after),
                               r.remote_fence_unconfirmed ? " (remote fence unconfirmed)" : ""));
  }
}

bool submitter::restore_link() {
  if (!link_.reconnect(view_.connection, control_.end(), control_.finished()))
    return false;
  view_ = link_.current();
  content_.target_restarted();
  return true;
}

std::span<const std::byte> submitter::read_back(std::uint64_t offset, std::uint64_t length) {
  transfer_request r;
  r.op = operation::read;
  r.local = returned_.data();
  r.remote = view_.base + offset;
  r.length = length;
  submit_options how;
  how.deadline = what_.deadline;
  auto reading = transport_.submit(view_.target, {&r, 1}, std::move(how));
  if (reading && wait(*reading) && reading->result(0).status == transfer_status::completed)
    return returned_.bytes().first(length);
  const auto cause = !reading ? reading.error().why : reading->result(0).cause;
  if (reading)
    count_.stuck += reading->done() ? 0 : 1;
  ++count_.failed;
  ++count_.causes[cause];
  link_.report(view_, cause,
               fmt::format("thread {}: reading back failed: {}", thread_,
                           reading ? base::to_string(cause) : reading.error().to_string()));
  return {};
}

} // namespace actor_rdma::bench
