// SPDX-License-Identifier: Apache-2.0
// Registration and deregistration of memory. A buffer is registered on every device, on each to its full
// length or not at all, in several regions where a device takes no longer ones. Where that fails the device
// is left out and tried again, and its rails do not carry what needs the buffer. It fails when no device has
// it. Deregistration ends the batches that use it, waits until they have ended (which means fenced), and only
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
  std::vector<std::uint64_t> limits;
  for (const auto& d : where_.devices)
    limits.push_back(d.object->max_region_bytes());
  // No call of a device is to take longer than the others of its queue can wait.
  limits.push_back(std::max(longest_region, m.length / (max_chunks / 2)));
  b->what->chunk_bytes = chunk_bytes_for(m.length, limits);
  b->what->devices = devices_at_most_; // there is a place for the keys of those that come later
  const auto chunks = b->what->chunks();
  if (chunks > max_chunks)
    return m.done(
        base::fail(base::reason::resource, "transport",
                   fmt::format("{} bytes would take {} memory regions of {} bytes, and at most {} are made",
                               m.length, chunks, b->what->chunk_bytes, max_chunks)));
  for (std::size_t i = 0; i < n; ++i)
    b->parts.push_back(std::make_shared<buffer_part>());
  b->registered = std::move(m.done);
  b->calls = static_cast<std::uint32_t>(n);
  b->made.resize(n);
  buffers_[b->what->id] = b;
  for (std::size_t i = 0; i < n; ++i)
    register_with(i, b);
}

/// What was made of a registration that failed is taken back by regions_made().
void node::register_with(std::size_t device, const std::shared_ptr<owned_buffer>& b) {
  auto made = std::make_shared<registration>();
  made->opening = memory_[device].opening;
  made->chunk_bytes = b->what->chunk_bytes;
  made->least = config_.smallest_region_bytes;
  b->parts[device]->busy = true;
  in_steps(
      device,
      [on = memory_[device].open, part = b->parts[device], b, made] {
        return !on || register_next(*on, *b->what, *part, *made); // without one it is lost
      },
      [this, device, b, made] {
        if (!b->registered)
          return late_regions_made(device, b, *made);
        b->made[device] = std::move(*made);
        b->parts[device]->busy = false;
        if (--b->calls == 0)
          return regions_made(b);
        if (!b->made[device].lkeys.empty() && !std::exchange(b->waits_no_longer, true))
          env().arm(env().now() + config_.register_wait, *this, answer_token | b->what->id);
      });
}

/// One device has had all of it for a while. That is enough to use it by: large memory takes a device
/// minutes.
void node::answer_early(std::uint64_t id) {
  const auto at = buffers_.find(id);
  if (at == buffers_.end() || !at->second->registered || at->second->calls == 0)
    return;
  const auto b = at->second;
  b->calls = 0;
  const auto least = take_shortest_chunks(*b);
  for (auto& m : b->made)
    if (m.chunk_bytes != least) { // it is registered anew
      m.lkeys.clear();
      m.rkeys.clear();
    }
  note(observe::event_kind::keys_refreshed,
       fmt::format("buffer {} is used while some devices still register it", id), base::level::info);
  all_made(b);
}

/// On a device for which nobody waited.
void node::late_regions_made(std::size_t device, const std::shared_ptr<owned_buffer>& b,
                             const registration& made) {
  b->parts[device]->busy = false;
  if (b->what->closing)
    return try_deregister(b->what->id);
  if (made.chunk_bytes == b->what->chunk_bytes)
    registered_again(device, *b, made);
  else
    keep_keys(device, *b, {}, made.opening); // as long as on the others, and not longer or shorter
  reconcile(device);
}

void node::keep_keys(std::size_t device, owned_buffer& b, const registration& made, std::uint32_t opening) {
  // A part of the regions may be there though no key is: they have to be taken back all the same.
  b.parts[device]->opening = opening;
  b.parts[device]->complete = !made.lkeys.empty();
  for (std::size_t chunk = 0; chunk < b.what->chunks(); ++chunk) {
    const auto at = chunk * b.what->devices + device;
    b.what->lkeys.set(at, made.lkeys.empty() ? 0 : made.lkeys[chunk]);
    b.what->rkeys[at] = made.rkeys.empty() ? 0 : made.rkeys[chunk];
  }
}

std::uint64_t node::take_shortest_chunks(owned_buffer& b) {
  auto least = b.what->chunk_bytes;
  for (const auto& m : b.made)
    if (!m.lkeys.empty())
      least = std::min(least, m.chunk_bytes);
  return b.what->chunk_bytes = least;
}

/// The chunks of a buffer are as long on one device as on any other. False when some have to be made anew,
/// because another device has room for smaller ones only.
bool node::settle_chunks(const std::shared_ptr<owned_buffer>& b) {
  const auto least = take_shortest_chunks(*b);
  std::vector<std::size_t> anew;
  for (std::size_t device = 0; device < b->made.size(); ++device)
    if (!b->made[device].lkeys.empty() && b->made[device].chunk_bytes > least)
      anew.push_back(device);
  b->calls = static_cast<std::uint32_t>(anew.size());
  for (const auto device : anew)
    register_with(device, b);
  return anew.empty();
}

/// A device on which it failed is left out and tried again, as long as there is one on which it did not.
void node::regions_made(const std::shared_ptr<owned_buffer>& b) {
  if (settle_chunks(b))
    all_made(b);
}

void node::all_made(const std::shared_ptr<owned_buffer>& b) {
  b->what->lkeys.resize(b->what->devices * b->what->chunks());
  b->what->rkeys.resize(b->what->devices * b->what->chunks());
  const auto made = std::exchange(b->made, {});
  bool anywhere = false;
  base::error failure{base::reason::none};
  for (std::size_t device = 0; device < made.size(); ++device) {
    keep_keys(device, *b, made[device], made[device].opening);
    anywhere = anywhere || !made[device].lkeys.empty();
    if (failure.why == base::reason::none)
      failure = made[device].failure;
  }
  auto answer = std::exchange(b->registered, nullptr);
  if (failure.why != base::reason::none && !anywhere) {
    b->deregistered = [answer, failure, earlier = std::move(b->deregistered)](const auto& outcome) {
      answer(base::fail(failure));
      if (earlier)
        earlier(outcome);
    };
    b->what->closing = true;
    b->give_up_at = base::time_point::max();
    return release_regions(b);
  }
  for (std::size_t device = 0; device < made.size(); ++device)
    if (made[device].failure.why != base::reason::none && made[device].opening == memory_[device].opening)
      try_later(device, *b, made[device].failure);
  refresh_view();
  if (b->what->published)
    publish();
  answer(b->what);
  for (std::size_t device = 0; device < memory_.size(); ++device)
    reconcile(device); // one of them may have gone or come meanwhile, or been left out
  if (b->deregistered)
    try_deregister(b->what->id); // everything ends
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
  guarded([&] {
    if ((token & device_token) == 0)
      return (token & answer_token) != 0 ? answer_early(token & ~answer_token) : try_deregister(token);
    if (token == look_token)
      return look_for_devices();
    const auto device = static_cast<std::size_t>(token & ~device_token);
    memory_[device].look = deadline_id::none;
    memory_[device].looks_at = base::time_point::max();
    reconcile(device);
  });
}

void node::try_deregister(std::uint64_t id) {
  const auto at = buffers_.find(id);
  if (at == buffers_.end())
    return;
  const auto b = at->second;
  const bool is_busy = std::any_of(b->parts.begin(), b->parts.end(), [](auto& part) { return part->busy; });
  if (b->calls > 0 || is_busy || !b->deregistered)
    return; // what is under way looks here again
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
  b->calls = static_cast<std::uint32_t>(b->parts.size());
  for (std::size_t i = 0; i < b->parts.size(); ++i) {
    auto why = std::make_shared<base::error>(base::error{base::reason::none});
    in_steps(
        i,
        [part = b->parts[i], why, at = std::size_t{0}]() mutable { return take_back_next(*part, at, *why); },
        [this, b, why] {
          if (why->why != base::reason::none)
            b->failure = *why;
          if (--b->calls == 0)
            regions_released(b);
        });
  }
}

void node::regions_released(const std::shared_ptr<owned_buffer>& b) {
  if (b->failure.why == base::reason::none) {
    buffers_.erase(b->what->id);
    if (auto done = std::exchange(b->deregistered, nullptr))
      done({});
  } else if (env().now() < b->give_up_at) {
    env().arm(env().now() + config_.drain_deadline, *this, b->what->id);
  } else {
    note(observe::event_kind::quarantined, fmt::format("buffer {}: {}", b->what->id, b->failure.to_string()),
         base::level::error);
    std::exchange(b->deregistered, nullptr)(base::fail(b->failure));
  }
  for (std::size_t device = 0; device < memory_.size(); ++device)
    reconcile(device); // which may have waited for this
}

} // namespace actor_rdma::actors
