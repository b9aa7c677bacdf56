// SPDX-License-Identifier: Apache-2.0
// The two bounds of the inbox, and who is told when there is room.
#include "actors/notice_inbox.hpp"

#include <utility>

namespace actor_rdma::actors {

namespace {

constexpr std::uint64_t half_share = bootstrap::notice_window / 2;

} // namespace

std::shared_ptr<notice_inbox::source> notice_inbox::open(std::function<void()> room_again) const {
  auto made = std::make_shared<source>();
  made->room_again_ = std::move(room_again);
  return made;
}

void notice_inbox::close(source& whose) {
  std::function<void()> drop; // what it captured goes after the lock
  std::lock_guard lock(mutex_);
  drop = std::exchange(whose.room_again_, nullptr);
}

bool notice_inbox::push(const std::shared_ptr<source>& from, received_notice&& what) {
  {
    std::lock_guard lock(mutex_);
    if (from->held_ >= bootstrap::notice_window) {
      from->waits_ = true;
      return false;
    }
    if (entries_.size() >= capacity_) {
      if (!std::exchange(from->starved_, true))
        starved_.push_back(from);
      return false;
    }
    entries_.push_back({from, std::move(what)});
    ++from->held_;
  }
  if (arrived_)
    arrived_();
  return true;
}

std::uint64_t notice_inbox::room_of(source& whose) {
  std::lock_guard lock(mutex_);
  const auto room = bootstrap::notice_window - whose.held_;
  whose.waits_ = whose.waits_ || room < half_share;
  return room;
}

std::optional<received_notice> notice_inbox::take() {
  std::vector<std::function<void()>> tell;
  std::optional<received_notice> taken;
  {
    std::lock_guard lock(mutex_);
    if (entries_.empty())
      return std::nullopt;
    auto& first = entries_.front();
    taken = std::move(first.what);
    auto& from = *first.from;
    --from.held_;
    if (from.waits_ && from.held_ <= half_share) {
      from.waits_ = false;
      tell.push_back(from.room_again_);
    }
    entries_.pop_front();
    // Not for every single place: each sender that is told sends a whole window again.
    if (!starved_.empty() && entries_.size() <= capacity_ - (capacity_ + 3) / 4) {
      for (const auto& s : std::exchange(starved_, {})) {
        s->starved_ = false;
        tell.push_back(s->room_again_);
      }
    }
  }
  for (const auto& t : tell)
    if (t)
      t();
  return taken;
}

std::size_t notice_inbox::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

} // namespace actor_rdma::actors
