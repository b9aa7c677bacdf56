// SPDX-License-Identifier: Apache-2.0
//
// Faults of single messages: what a simulation arranged for the next ones from one node to another.
#include "bootstrap/memory_core.hpp"

#include <algorithm>

namespace actor_rdma::bootstrap {

using core = memory_network::core;

std::optional<message> refusal_of(const message& what, const std::string& text) {
  reject r;
  r.code = reject_code::busy;
  r.text = text.empty() ? "refused by the scenario" : text;
  if (const auto* c = std::get_if<connect>(&what.what)) {
    r.endpoint = c->endpoint;
    r.generation = c->qps.empty() ? std::uint16_t{0} : c->qps.front().generation;
  } else if (const auto* b = std::get_if<rebuild>(&what.what)) {
    r.endpoint = b->endpoint;
    r.qp_index = b->qp.index;
    r.generation = b->qp.generation;
  } else {
    return std::nullopt;
  }
  message answer;
  answer.from = what.to;
  answer.to = what.from;
  answer.what = std::move(r);
  return answer;
}

bool core::waits_to_be_overtaken(place to) {
  const auto& queue = at(to).queue;
  return !queue.empty() && queue.back().lets_next_pass;
}

std::optional<message_fault> core::take_fault(place near, const message& what) {
  const std::string type = type_name(what.what);
  const auto fits = [&](const message_fault& f) {
    return f.from == at(near).node && f.to == at(other(near)).node && (f.type.empty() || f.type == type) &&
           (f.fate != message_fate::refused || refusal_of(what, {}).has_value()) &&
           (f.fate != message_fate::overtaken || !waits_to_be_overtaken(other(near)));
  };
  const auto found = std::find_if(message_faults.begin(), message_faults.end(), fits);
  if (found == message_faults.end())
    return std::nullopt;
  message_met = now;
  auto taken = *found;
  if (--found->count == 0)
    message_faults.erase(found);
  return taken;
}

bool core::send_with_fault(place near, const message& what, std::vector<std::uint8_t>& bytes) {
  const auto fault = message_faults.empty() ? std::nullopt : take_fault(near, what);
  if (!fault)
    return false;
  const auto* name = type_name(what.what);
  const auto far = other(near);
  switch (fault->fate) {
  case message_fate::lost: break;
  case message_fate::twice:
    post(far, event_kind::message, name, bytes);
    post(far, event_kind::message, name, std::move(bytes));
    break;
  case message_fate::truncated:
    bytes.resize(bytes.size() / 2);
    post(far, event_kind::message, name, std::move(bytes));
    break;
  case message_fate::late: post(far, event_kind::message, name, std::move(bytes), fault->by); break;
  case message_fate::overtaken: {
    auto& queue = at(far).queue;
    const auto before = queue.size();
    post(far, event_kind::message, name, std::move(bytes), fault->by);
    if (queue.size() > before)
      queue.back().lets_next_pass = true;
    break;
  }
  case message_fate::refused:
    if (auto answer = encode(*refusal_of(what, fault->text)))
      post(near, event_kind::message, "reject", std::move(*answer));
    break;
  }
  return true;
}

} // namespace actor_rdma::bootstrap
