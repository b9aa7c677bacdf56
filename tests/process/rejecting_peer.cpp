// SPDX-License-Identifier: Apache-2.0
// Speaks just enough of the protocol to say no.
#include "tests/process/rejecting_peer.hpp"

#include <stdexcept>
#include <utility>
#include <variant>

namespace actor_rdma::process {

rejecting_peer::rejecting_peer(bootstrap::reject_code code, std::string text)
    : code_(code), text_(std::move(text)) {
  auto made = bootstrap::tcp_channel::create();
  if (!made)
    throw std::runtime_error(made.error().to_string());
  channel_ = std::move(*made);
  channel_->start(*this);
  auto listening = channel_->listen("127.0.0.1:0");
  if (!listening)
    throw std::runtime_error(listening.error().to_string());
  address_ = *listening;
}

rejecting_peer::~rejecting_peer() {
  channel_->stop();
}

void rejecting_peer::on_message(bootstrap::link_id link, bootstrap::message&& what) {
  if (!std::holds_alternative<bootstrap::hello>(what.what))
    return;
  bootstrap::reject no;
  no.code = code_;
  no.text = text_;
  bootstrap::message answer;
  answer.from = 0x1234;
  answer.to = what.from;
  answer.what = no;
  channel_->send(link, answer);
  channel_->close(link);
}

} // namespace actor_rdma::process
