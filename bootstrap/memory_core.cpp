// SPDX-License-Identifier: Apache-2.0
//
// What happens on the links of a memory_network. A handler is always called last, when the books are in
// order, so that it may call its channel.
#include "bootstrap/memory_core.hpp"

#include "base/checks.hpp"
#include "bootstrap/link_end.hpp"

#include <algorithm>

namespace actor_rdma::bootstrap {

using core = memory_network::core;

// -- the calls of a channel -----------------------------------------------------------------------

core::host_id core::add_host(const std::string& node) {
  const auto same = [&](const auto& entry) { return entry.second.node == node; };
  ACTOR_RDMA_ASSERT(std::none_of(hosts_.begin(), hosts_.end(), same), "a node has one living channel");
  const auto id = next_id_++;
  hosts_[id].node = node;
  return id;
}

void core::start(host_id host, channel_handler& handler) {
  hosts_.at(host).handler = &handler;
}

base::expected<std::string> core::listen(host_id host, const std::string& address) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end())
    return base::fail(base::reason::shutting_down, "bootstrap", "the channel was stopped");
  const auto colon = std::min(address.rfind(':'), address.size());
  auto name = address.substr(0, colon);
  auto port = address.substr(std::min(colon + 1, address.size()));
  if (name.empty())
    name = found->second.node;
  if (port.empty() || port == "0")
    port = std::to_string(next_port_++);
  auto full = name + ":" + port;
  if (listeners_.count(full) != 0)
    return base::fail(base::reason::busy, "bootstrap", "someone listens on " + full + " already");
  listeners_[full] = host;
  owners_[full] = found->second.node;
  return full;
}

link_id core::dial(host_id host, const std::string& address) {
  const auto link = next_id_++;
  const auto found = hosts_.find(host);
  if (found == hosts_.end())
    return link;
  const place near{next_id_++, 0};
  auto& made = connections_[near.first];
  made.address = address;
  made.ends[0].host = host;
  made.ends[0].node = found->second.node;
  made.ends[0].link = link;
  made.ends[0].state = end_state::dialling;
  if (const auto owner = owners_.find(address); owner != owners_.end())
    made.ends[1].node = owner->second;
  links_[link] = near;
  post(other(near), event_kind::dial, "dial");
  set_fate(near, options_.dial_timeout, link_end::timed_out(address, "connecting took too long"));
  return link;
}

bool core::send(link_id link, const message& what) {
  const auto found = links_.find(link);
  if (found == links_.end())
    return false;
  const auto near = found->second;
  const auto far = other(near);
  if (at(near).state == end_state::doomed)
    return false;
  auto bytes = encode(what);
  if (!bytes || at(far).queued_bytes + bytes->size() > options_.send_queue_bytes) {
    condemn(near, bytes ? link_end::overflow(at(far).node)
                        : link_end::not_sendable(at(far).node, bytes.error().what));
    post(far, event_kind::reset, "reset");
    return false;
  }
  if (!send_with_fault(near, what, *bytes))
    post(far, event_kind::message, type_name(what.what), std::move(*bytes));
  return true;
}

void core::close(link_id link) {
  const auto found = links_.find(link);
  if (found == links_.end() || at(found->second).state == end_state::doomed)
    return;
  const auto near = found->second;
  post(other(near), event_kind::closed_by_peer, "closed by peer");
  condemn(near, link_end::closed_by_us(at(other(near)).node));
}

void core::stop(host_id host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end())
    return;
  auto* const handler = found->second.handler;
  remove_host(host);
  std::vector<place> own;
  for (const auto& entry : links_) {
    if (at(entry.second).host == host)
      own.push_back(entry.second);
  }
  std::vector<std::pair<link_id, base::error>> ended;
  for (const auto& near : own) {
    ended.emplace_back(at(near).link, link_end::stopped(at(other(near)).node));
    if (at(near).state != end_state::doomed)
      post(other(near), event_kind::closed_by_peer, "closed by peer");
    bury(near);
  }
  for (const auto& [link, why] : ended)
    handler->on_closed(link, why);
}

void core::remove_host(host_id id) {
  hosts_.erase(id);
  for (auto it = listeners_.begin(); it != listeners_.end();)
    it = it->second == id ? listeners_.erase(it) : std::next(it);
}

// -- events ---------------------------------------------------------------------------------------

void core::post(place to, event_kind kind, const char* name, std::vector<std::uint8_t> bytes,
                base::duration later) {
  auto& target = at(to);
  if (target.state == end_state::doomed || target.state == end_state::gone)
    return;
  const auto due = now + latency(at(other(to)).node, target.node) + later;
  target.queued_bytes += bytes.size();
  const bool overtakes = waits_to_be_overtaken(to);
  if (overtakes) // it has waited long enough, whatever follows
    target.queue.back().due = std::min(target.queue.back().due, due);
  target.queue.push_back({due, next_id_++, kind, name, std::move(bytes)});
  if (overtakes && kind == event_kind::message) {
    auto& overtaken = target.queue[target.queue.size() - 2];
    overtaken.lets_next_pass = false;
    std::swap(overtaken, target.queue.back());
    target.queue.back().due = due;
  }
  list(to);
}

void core::set_fate(place where, base::duration after, base::error why) {
  at(where).fate = doom{now + after, next_id_++, std::move(why)};
  list(where);
}

void core::condemn(place where, base::error why) {
  auto& target = at(where);
  target.state = end_state::doomed;
  target.queue.clear();
  target.queued_bytes = 0;
  set_fate(where, base::duration{0}, std::move(why));
}

void core::list(place where) {
  auto& target = at(where);
  if (target.listed)
    agenda_.erase(*target.listed);
  target.listed.reset();
  if (!target.queue.empty() && !is_held(connections_.at(where.first)))
    target.listed = event_key{target.queue.front().due, target.queue.front().sequence};
  if (target.fate) {
    const event_key key{target.fate->due, target.fate->sequence};
    target.listed = target.listed ? std::min(*target.listed, key) : key;
  }
  if (target.listed)
    agenda_[*target.listed] = where;
}

bool core::deliver(std::size_t index) {
  auto next = agenda_.begin();
  for (; index > 0 && next != agenda_.end(); --index)
    ++next;
  if (next == agenda_.end() || next->first.first > now)
    return false;
  const auto [key, where] = *next;
  auto& target = at(where);
  if (target.fate && target.fate->sequence == key.second) {
    const auto why = std::move(target.fate->why);
    if (target.state != end_state::doomed) // its time is over, and the far end is told as soon as it can be
      post(other(where), event_kind::reset, "reset");
    end_link(where, why);
    return true;
  }
  const auto what = std::move(target.queue.front());
  target.queue.pop_front();
  target.queued_bytes -= what.bytes.size();
  list(where);
  happen(where, what);
  return true;
}

void core::happen(place where, const event& what) {
  auto& target = at(where);
  switch (what.kind) {
  case event_kind::dial: on_dial(where); break;
  case event_kind::dialled:
    target.state = end_state::open;
    target.fate.reset();
    list(where);
    hosts_.at(target.host).handler->on_dialled(target.link);
    break;
  case event_kind::message: on_message(where, what); break;
  case event_kind::refused: end_link(where, link_end::refused(connections_.at(where.first).address)); break;
  case event_kind::closed_by_peer: end_link(where, link_end::closed_by_peer(at(other(where)).node)); break;
  case event_kind::reset: end_link(where, link_end::reset(at(other(where)).node)); break;
  }
}

void core::on_dial(place where) {
  auto& target = at(where);
  const auto& address = connections_.at(where.first).address;
  const auto listener = listeners_.find(address);
  const bool alive = listener != listeners_.end() && hosts_.at(listener->second).handler;
  if (!alive || refused.count(address) != 0) {
    post(other(where), event_kind::refused, "refused");
    bury(where);
    return;
  }
  target.host = listener->second;
  target.node = hosts_.at(target.host).node;
  target.link = next_id_++;
  target.state = end_state::open;
  links_[target.link] = where;
  post(other(where), event_kind::dialled, "dialled");
  hosts_.at(target.host).handler->on_accepted(target.link, at(other(where)).node);
}

void core::on_message(place where, const event& what) {
  auto& target = at(where);
  auto bytes = byte_view{what.bytes};
  if (truncations.erase({at(other(where)).node, target.node}) != 0)
    bytes = bytes.first(bytes.size() / 2);
  auto decoded = decode(bytes);
  if (decoded) {
    hosts_.at(target.host).handler->on_message(target.link, std::move(*decoded));
    return;
  }
  const auto& failure = decoded.error();
  if (failure.other_version) {
    if (auto answer = encode(wrong_version_answer(failure)))
      post(other(where), event_kind::message, "reject", std::move(*answer));
    post(other(where), event_kind::closed_by_peer, "closed by peer");
  } else {
    post(other(where), event_kind::reset, "reset");
  }
  end_link(where, link_end::protocol(at(other(where)).node, failure.text));
}

void core::end_link(place where, const base::error& why) {
  const auto host = at(where).host;
  const auto link = at(where).link;
  bury(where);
  hosts_.at(host).handler->on_closed(link, why);
}

void core::bury(place where) {
  auto& target = at(where);
  target.state = end_state::gone;
  target.queue.clear();
  target.queued_bytes = 0;
  target.fate.reset();
  list(where);
  links_.erase(target.link);
  if (at(other(where)).state == end_state::gone)
    connections_.erase(where.first);
}

} // namespace actor_rdma::bootstrap
