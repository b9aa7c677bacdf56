// SPDX-License-Identifier: Apache-2.0
// Registered memory on devices that come and go. For each buffer and device it is known which opening of the
// device its regions belong to, and which one they should; what differs is brought together, one slow call at
// a time, until nothing differs. A device that was opened again serves only after it was told that all memory
// is registered on it, so nobody meets a part of it. Peers have the new keys by then.
#include "actors/node.hpp"

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
  d.failures = 0;
  d.not_before = {};
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
    differs = true;
    if (b->calls > 0 || part.busy)
      continue; // its end comes back here
    if (env().now() < d.not_before)
      look_again_at(device, d.not_before - env().now());
    else if (part.opening != 0)
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
  env().run_slow(
      static_cast<std::uint32_t>(device),
      [on = memory_[device].open, part = b->parts[device], b, made] {
        register_regions(*on, *b->what, *part, *made);
      },
      [self = shared(this), device, opening = memory_[device].opening, b, made] {
        self->guarded([&] {
          auto& d = self->memory_[device];
          b->parts[device]->busy = false;
          if (!b->what->closing)
            self->keep_keys(device, *b, *made, opening);
          if (made->failure.why != base::reason::none && opening == d.opening) {
            const auto wait = std::min(retry_least * (1u << std::min(d.failures, 10u)), retry_most);
            d.not_before = self->env().now() + wait / 2 +
                           base::duration{static_cast<std::int64_t>(
                               self->env().random() % static_cast<std::uint64_t>(wait.count() / 2 + 1))};
            self->note(observe::event_kind::attempt_failed,
                       fmt::format("{} stays out: buffer {} cannot be registered on it again: {}",
                                   self->where_.devices[device].object->name(), b->what->id,
                                   made->failure.to_string()),
                       d.failures++ < 3 ? base::level::warn : base::level::debug);
          }
          self->reconcile(device);
        });
      });
}

/// Its regions stand in the way of closing the device, and nothing is posted on it any more. What other
/// devices have registered stays as it is.
void node::release_on(std::size_t device, const std::shared_ptr<owned_buffer>& b) {
  b->parts[device]->busy = true;
  auto refused = std::make_shared<bool>(false);
  env().run_slow(
      static_cast<std::uint32_t>(device),
      [part = b->parts[device], refused] {
        for (auto& region : part->regions)
          *refused = !region.destroy() || *refused;
      },
      [self = shared(this), device, b, refused] {
        self->guarded([&] {
          b->parts[device]->busy = false;
          if (*refused) // the device says what is left of it, if that lasts
            return self->look_again_at(device, retry_most / 10);
          self->keep_keys(device, *b, {}, 0);
          self->reconcile(device);
        });
      });
}

void node::look_again_at(std::size_t device, base::duration in) {
  if (!std::exchange(memory_[device].waits, true))
    env().arm(env().now() + in, *this, device_token | device);
}

} // namespace actor_rdma::actors
