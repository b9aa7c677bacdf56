// SPDX-License-Identifier: Apache-2.0
// One end of a run: a transport and the range of memory that it registered, given back in the right order.
#pragma once

#include "base/error.hpp"
#include "bench/memory_block.hpp"
#include "bench/notice_book.hpp"
#include "transport/transport.hpp"

#include <functional>
#include <memory>
#include <span>

namespace actor_rdma::bench {

class node {
public:
  /// `prepare` fills the memory before anyone can reach it.
  static base::expected<std::unique_ptr<node>> open(options how, std::uint64_t range, bool publish,
                                                    const std::function<void(std::span<std::byte>)>& prepare);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  transport& get() noexcept { return *transport_; }
  std::span<std::byte> memory() const noexcept { return memory_.bytes(); }
  notice_counts notices() const { return notices_->so_far(); }
  /// False, with a line on standard error, when something had to be left behind; then its memory stays.
  bool close();
  /// What every actor is doing, on standard error.
  void dump() const;

private:
  node() = default;
  memory_block memory_; // outlives the transport
  std::shared_ptr<notice_book> notices_ = std::make_shared<notice_book>();
  std::unique_ptr<transport> transport_;
};

} // namespace actor_rdma::bench
