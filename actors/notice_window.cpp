// SPDX-License-Identifier: Apache-2.0
// Numbering, acknowledgement and repetition of notices.
#include "actors/notice_window.hpp"

#include <algorithm>

namespace actor_rdma::actors {

void send_window::put(std::uint64_t id, std::shared_ptr<const notice> what) {
  entries_.push_back({id, std::move(what), false});
}

std::optional<send_window::outgoing> send_window::next() {
  if (cursor_ == entries_.size() || acked_ + cursor_ >= limit_)
    return std::nullopt;
  const auto& e = entries_[cursor_];
  const outgoing out{e.id, acked_ + 1 + cursor_, e.what.get(), cursor_ < sent_};
  sent_ = std::max(sent_, ++cursor_);
  return out;
}

send_window::answer send_window::acknowledge(const bootstrap::noticed& m, std::vector<outgoing>& delivered) {
  if (m.session != session_)
    return answer::other_session;
  if (m.upto > acked_ + sent_)
    return answer::never_sent;
  delivered.reserve(m.upto > acked_ ? m.upto - acked_ : 0); // then nothing throws half-way
  while (acked_ < m.upto) {
    const auto& e = entries_.front();
    ++acked_;
    if (!e.abandoned)
      delivered.push_back({e.id, acked_, nullptr, false});
    entries_.pop_front();
    --sent_;
    cursor_ -= cursor_ > 0 ? 1 : 0;
  }
  // No receiver's promise makes us keep more than a window of entries that nobody waits for.
  limit_ = std::max(limit_, std::min(m.limit, acked_ + bootstrap::notice_window));
  if (m.again)
    cursor_ = 0;
  return answer::good;
}

std::optional<send_window::given_up> send_window::give_up(std::uint64_t id) {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const entry& e) { return e.id == id && !e.abandoned; });
  if (at == entries_.end())
    return std::nullopt;
  const auto place = static_cast<std::size_t>(at - entries_.begin());
  if (place >= sent_) {
    entries_.erase(at);
    return given_up{id, 0};
  }
  at->abandoned = true;
  return given_up{id, acked_ + 1 + place};
}

std::vector<send_window::given_up> send_window::restart(std::uint64_t session, bool unsent_too) {
  std::vector<given_up> gone;
  const auto until = unsent_too ? entries_.size() : sent_;
  gone.reserve(until);
  for (std::size_t i = 0; i < until; ++i) {
    if (!entries_[i].abandoned)
      gone.push_back({entries_[i].id, i < sent_ ? acked_ + 1 + i : 0});
  }
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(until));
  session_ = session;
  acked_ = 0;
  limit_ = bootstrap::notice_window;
  sent_ = 0;
  cursor_ = 0;
  return gone;
}

void departed_windows::keep(const bootstrap::caller& who, const receive_window& what) {
  if (what.session() == 0)
    return;
  if (windows_.size() >= capacity_)
    windows_.pop_front();
  windows_.emplace_back(who, what);
}

receive_window departed_windows::take(const bootstrap::caller& who) {
  const auto at =
      std::find_if(windows_.begin(), windows_.end(), [&](const auto& w) { return w.first == who; });
  if (at == windows_.end())
    return {};
  const auto found = at->second;
  windows_.erase(at);
  return found;
}

} // namespace actor_rdma::actors
