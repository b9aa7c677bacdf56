// SPDX-License-Identifier: Apache-2.0
// Registered memory on devices that come and go. For each buffer and device it is known which opening of the
// device its regions belong to, and which one they should; what differs is brought together, one slow call at
// a time, until nothing differs. A device that was opened again serves after each buffer was tried on it, and
// peers have the new keys by then. A buffer that cannot be registered there keeps nothing else from it: it
// has no keys on the device, which is told once and tried again with back-off, and they come when it works.
#include "actors/node.hpp"
#include "base/backoff.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

constexpr base::duration retry_least = std::chrono::milliseconds{20};
constexpr base::duration retry_most = std::chrono::milliseconds{1000};

} // namespace

void node::device_memory_changed(const device_changed& m) {
  auto& d = memory_[m.device];
  if (d.open == m.open)
    return;
  d.open = m.open;
  d.opening = m.opening;
  d.told = false;
  for (const auto& [id, b] : buffers_) {
    b->parts[m.device]->failures = 0;
    b->parts[m.device]->not_before = {};
  }
  if (d.open)
    d.probe_rkey = d.open->probe_rkey;
  reconcile(m.device);
}

/// Looks at all buffers of a device, begins what is to be done, and says when nothing is.
void node::reconcile(std::size_t device) {
  auto& d = memory_[device];
  if (stage_ != stage::running || (d.open && d.open->ctx.is_gone()))
    return; // the end takes everything back; of a device that is lost by now its QPs go first
  const auto wanted = d.open ? d.opening : 0;
  bool differs = false;
  for (const auto& [id, b] : buffers_) {
    if (b->what->closing && wanted != 0)
      continue; // its deregistration sees to all devices
    auto& part = *b->parts[device];
    if (b->calls == 0 && !part.busy && part.opening == wanted && part.complete == (wanted != 0))
      continue;
    const bool left_out = wanted != 0 && part.failures > 0;
    differs = differs || !left_out;
    if (b->calls > 0 || part.busy)
      continue; // its end comes back here
    if (left_out && env().now() < part.not_before)
      look_again_at(device, part.not_before);
    else if (part.opening != 0 && (part.opening != wanted || !part.regions.empty()))
      release_on(device, b);
    else
      register_again(device, b);
  }
  if (differs || d.told)
    return;
  d.told = true;
  if (!d.open)
    return caf::anon_send(where_.devices[device].handle, memory_released{d.opening});
  publish();
  caf::anon_send(where_.devices[device].handle, memory_registered{d.opening});
}

void node::register_again(std::size_t device, const std::shared_ptr<owned_buffer>& b) {
  b->parts[device]->busy = true;
  auto made = std::make_shared<registration>();
  made->opening = memory_[device].opening;
  made->chunk_bytes = b->what->chunk_bytes;
  in_steps(
      device,
      [on = memory_[device].open, part = b->parts[device], b, made] {
        return register_next(*on, *b->what, *part, *made);
      },
      [this, device, b, made] {
        b->parts[device]->busy = false;
        if (b->what->closing)
          return try_deregister(b->what->id);
        registered_again(device, *b, *made);
        reconcile(device);
      });
}

void node::registered_again(std::size_t device, owned_buffer& b, const registration& made) {
  keep_keys(device, b, made, made.opening);
  const auto& d = memory_[device];
  if (made.opening != d.opening)
    return;
  if (made.failure.why != base::reason::none)
    return try_later(device, b, made.failure);
  if (made.lkeys.empty())
    return; // it is lost again
  auto& part = *b.parts[device];
  if (const auto failures = std::exchange(part.failures, 0); failures > 0)
    note(observe::event_kind::keys_refreshed,
         fmt::format("buffer {} is registered on {} now, after {} failures", b.what->id,
                     where_.devices[device].object->name(), failures),
         base::level::info);
  if (!d.told)
    return; // it is published when the device is told
  if (b.what->published)
    publish();
  for (const auto& [address, p] : peers_)
    caf::anon_send(p.handle, keys_made{});
}

/// The device is left out: the buffer has no keys on it, and what needs it goes over others. One event for
/// each cause, however often it fails.
void node::try_later(std::size_t device, owned_buffer& b, const base::error& why) {
  auto& part = *b.parts[device];
  part.not_before = env().now() + base::backoff(retry_least, retry_most, part.failures++, env().random());
  if (part.failures > 1 && part.told_errno == why.sys_errno)
    return;
  part.told_errno = why.sys_errno;
  note(observe::event_kind::attempt_failed,
       fmt::format("{} is left out for buffer {}, which cannot be registered on it: {}",
                   where_.devices[device].object->name(), b.what->id, why.to_string()),
       base::level::warn);
}

/// Its regions stand in the way of closing the device, and nothing is posted on it any more. What other
/// devices have registered stays as it is.
void node::release_on(std::size_t device, const std::shared_ptr<owned_buffer>& b) {
  b->parts[device]->busy = true;
  auto why = std::make_shared<base::error>(base::error{base::reason::none});
  in_steps(
      device,
      [part = b->parts[device], why, at = std::size_t{0}]() mutable {
        return take_back_next(*part, at, *why);
      },
      [this, device, b, why] {
        b->parts[device]->busy = false;
        if (b->what->closing)
          return try_deregister(b->what->id);
        if (why->why != base::reason::none) { // they go with the device, which says it if that lasts
          caf::anon_send(where_.devices[device].handle, memory_released{memory_[device].opening, false});
          return look_again_at(device, env().now() + retry_least);
        }
        keep_keys(device, *b, {}, 0);
        reconcile(device);
      });
}

void node::look_again_at(std::size_t device, base::time_point when) {
  auto& d = memory_[device];
  if (when >= d.looks_at)
    return;
  if (d.look != deadline_id::none)
    env().cancel(d.look);
  d.looks_at = when;
  d.look = env().arm(when, *this, device_token | device);
}

} // namespace actor_rdma::actors
