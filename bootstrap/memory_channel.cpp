// SPDX-License-Identifier: Apache-2.0
//
// The faces of a memory_network: its channels, what a simulation asks it, and the faults.
#include "bootstrap/memory_channel.hpp"

#include "bootstrap/link_end.hpp"
#include "bootstrap/memory_core.hpp"

#include <algorithm>
#include <utility>

namespace actor_rdma::bootstrap {

namespace {

using core = memory_network::core;

class memory_channel final : public channel {
public:
  memory_channel(std::shared_ptr<core> shared, const std::string& node)
      : core_{std::move(shared)}, host_{core_->add_host(node)} {}
  ~memory_channel() override { core_->stop(host_); }

  void start(channel_handler& handler) override { core_->start(host_, handler); }
  base::expected<std::string> listen(const std::string& address) override {
    return core_->listen(host_, address);
  }
  link_id dial(const std::string& address) override { return core_->dial(host_, address); }
  bool send(link_id link, const message& what) override { return core_->send(link, what); }
  void close(link_id link) override { core_->close(link); }
  void stop() override { core_->stop(host_); }

private:
  const std::shared_ptr<core> core_;
  const core::host_id host_;
};

std::pair<std::string, std::string> in_order(const std::string& a, const std::string& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

} // namespace

memory_network::memory_network(memory_options options) : core_{std::make_shared<core>(options)} {}
memory_network::~memory_network() = default;

std::unique_ptr<channel> memory_network::make_channel(const std::string& node) {
  return std::make_unique<memory_channel>(core_, node);
}

base::time_point memory_network::now() const {
  return core_->now;
}
void memory_network::set_now(base::time_point now) {
  core_->now = now;
}
std::optional<base::time_point> memory_network::next_event() const {
  return core_->next_event();
}
std::vector<memory_network::pending_event> memory_network::due() const {
  return core_->due();
}
bool memory_network::deliver_one(std::size_t index) {
  return core_->deliver(index);
}

void memory_network::cut(const std::string& a, const std::string& b) {
  core_->cut(a, b);
}
void memory_network::cut(link_id link) {
  core_->cut(link);
}
void memory_network::refuse(const std::string& address, bool on) {
  if (on)
    core_->refused.insert(address);
  else
    core_->refused.erase(address);
}
void memory_network::black_hole(const std::string& a, const std::string& b, bool on) {
  core_->black_hole(a, b, on);
}
void memory_network::kill(const std::string& node) {
  core_->kill(node);
}
void memory_network::set_latency(const std::string& from, const std::string& to, base::duration latency) {
  core_->latencies[{from, to}] = latency;
}
void memory_network::truncate_next(const std::string& from, const std::string& to) {
  core_->truncations.insert({from, to});
}
void memory_network::next_messages(message_fault what) {
  core_->message_faults.push_back(std::move(what));
}
std::optional<base::time_point> memory_network::end_message_faults() {
  core_->message_faults.clear();
  return std::exchange(core_->message_met, std::nullopt);
}

// -- what a simulation asks -----------------------------------------------------------------------

std::vector<memory_network::pending_event> core::due() const {
  std::vector<pending_event> result;
  for (const auto& [key, where] : agenda_) {
    if (key.first > now)
      break;
    const auto& target = connections_.at(where.first).ends[where.second];
    const bool is_fate = target.fate && target.fate->sequence == key.second;
    result.push_back({key.first, key.second, target.node, target.link,
                      is_fate ? target.fate->why.what : target.queue.front().name});
  }
  return result;
}

std::optional<base::time_point> core::next_event() const {
  return agenda_.empty() ? std::nullopt : std::optional{agenda_.begin()->first.first};
}

base::duration core::latency(const std::string& from, const std::string& to) const {
  const auto found = latencies.find({from, to});
  return found == latencies.end() ? options_.latency : found->second;
}

// -- faults ---------------------------------------------------------------------------------------

std::vector<std::uint64_t> core::connections_between(const std::string& a, const std::string& b) const {
  std::vector<std::uint64_t> result;
  for (const auto& [id, it] : connections_) {
    if (in_order(it.ends[0].node, it.ends[1].node) == in_order(a, b))
      result.push_back(id);
  }
  return result;
}

void core::cut(const std::string& a, const std::string& b) {
  for (const auto id : connections_between(a, b))
    cut_connection(id);
}

void core::cut(link_id link) {
  if (const auto found = links_.find(link); found != links_.end())
    cut_connection(found->second.first);
}

void core::cut_connection(std::uint64_t id) {
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const place where{id, side};
    const auto state = at(where).state;
    if (state == end_state::dialling || state == end_state::open)
      condemn(where, link_end::reset(at(other(where)).node));
    else if (state == end_state::unborn)
      bury(where);
  }
}

bool core::is_held(const connection& between) const {
  return holes_.count(in_order(between.ends[0].node, between.ends[1].node)) != 0;
}

void core::black_hole(const std::string& a, const std::string& b, bool on) {
  if (on ? !holes_.insert(in_order(a, b)).second : holes_.erase(in_order(a, b)) == 0)
    return;
  for (const auto id : connections_between(a, b)) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const place where{id, side};
      auto& target = at(where);
      if (!on) { // sent again
        for (auto& what : target.queue)
          what.due = std::max(what.due, now + latency(at(other(where)).node, target.node));
      }
      if (target.state != end_state::open)
        list(where);
      else if (on)
        set_fate(where, options_.silence_timeout,
                 link_end::timed_out(at(other(where)).node, "the peer is silent"));
      else {
        target.fate.reset();
        list(where);
      }
    }
  }
}

void core::kill(const std::string& node) {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(),
                                  [&](const auto& entry) { return entry.second.node == node; });
  if (found == hosts_.end())
    return;
  const auto host = found->first;
  remove_host(host);
  std::vector<place> own;
  for (const auto& entry : links_) {
    if (at(entry.second).host == host)
      own.push_back(entry.second);
  }
  for (const auto& near : own) {
    post(other(near), event_kind::reset, "reset");
    bury(near);
  }
}

} // namespace actor_rdma::bootstrap
