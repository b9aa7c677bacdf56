// SPDX-License-Identifier: Apache-2.0
// Registration and deregistration of memory. A buffer is registered with every device or not at all.
// Deregistration ends the batches that use it, waits until they have ended (which means fenced), and only
// then takes the regions away.
#include "actors/node.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

namespace {

/// How often a deregistration looks whether the buffer's batches have ended.
constexpr auto look_again = std::chrono::milliseconds{2};

} // namespace

void node::handle(register_buffer& m) {
  if (stage_ != stage::running)
    return m.done(base::fail(base::reason::shutting_down, "transport", "it shuts down"));
  auto b = std::make_shared<owned_buffer>();
  b->what = std::make_shared<local_buffer>();
  b->what->id = next_buffer_++;
  b->what->addr = m.addr;
  b->what->length = m.length;
  b->what->published = m.published;
  const auto n = where_.devices.size();
  b->what->lkeys.resize(n);
  b->what->rkeys.resize(n);
  b->regions.resize(n);
  b->registered = std::move(m.done);
  b->calls = static_cast<std::uint32_t>(n);
  buffers_[b->what->id] = b;
  const int access =
      IBV_ACCESS_LOCAL_WRITE | (m.published ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0);
  for (std::size_t i = 0; i < n; ++i) {
    auto made = std::make_shared<base::expected<verbs::memory_region>>(
        base::fail(base::reason::internal, "verbs", "not called"));
    env().run_slow(
        static_cast<std::uint32_t>(i),
        [dev = where_.devices[i].object, made, addr = m.addr, length = m.length, access] {
          *made = verbs::memory_region::reg(dev->pd(), reinterpret_cast<void*>(addr), length, access);
        },
        [self = shared(this), b, i, made] {
          self->guarded([&] {
            if (*made)
              b->regions[i] = std::move(**made);
            else
              b->failure = made->error();
            self->region_made(b);
          });
        });
  }
}

void node::region_made(const std::shared_ptr<owned_buffer>& b) {
  if (--b->calls > 0)
    return;
  auto answer = std::exchange(b->registered, nullptr);
  if (b->failure.why != base::reason::none) {
    b->deregistered = [answer, why = b->failure](const base::expected<void>&) { answer(base::fail(why)); };
    b->what->closing = true;
    b->give_up_at = base::time_point::max();
    return release_regions(b);
  }
  for (std::size_t i = 0; i < b->regions.size(); ++i) {
    b->what->lkeys[i] = b->regions[i].lkey();
    b->what->rkeys[i] = b->regions[i].rkey();
  }
  refresh_view();
  if (b->what->published)
    publish();
  answer(b->what);
}

void node::refresh_view() {
  auto list = std::make_shared<buffer_view::list>();
  for (const auto& [id, b] : buffers_)
    if (b->calls == 0 && !b->what->closing)
      list->push_back(b->what);
  std::sort(list->begin(), list->end(), [](const auto& a, const auto& b) { return a->addr < b->addr; });
  where_.view->set(std::move(list));
}

void node::handle(deregister_buffer& m) {
  const auto at = buffers_.find(m.buffer->id);
  if (at == buffers_.end())
    return m.done(base::fail(base::reason::not_found, "transport",
                             fmt::format("buffer {} is not registered", m.buffer->id)));
  auto& b = *at->second;
  if (b.deregistered)
    return m.done(base::fail(base::reason::busy, "transport",
                             fmt::format("buffer {} is being deregistered", m.buffer->id)));
  b.what->closing.store(true, std::memory_order_seq_cst);
  if (m.refuse_if_used && b.what->open_batches.load(std::memory_order_seq_cst) > 0) {
    b.what->closing = false;
    return m.done(base::fail(base::reason::busy, "transport",
                             fmt::format("buffer {} is used by open transfers", m.buffer->id)));
  }
  b.deregistered = std::move(m.done);
  b.give_up_at = env().now() + m.patience;
  refresh_view();
  if (b.what->published)
    publish();
  for (const auto& [address, p] : peers_)
    caf::anon_send(p.handle, cancel_buffer{b.what});
  try_deregister(b.what->id);
}

void node::on_deadline(std::uint64_t token) {
  guarded([&] { try_deregister(token); });
}

void node::try_deregister(std::uint64_t id) {
  const auto at = buffers_.find(id);
  if (at == buffers_.end())
    return;
  const auto b = at->second;
  if (b->calls > 0)
    return;
  if (b->what->open_batches.load(std::memory_order_acquire) == 0)
    return release_regions(b);
  if (env().now() < b->give_up_at) {
    env().arm(env().now() + look_again, *this, id);
    return;
  }
  note(observe::event_kind::quarantined, fmt::format("buffer {}: open transfers still use it", id),
       base::level::error);
  std::exchange(b->deregistered, nullptr)(base::fail(
      base::reason::timeout, "transport",
      fmt::format("buffer {} stays registered: transfers that use it could not be fenced in time", id)));
}

void node::release_regions(const std::shared_ptr<owned_buffer>& b) {
  b->failure = {base::reason::none};
  b->calls = static_cast<std::uint32_t>(b->regions.size());
  for (std::size_t i = 0; i < b->regions.size(); ++i) {
    auto why = std::make_shared<base::error>(base::error{base::reason::none});
    env().run_slow(
        static_cast<std::uint32_t>(i),
        [b, i, why] {
          if (!b->regions[i])
            return;
          if (auto gone = b->regions[i].destroy(); !gone)
            *why = gone.error();
        },
        [self = shared(this), b, why] {
          self->guarded([&] {
            if (why->why != base::reason::none)
              b->failure = *why;
            if (--b->calls == 0)
              self->regions_released(b);
          });
        });
  }
}

void node::regions_released(const std::shared_ptr<owned_buffer>& b) {
  if (b->failure.why == base::reason::none) {
    buffers_.erase(b->what->id);
    if (auto done = std::exchange(b->deregistered, nullptr))
      done({});
    return;
  }
  if (env().now() < b->give_up_at) {
    env().arm(env().now() + config_.drain_deadline, *this, b->what->id);
    return;
  }
  note(observe::event_kind::quarantined, fmt::format("buffer {}: {}", b->what->id, b->failure.to_string()),
       base::level::error);
  std::exchange(b->deregistered, nullptr)(base::fail(b->failure));
}

} // namespace actor_rdma::actors
