// SPDX-License-Identifier: Apache-2.0
// A peer that answers every hello with a refusal in words of its own.
#pragma once

#include "bootstrap/tcp_channel.hpp"

#include <memory>
#include <string>

namespace actor_rdma::process {

class rejecting_peer final : public bootstrap::channel_handler {
public:
  rejecting_peer(bootstrap::reject_code code, std::string text);
  ~rejecting_peer() override;
  const std::string& address() const noexcept { return address_; }

private:
  void on_accepted(bootstrap::link_id, const std::string&) override {}
  void on_dialled(bootstrap::link_id) override {}
  void on_message(bootstrap::link_id link, bootstrap::message&& what) override;
  void on_closed(bootstrap::link_id, const base::error&) override {}

  const bootstrap::reject_code code_;
  const std::string text_;
  std::unique_ptr<bootstrap::tcp_channel> channel_;
  std::string address_;
};

} // namespace actor_rdma::process
