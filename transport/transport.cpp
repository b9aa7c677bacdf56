// SPDX-License-Identifier: Apache-2.0
// The public classes as thin handles on the core.
#include "transport/transport.hpp"

#include "transport/internal/core.hpp"
#include "verbs/soft/fabric.hpp"

#include <utility>

namespace actor_rdma {

struct segment::impl {
  std::string address;
  std::shared_ptr<actors::peer_view> view;
};

struct batch::impl {
  std::string address;
  std::shared_ptr<actors::batch_state> state;
  std::weak_ptr<detail::core> core;
};

struct transport::impl {
  std::shared_ptr<detail::core> core;
};

// -- segment --------------------------------------------------------------------------------------

std::vector<published_buffer> segment::buffers() const {
  std::vector<published_buffer> all;
  if (const auto memory = impl_ ? impl_->view->memory() : nullptr)
    for (const auto& b : memory->ranges)
      all.push_back({b.addr, b.length, b.writable});
  return all;
}

std::uint64_t segment::incarnation() const noexcept {
  const auto memory = impl_ ? impl_->view->memory() : nullptr;
  return memory ? memory->owner : 0;
}

const std::string& segment::address() const noexcept {
  static const std::string none;
  return impl_ ? impl_->address : none;
}

// -- batch ----------------------------------------------------------------------------------------

std::size_t batch::size() const noexcept {
  return impl_ ? impl_->state->transfers().size() : 0;
}

std::uint64_t batch::trace() const noexcept {
  return impl_ ? impl_->state->trace : 0;
}

transfer_result batch::result(std::size_t index) const noexcept {
  if (index >= size()) {
    transfer_result none;
    none.status = transfer_status::failed;
    none.cause = base::reason::invalid_argument;
    return none;
  }
  return impl_->state->result(index);
}

std::optional<transfer_receipt> batch::receipt(std::size_t index) const {
  return index < size() ? impl_->state->receipt(index) : std::nullopt;
}

notice_result batch::notice() const noexcept {
  return impl_ ? impl_->state->notice() : notice_result{};
}

bool batch::done() const noexcept {
  return !impl_ || impl_->state->done();
}

bool batch::wait_for(base::duration timeout) const {
  return !impl_ || impl_->state->wait_for(timeout);
}

void batch::cancel() {
  if (!impl_ || impl_->state->done())
    return;
  if (const auto core = impl_->core.lock())
    core->cancel(impl_->address, impl_->state);
}

// -- transport ------------------------------------------------------------------------------------

transport::transport(std::unique_ptr<impl> state) : impl_(std::move(state)) {}

base::expected<std::unique_ptr<transport>> transport::create(const options& opts) {
  auto made = detail::core::create(opts);
  if (!made)
    return base::fail(made.error());
  auto state = std::make_unique<impl>();
  state->core = std::move(*made);
  return std::unique_ptr<transport>(new transport(std::move(state)));
}

transport::~transport() {
  impl_->core->shutdown(impl_->core->opts().shutdown_timeout);
}

const std::string& transport::address() const noexcept {
  return impl_->core->address();
}

const std::string& transport::name() const noexcept {
  return impl_->core->opts().name;
}

std::uint64_t transport::incarnation() const noexcept {
  return impl_->core->self();
}

base::expected<buffer> transport::register_memory(void* addr, std::size_t length, bool publish) {
  auto made = impl_->core->register_memory(addr, length, publish);
  if (!made)
    return base::fail(made.error());
  buffer b;
  b.id_ = (*made)->id;
  b.addr_ = addr;
  b.length_ = length;
  return b;
}

base::expected<void> transport::deregister_memory(const buffer& what, deregister_policy policy) {
  return impl_->core->deregister_memory(what.id(), policy);
}

base::expected<segment> transport::import_segment(const std::string& address, base::duration timeout) {
  auto view = impl_->core->import_peer(address, timeout);
  if (!view)
    return base::fail(view.error());
  segment s;
  s.impl_ = std::make_shared<segment::impl>();
  s.impl_->address = address;
  s.impl_->view = std::move(*view);
  return s;
}

base::expected<batch> transport::submit(const segment& target, std::span<const transfer_request> requests,
                                        submit_options opts) {
  if (!target)
    return base::fail(base::reason::invalid_argument, "transport", "the segment is empty: import it first");
  auto state = impl_->core->submit(target.impl_->address, *target.impl_->view, requests, std::move(opts));
  if (!state)
    return base::fail(state.error());
  return make_handle(target, std::move(*state));
}

base::expected<batch> transport::notify(const segment& target, notice what, submit_options how) {
  if (!target)
    return base::fail(base::reason::invalid_argument, "transport", "the segment is empty: import it first");
  how.notice = std::move(what);
  auto state = impl_->core->notify(target.impl_->address, *target.impl_->view, std::move(how));
  if (!state)
    return base::fail(state.error());
  return make_handle(target, std::move(*state));
}

batch transport::make_handle(const segment& target, std::shared_ptr<actors::batch_state> state) const {
  batch b;
  b.impl_ = std::make_shared<batch::impl>();
  b.impl_->address = target.impl_->address;
  b.impl_->state = std::move(state);
  b.impl_->core = impl_->core;
  return b;
}

std::optional<received_notice> transport::poll_notice() {
  return impl_->core->poll_notice();
}

std::vector<observe::actor_snapshot> transport::snapshot(base::duration timeout) const {
  return impl_->core->snapshot(timeout);
}

shutdown_report transport::shutdown(base::duration timeout) {
  return impl_->core->shutdown(timeout);
}

void* allocate_shared_memory(std::size_t length) noexcept {
  return verbs::soft::allocate_shared(length);
}

void free_shared_memory(void* addr, std::size_t length) noexcept {
  verbs::soft::free_shared(addr, length);
}

} // namespace actor_rdma
