// SPDX-License-Identifier: Apache-2.0
//
// The mailbox between the users of a TCP channel and its control thread.
#include "bootstrap/tcp_mailbox.hpp"

#include "bootstrap/link_end.hpp"

#include <utility>

#include <unistd.h>

namespace actor_rdma::bootstrap::tcp {

link_id mailbox::open_link() {
  const auto link = new_id();
  const std::lock_guard lock{mutex_};
  if (!closed_)
    links_.try_emplace(link);
  return link;
}

bool mailbox::post(command what) {
  const std::lock_guard lock{mutex_};
  if (closed_)
    return false;
  add(std::move(what));
  return true;
}

bool mailbox::push(link_id link, frame&& bytes) {
  const std::lock_guard lock{mutex_};
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.sealed)
    return false;
  auto& out = found->second;
  if (out.bytes + bytes.size() > queue_bytes_) {
    out.sealed = true;
    add(abort_link{link, link_end::overflow({})});
    return false;
  }
  out.bytes += bytes.size();
  if (out.frames.empty())
    add(flush_link{link});
  out.frames.push_back(std::move(bytes));
  return true;
}

void mailbox::close(link_id link) {
  const std::lock_guard lock{mutex_};
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.sealed)
    return;
  found->second.sealed = true;
  add(close_link{link});
}

void mailbox::abort(link_id link, base::error why) {
  const std::lock_guard lock{mutex_};
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.sealed)
    return;
  found->second.sealed = true;
  add(abort_link{link, std::move(why)});
}

void mailbox::close_all() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  links_.clear();
}

std::vector<command> mailbox::take() {
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  const std::lock_guard lock{mutex_};
  return std::exchange(commands_, {});
}

std::deque<frame> mailbox::take_frames(link_id link) {
  const std::lock_guard lock{mutex_};
  const auto found = links_.find(link);
  return found == links_.end() ? std::deque<frame>{} : std::exchange(found->second.frames, {});
}

void mailbox::sent(link_id link, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  if (const auto found = links_.find(link); found != links_.end())
    found->second.bytes -= bytes;
}

void mailbox::seal(link_id link) {
  const std::lock_guard lock{mutex_};
  if (const auto found = links_.find(link); found != links_.end())
    found->second.sealed = true;
}

void mailbox::forget(link_id link) {
  const std::lock_guard lock{mutex_};
  links_.erase(link);
}

void mailbox::add(command&& what) {
  commands_.push_back(std::move(what));
  if (commands_.size() == 1)
    wake();
}

void mailbox::wake() noexcept {
  const std::uint64_t one = 1;
  // It can only fail when the counter is at its maximum, and then the thread is awake.
  (void)!::write(wake_.get(), &one, sizeof one);
}

} // namespace actor_rdma::bootstrap::tcp
