// SPDX-License-Identifier: Apache-2.0
// The calls of a running transport: memory, peers, batches, snapshots. Each wait here has a deadline.
#include "actors/submission.hpp"
#include "transport/internal/core.hpp"
#include "transport/internal/fork_guard.hpp"

#include <future>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::detail {

namespace {

/// Pinning a large buffer takes long on hardware.
constexpr auto register_patience = std::chrono::seconds{120};

/// Runs `start`, which must see to it that its argument is called once, and waits for the value.
template <class T, class Start>
base::expected<T> wait_for(base::duration patience, const std::string& what, Start&& start) {
  auto promise = std::make_shared<std::promise<base::expected<T>>>();
  auto future = promise->get_future();
  start([promise](base::expected<T> outcome) { promise->set_value(std::move(outcome)); });
  if (future.wait_for(patience) != std::future_status::ready)
    return base::fail(base::reason::timeout, "transport", what);
  return future.get();
}

} // namespace

base::expected<void> core::usable() const {
  if (born_in_process_ != process_generation())
    return base::fail(base::reason::unsupported, "transport",
                      "this is a forked child: a transport does not cross fork()");
  if (down_.load(std::memory_order_acquire))
    return base::fail(base::reason::shutting_down, "transport", "the transport was shut down");
  return {};
}

base::expected<std::shared_ptr<actors::local_buffer>> core::register_memory(void* addr, std::size_t length,
                                                                            bool publish) {
  if (auto good = usable(); !good)
    return base::fail(good.error());
  if (addr == nullptr || length == 0)
    return base::fail(base::reason::invalid_argument, "transport",
                      "memory to register needs an address and at least one byte");
  auto made = wait_for<std::shared_ptr<actors::local_buffer>>(
      register_patience, "registration took too long", [&](auto done) {
        engine_->register_memory(reinterpret_cast<std::uint64_t>(addr), length, publish, std::move(done));
      });
  if (made) {
    std::lock_guard lock(mutex_);
    buffers_[(*made)->id] = *made;
  }
  return made;
}

base::expected<void> core::deregister_memory(std::uint64_t id, deregister_policy policy) {
  if (auto good = usable(); !good)
    return good;
  std::shared_ptr<actors::local_buffer> what;
  {
    std::lock_guard lock(mutex_);
    const auto at = buffers_.find(id);
    if (at == buffers_.end())
      return base::fail(base::reason::not_found, "transport", fmt::format("buffer {} is not registered", id));
    what = at->second;
  }
  const auto patience = opts_.fence_grace + opts_.drain_deadline + opts_.path_fence +
                        opts_.remote_fence_timeout + std::chrono::seconds{1};
  auto outcome = wait_for<void>(patience + std::chrono::seconds{5},
                                fmt::format("deregistration of buffer {} took too long", id), [&](auto done) {
                                  engine_->deregister_memory(what, policy == deregister_policy::refuse,
                                                             patience, std::move(done));
                                });
  if (outcome) {
    std::lock_guard lock(mutex_);
    buffers_.erase(id);
  }
  return outcome;
}

/// Why the attempts to reach a peer ended so far, as its actor remembers it.
std::string core::last_words_about(const std::string& address) const {
  for (const auto& s : snapshot(std::chrono::milliseconds{200}))
    if (s.kind == "peer" && s.name.ends_with(address))
      return s.cause;
  return {};
}

base::expected<std::shared_ptr<actors::peer_view>> core::import_peer(const std::string& address,
                                                                     base::duration timeout) {
  if (auto good = usable(); !good)
    return base::fail(good.error());
  auto ref = wait_for<actors::peer_ref>(
      timeout,
      fmt::format("{} did not answer within {} ms", address,
                  std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()),
      [&](auto done) { engine_->import_peer(address, std::move(done)); });
  if (!ref) {
    auto why = ref.error();
    if (why.why == base::reason::timeout) {
      why.why = base::reason::peer_silent;
      if (const auto cause = last_words_about(address); !cause.empty())
        why.what += ", last: " + cause;
    }
    return base::fail(std::move(why));
  }
  std::lock_guard lock(mutex_);
  peers_[address] = *ref;
  return ref->view;
}

template <class Make>
base::expected<std::shared_ptr<actors::batch_state>>
core::hand_over(const std::string& address, const actors::peer_view& view, submit_options& how, Make&& make) {
  if (auto good = usable(); !good)
    return base::fail(good.error());
  auto memory = view.memory();
  if (!memory)
    return base::fail(base::reason::peer_dead, "transport", fmt::format("{} is not connected", address));
  if (how.deadline < base::duration::zero())
    return base::fail(base::reason::invalid_argument, "transport", "the deadline is negative");
  if (open_batches_.fetch_add(1, std::memory_order_acq_rel) >= opts_.max_open_batches) {
    open_batches_.fetch_sub(1, std::memory_order_acq_rel);
    return base::fail(base::reason::would_block, "transport",
                      fmt::format("{} batches are open already", opts_.max_open_batches));
  }
  const auto now = base::mono_clock::now();
  const auto span = how.deadline == base::duration::zero() ? opts_.default_deadline : how.deadline;
  const auto deadline = span > base::time_point::max() - now ? base::time_point::max() : now + span;
  auto batch = make(memory, now, deadline);
  if (!batch) {
    open_batches_.fetch_sub(1, std::memory_order_acq_rel);
    return batch;
  }
  (*batch)->trace = how.trace != 0 ? how.trace : next_trace_.fetch_add(1, std::memory_order_relaxed);
  if (how.receipts)
    (*batch)->keep_receipts();
  (*batch)->on_done = std::move(how.on_done);
  actors::peer_ref to;
  {
    std::lock_guard lock(mutex_);
    to = peers_[address];
  }
  actors::engine::submit_to(to, *batch);
  return batch;
}

base::expected<std::shared_ptr<actors::batch_state>> core::submit(const std::string& address,
                                                                  const actors::peer_view& view,
                                                                  std::span<const transfer_request> requests,
                                                                  submit_options&& how) {
  return hand_over(address, view, how, [&](const auto& memory, auto now, auto deadline) {
    return actors::make_batch(engine_->buffers(), memory, requests, now, deadline, std::move(how.notice));
  });
}

base::expected<std::shared_ptr<actors::batch_state>>
core::notify(const std::string& address, const actors::peer_view& view, submit_options&& how) {
  return hand_over(address, view, how, [&](const auto& memory, auto now, auto deadline) {
    return actors::make_notice(memory, std::move(*how.notice), now, deadline);
  });
}

void core::batch_done(const std::shared_ptr<actors::batch_state>& batch) {
  open_batches_.fetch_sub(1, std::memory_order_acq_rel);
  if (batch->on_done)
    completions_->push(batch);
}

void core::cancel(const std::string& address, const std::shared_ptr<actors::batch_state>& batch) {
  if (!usable())
    return;
  std::lock_guard lock(mutex_);
  if (const auto at = peers_.find(address); at != peers_.end())
    actors::engine::cancel_at(at->second, batch);
}

std::vector<observe::actor_snapshot> core::snapshot(base::duration timeout) const {
  if (!engine_ || born_in_process_ != process_generation())
    return {};
  const auto gather = engine_->snapshot();
  gather->wait_for(timeout);
  auto all = gather->answers();
  for (auto& name : gather->silent()) {
    observe::actor_snapshot s;
    s.kind = "actor";
    s.name = std::move(name);
    s.state = "SILENT";
    s.cause = "it did not answer in time: its lane is busy or wedged";
    all.push_back(std::move(s));
  }
  return all;
}

} // namespace actor_rdma::detail
