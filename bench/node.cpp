// SPDX-License-Identifier: Apache-2.0
// Life of one end.
#include "bench/node.hpp"

#include "bench/text.hpp"
#include "observe/snapshot.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace actor_rdma::bench {

base::expected<std::unique_ptr<node>> node::open(options how, std::uint64_t range, bool publish,
                                                 const std::function<void(std::span<std::byte>)>& prepare) {
  std::unique_ptr<node> made(new node);
  made->memory_ = memory_block(range);
  if (!made->memory_)
    return base::fail(base::reason::resource, "", "there is no memory for --range " + size_text(range));
  prepare(made->memory());
  how.on_notice = [book = made->notices_, memory = made->memory()](received_notice&& what) {
    book->enter(what, memory);
  };
  auto t = transport::create(how);
  if (!t)
    return base::fail(t.error());
  made->transport_ = std::move(*t);
  const auto registered = made->transport_->register_memory(made->memory_.data(), range, publish);
  if (!registered)
    return base::fail(registered.error());
  return made;
}

node::~node() {
  close();
}

bool node::close() {
  if (!transport_)
    return true;
  const auto report = transport_->shutdown(options{}.shutdown_timeout);
  for (const auto& what : report.quarantined)
    fmt::print(stderr, "{}: left behind: {}\n", transport_->name(), what);
  if (!report.clean)
    memory_.abandon();
  transport_.reset();
  return report.clean;
}

void node::dump() const {
  const auto now = base::mono_clock::now();
  std::string text = fmt::format("-- actors of {}\n", transport_->name());
  for (const auto& s : transport_->snapshot())
    text += observe::to_text(s, now) + '\n';
  fmt::print(stderr, "{}", text);
}

} // namespace actor_rdma::bench
