// SPDX-License-Identifier: Apache-2.0
// Putting the witnesses together.
#include "bench/recovery.hpp"

#include "bench/health.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

using verbs::soft::log_kind;
using namespace std::chrono_literals;

constexpr base::duration rate_window = 100ms;
constexpr base::duration rate_before = 1s; ///< what "full" means is measured so long before zero
constexpr double full = 0.9;

std::string local_name(const std::string& device) {
  return device.substr(device.find('/') + 1);
}

bool detects(const observe::event& e) {
  switch (e.kind) {
  case observe::event_kind::stall_suspected:
  case observe::event_kind::wr_error:
  case observe::event_kind::peer_lost:
  case observe::event_kind::peer_dead: return true;
  case observe::event_kind::transition: return e.from == "ACTIVE";
  default: return false;
  }
}

std::string text_of(const observe::event& e) {
  auto text = e.kind == observe::event_kind::transition ? fmt::format("{} {} -> {}", e.subject, e.from, e.to)
                                                        : fmt::format("{}: {}", e.subject, to_string(e.kind));
  if (!e.detail.empty())
    text += " (" + e.detail + ')';
  return text;
}

} // namespace

void recovery_tracker::on_log(const verbs::soft::log_entry& e) {
  const bool is_ours = e.device.size() > host_.size() && e.device.compare(0, host_.size(), host_) == 0 &&
                       e.device[host_.size()] == '/';
  switch (e.kind) {
  case log_kind::link_down: set_zero(e, e.device + ": the port went down"); break;
  case log_kind::swallowed:
    if (!is_ours)
      break;
    set_zero(e, e.device + " swallowed its first WR");
    take(e);
    break;
  case log_kind::flushed:
  case log_kind::retry_exceeded:
    if (zero_ && e.device == faulty_)
      take(e);
    break;
  case log_kind::posted:
    if (is_ours)
      on_posted(e);
    break;
  default: break;
  }
}

void recovery_tracker::set_zero(const verbs::soft::log_entry& e, std::string what) {
  if (zero_)
    return;
  zero_ = e.at;
  zero_is_ = std::move(what);
  faulty_ = host_ + '/' + local_name(e.device);
  for (const auto& [qp, device] : qps_)
    if (device == faulty_)
      victim_qps_.insert(qp);
}

/// The fault took this WR.
void recovery_tracker::take(const verbs::soft::log_entry& e) {
  victim_qps_.insert(e.qp_num);
  victims_.insert(e.remote_addr);
  // With one device its own posting may have looked like one on a QP that works.
  if (const auto own = elsewhere_.find(e.remote_addr);
      own != elsewhere_.end() && own->second.qp_num == e.qp_num)
    elsewhere_.erase(own);
}

void recovery_tracker::on_posted(const verbs::soft::log_entry& e) {
  if (!zero_) {
    qps_[e.qp_num] = e.device;
    return;
  }
  const bool is_elsewhere = devices_ > 1 ? e.device != faulty_ : victim_qps_.count(e.qp_num) == 0;
  if (is_elsewhere)
    elsewhere_.try_emplace(e.remote_addr, post_elsewhere{e.at, e.device, e.qp_num});
  else if (victims_.count(e.remote_addr) == 0)
    elsewhere_.erase(e.remote_addr); // what was posted there before was another transfer, and it has ended
}

const recovery_tracker::post_elsewhere* recovery_tracker::first_reissue() const {
  const post_elsewhere* first = nullptr;
  for (const auto addr : victims_)
    if (const auto found = elsewhere_.find(addr);
        found != elsewhere_.end() && (first == nullptr || found->second.at < first->at))
      first = &found->second;
  return first;
}

std::optional<recovery> recovery_tracker::result() const {
  if (!zero_)
    return std::nullopt;
  recovery r;
  r.zero = *zero_;
  r.zero_is = zero_is_;
  const auto add = [&](base::time_point at, std::string what) {
    r.timeline.push_back({at - r.zero, std::move(what)});
  };
  for (const auto& s : steps_)
    add(s.at, "fault: " + s.what);
  add(r.zero, zero_is_);
  add_events(r);
  if (const auto* again = first_reissue()) {
    r.first_reissue = again->at - r.zero;
    add(again->at, "first slice posted again, on " + again->device);
  }
  if (const auto at = full_rate_at()) {
    r.full_rate = *at - r.zero;
    add(*at, *at == r.zero ? "the rate never fell below 90 %" : "back at full rate");
  }
  std::stable_sort(r.timeline.begin(), r.timeline.end(),
                   [](const auto& a, const auto& b) { return a.after < b.after; });
  return r;
}

void recovery_tracker::add_events(recovery& r) const {
  const auto add = [&](const observe::event& e, const std::string& prefix) {
    r.timeline.push_back({e.at - r.zero, prefix + text_of(e)});
  };
  bool any_fence = false;
  bool any_remote_fence = false;
  const observe::event* last_rebuilt = nullptr;
  for (const auto& e : events_) {
    if (e.at < r.zero)
      continue;
    if (!r.detected && detects(e)) {
      r.detected = e.at - r.zero;
      add(e, "detected: ");
    }
    if (e.kind == observe::event_kind::fenced && !std::exchange(any_fence, true))
      add(e, "first local fence: ");
    if (e.kind == observe::event_kind::remote_fence && !std::exchange(any_remote_fence, true))
      add(e, "first remote fence: ");
    if (e.kind == observe::event_kind::quarantined || e.kind == observe::event_kind::internal_fault)
      add(e, "");
    if (!is_made_qp(e))
      continue;
    if (++r.rebuilds == 1)
      add(e, "first rebuilt QP: ");
    else
      last_rebuilt = &e;
  }
  if (last_rebuilt != nullptr)
    add(*last_rebuilt, "last rebuilt QP: ");
}

double recovery_tracker::bytes_at(base::time_point when) const {
  const auto after = std::lower_bound(samples_.begin(), samples_.end(), when,
                                      [](const sample& s, base::time_point t) { return s.at < t; });
  if (after == samples_.end())
    return static_cast<double>(samples_.back().bytes);
  if (after == samples_.begin())
    return static_cast<double>(after->bytes);
  const auto& before = *(after - 1);
  const auto share = std::chrono::duration<double>(when - before.at) / (after->at - before.at);
  return static_cast<double>(before.bytes) + share * static_cast<double>(after->bytes - before.bytes);
}

/// Begin of the first two windows in a row that are as fast as it was before, after one that was not.
std::optional<base::time_point> recovery_tracker::full_rate_at() const {
  if (samples_.size() < 2 || samples_.front().at >= *zero_)
    return std::nullopt;
  const auto from = std::max(samples_.front().at, *zero_ - rate_before);
  const auto before =
      (bytes_at(*zero_) - bytes_at(from)) / std::chrono::duration<double>(*zero_ - from).count();
  const auto needed = full * before * std::chrono::duration<double>(rate_window).count();
  bool fell = false;
  bool was_fast = true;
  for (auto at = *zero_; at + rate_window <= samples_.back().at; at += rate_window) {
    const bool is_fast = bytes_at(at + rate_window) - bytes_at(at) >= needed;
    if (fell && was_fast && is_fast)
      return at - rate_window;
    fell = fell || !is_fast;
    was_fast = is_fast;
  }
  return fell ? std::nullopt : zero_;
}

} // namespace actor_rdma::bench
