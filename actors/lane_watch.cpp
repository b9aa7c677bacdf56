// SPDX-License-Identifier: Apache-2.0
#include "actors/lane_watch.hpp"

#include "base/checks.hpp"
#include "verbs/objects.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace actor_rdma::actors {

void lane_watch::add(ibv_cq* cq, verbs::completion_channel& channel, cq_sink& sink) {
  ACTOR_RDMA_ASSERT(cq != nullptr, "a lane cannot watch no completion queue");
  queue fresh;
  fresh.cq = cq;
  fresh.channel = &channel;
  fresh.sink = &sink;
  fresh.capacity = std::max(cq->cqe, 1);
  const auto known =
      std::find_if(sources_.begin(), sources_.end(), [&](const source& s) { return s.channel == &channel; });
  if (known != sources_.end())
    ++known->users;
  else
    fresh.error = add_source({0, channel.fd(), nullptr, &channel, 1});
  if (fresh.error != 0)
    fresh.channel = nullptr;
  queues_.push_back(fresh);
}

void lane_watch::remove(ibv_cq* cq) {
  const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const queue& q) { return q.cq == cq; });
  if (cq == nullptr || found == queues_.end())
    return;
  found->cq = nullptr; // the table itself may be in use just now
  some_unwatched_ = true;
  release(found->channel);
}

void lane_watch::release(verbs::completion_channel* channel) {
  if (channel == nullptr)
    return;
  const auto found =
      std::find_if(sources_.begin(), sources_.end(), [&](const source& s) { return s.channel == channel; });
  if (found == sources_.end() || --found->users > 0)
    return;
  gate_.remove_fd(found->fd);
  sources_.erase(found);
}

void lane_watch::add(int fd, fd_sink& sink) {
  const int error = add_source({0, fd, &sink, nullptr, 1});
  if (error != 0)
    guard_.on_fault("watch_fd",
                    ("descriptor " + std::to_string(fd) + ", errno " + std::to_string(error)).c_str());
}

void lane_watch::remove(int fd) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const source& s) { return s.fd == fd && s.sink != nullptr; });
  if (found == sources_.end())
    return;
  gate_.remove_fd(fd);
  sources_.erase(found);
}

int lane_watch::add_source(const source& what) {
  const auto token = ++last_token_;
  if (const auto added = gate_.add_fd(what.fd, token); !added)
    return added.error().sys_errno != 0 ? added.error().sys_errno : EIO;
  sources_.push_back(what);
  sources_.back().token = token;
  return 0;
}

bool lane_watch::poll() {
  if (some_unwatched_) {
    std::erase_if(queues_, [](const queue& q) { return q.cq == nullptr; });
    some_unwatched_ = false;
  }
  bool any = false;
  drained_ = true;
  for (std::size_t i = 0; i < queues_.size(); ++i) { // sinks may add to the table
    auto& q = queues_[i];
    if (q.cq == nullptr)
      continue;
    const int wanted = std::min(poll_batch, q.capacity);
    const int taken = q.error != 0 ? -1 : ibv_poll_cq(q.cq, wanted, completions_.data());
    if (taken == 0) {
      q.backlog = 0;
      continue;
    }
    any = true;
    if (taken < 0) {
      fail(q);
      continue;
    }
    q.backlog = taken < wanted ? 0 : q.backlog + taken;
    if (q.backlog >= q.capacity)
      q.backlog = 0;
    drained_ = drained_ && q.backlog == 0;
    guard_.guarded("completions", [this, sink = q.sink, taken] {
      sink->on_completions({completions_.data(), static_cast<std::size_t>(taken)});
    });
  }
  return any;
}

void lane_watch::fail(queue& which) {
  auto* const sink = which.sink;
  const int error = which.error != 0 ? which.error : EIO; // what ibv_poll_cq returns then has no meaning
  remove(which.cq);
  guard_.guarded("failed completion queue", [sink, error] { sink->on_cq_failed(error); });
}

void lane_watch::arm() {
  for (auto& q : queues_) {
    if (q.cq == nullptr || q.armed || q.error != 0)
      continue;
    q.error = ibv_req_notify_cq(q.cq, 0);
    q.armed = q.error == 0;
  }
}

bool lane_watch::read(base::time_point now) {
  if (ready_.empty()) {
    if (sources_.empty() || now - looked_at_ < look_every)
      return false;
    ready_ = gate_.wait(base::duration::zero());
  }
  looked_at_ = now;
  const auto ready = std::exchange(ready_, {});
  for (const auto& r : ready)
    dispatch(r.token);
  return !ready.empty();
}

void lane_watch::dispatch(std::uint64_t token) {
  const auto found =
      std::find_if(sources_.begin(), sources_.end(), [&](const source& s) { return s.token == token; });
  if (found == sources_.end())
    return; // unwatched meanwhile
  if (found->sink != nullptr) {
    guard_.guarded("descriptor", [sink = found->sink, fd = found->fd] { sink->on_readable(fd); });
    return;
  }
  // An event may be older than the completions that were polled since. It says only that its queues are not
  // armed.
  auto* const channel = found->channel;
  if (channel->drain() == 0)
    return;
  for (auto& q : queues_) {
    if (q.channel == channel)
      q.armed = false;
  }
}

} // namespace actor_rdma::actors
