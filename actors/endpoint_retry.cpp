// SPDX-License-Identifier: Apache-2.0
// When an endpoint tries again: after attempts that failed, and after QPs that had to be fenced.
#include "actors/endpoint.hpp"
#include "actors/qp.hpp"
#include "base/backoff.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// So many completions are service, however short the QP lived.
constexpr std::uint32_t enough_service = 4;

} // namespace

/// An answered probe proves the path for a moment: a QP that failed soon after it, and had done next to
/// nothing, waits like one that never came up. Else a path that lets probes through and nothing else would be
/// rebuilt without a pause.
void endpoint::wait_after_fence(member& q, std::uint32_t served) {
  if (env().now() - q.ready_since >= config_.rebuild_backoff_max || served >= enough_service)
    q.failures = 0;
  if (q.failures > 0)
    back_off(q);
  else
    q.not_before = env().now();
  ++q.failures;
}

void endpoint::fail_attempt(member& q, const std::string& why) {
  const bool was_under_way = !std::exchange(q.idle, true);
  const bool was_made = q.created.has_value();
  q.works_no_more();
  q.created.reset();
  q.gid_index.reset();
  cause_ = why;
  device_->look_at_port();
  if (!where_.initiator) {
    if (const auto wanted = std::exchange(q.wanted, std::nullopt))
      refuse(index_of(q), wanted->generation, bootstrap::reject_code::resources, why);
    answer_retired(q);
    if (!was_made)
      caf::anon_send(where_.owner, room_wanted{});
    return;
  }
  if (was_under_way)
    note_failure(q, why);
  back_off(q);
  ++q.failures;
  attempt_failure_ = why;
  send(bootstrap::ping{}); // if what it publishes now has not come, the answer says so
  raise(endpoint_event::attempt_failed, why);
  give_up_incomplete();
  schedule_retry();
}

/// A first connect takes all QPs together. When each was made or has failed, and one has failed, those that
/// were made would wait for it until their deadline, and would tell of nothing but that.
void endpoint::give_up_incomplete() {
  const auto under_way = [](const member& q) { return !q.left_out && !q.idle; };
  if (established_ || std::any_of(members_.begin(), members_.end(),
                                  [&](const member& q) { return under_way(q) && (!q.created || q.ending); }))
    return;
  for (auto& q : members_)
    if (under_way(q))
      fence(q, attempt_failure_);
}

/// Unlimited patience, but never in a hurry, and not all at once with other endpoints.
void endpoint::back_off(member& q) {
  q.not_before = env().now() + base::backoff(config_.rebuild_backoff_min, config_.rebuild_backoff_max,
                                             q.failures, env().random());
}

/// Never silent and never noisy: the log hears each reason once, until a QP is usable again.
void endpoint::note_failure(const member& q, const std::string& why) {
  const bool known = why == last_refusal_ || failures_told_.size() >= 8 ||
                     std::find(failures_told_.begin(), failures_told_.end(), why) != failures_told_.end();
  const auto at = known ? base::level::debug : base::level::warn;
  if (!known)
    failures_told_.push_back(why);
  note(observe::event_kind::attempt_failed, fmt::format("#{}: {}", index_of(q), why), 0, at);
}

void endpoint::schedule_retry() {
  if (stopping_)
    return;
  // The first connect takes all QPs together: before the last of them may try there is nothing to do, and to
  // look earlier would be to look without a pause.
  std::optional<base::time_point> next;
  for (const auto& q : members_)
    if (q.idle && !q.gone && !q.left_out)
      next = !next          ? q.not_before
             : established_ ? std::min(*next, q.not_before)
                            : std::max(*next, q.not_before);
  if (!next)
    return;
  if (retry_timer_ != deadline_id::none)
    env().cancel(retry_timer_);
  retry_timer_ = env().arm(*next, *this, static_cast<std::uint64_t>(timer::retry));
}

} // namespace actor_rdma::actors
