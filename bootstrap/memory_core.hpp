// SPDX-License-Identifier: Apache-2.0
//
// The inside of memory_network. A connection has two ends. What comes from the far end waits in an end's
// queue, in order; what an end does to itself (closing, a time-out) waits as its doom, which is always the
// last thing that happens to it. The agenda holds the next event of every end, by due time and then by age.
#pragma once

#include "bootstrap/codec.hpp"
#include "bootstrap/memory_channel.hpp"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace actor_rdma::bootstrap {

class memory_network::core {
public:
  using host_id = std::uint64_t; // one life of a node

  explicit core(memory_options options) : options_{options} {}

  // The calls of a channel
  host_id add_host(const std::string& node);
  void start(host_id host, channel_handler& handler);
  base::expected<std::string> listen(host_id host, const std::string& address);
  link_id dial(host_id host, const std::string& address);
  bool send(link_id link, const message& what);
  void close(link_id link);
  void stop(host_id host);

  // The calls of a network
  [[nodiscard]] std::vector<pending_event> due() const;
  [[nodiscard]] std::optional<base::time_point> next_event() const;
  bool deliver(std::size_t index);
  void cut(const std::string& a, const std::string& b);
  void cut(link_id link);
  void black_hole(const std::string& a, const std::string& b, bool on);
  void kill(const std::string& node);

  base::time_point now{base::duration{1}};
  std::set<std::string> refused;
  std::map<std::pair<std::string, std::string>, base::duration> latencies; // from, to
  std::set<std::pair<std::string, std::string>> truncations;               // from, to
  std::deque<message_fault> message_faults;
  std::optional<base::time_point> message_met; // by one of these, the last one

private:
  using event_key = std::pair<base::time_point, std::uint64_t>; // when, and the event's sequence
  enum class event_kind : std::uint8_t { dial, dialled, refused, message, closed_by_peer, reset };
  enum class end_state : std::uint8_t { unborn, dialling, open, doomed, gone };

  struct event {
    base::time_point due;
    std::uint64_t sequence = 0;
    event_kind kind = event_kind::message;
    const char* name = "";
    std::vector<std::uint8_t> bytes;
    bool lets_next_pass = false; // the next message goes before it
  };
  struct doom {
    base::time_point due;
    std::uint64_t sequence = 0;
    base::error why;
  };
  struct end {
    host_id host = 0;
    std::string node;
    link_id link = 0;
    end_state state = end_state::unborn;
    std::deque<event> queue;
    std::size_t queued_bytes = 0;
    std::optional<doom> fate;
    std::optional<event_key> listed; // in the agenda
  };
  struct connection {
    std::string address;     // what was dialled
    std::array<end, 2> ends; // the dialling one, the accepting one
  };
  struct life {
    std::string node;
    channel_handler* handler = nullptr;
  };
  using place = std::pair<std::uint64_t, std::size_t>; // a connection and one of its ends

  void post(place to, event_kind kind, const char* name, std::vector<std::uint8_t> bytes = {},
            base::duration later = {});
  /// Whether what was sent last to this end waits to be overtaken.
  [[nodiscard]] bool waits_to_be_overtaken(place to);
  /// The fault that waits for this message, used up by one.
  std::optional<message_fault> take_fault(place near, const message& what);
  /// False: the message went its usual way.
  bool send_with_fault(place near, const message& what, std::vector<std::uint8_t>& bytes);
  void set_fate(place at, base::duration after, base::error why);
  /// Nothing but its doom can happen to this end any more.
  void condemn(place at, base::error why);
  void happen(place at, const event& what);
  void on_dial(place at);
  void on_message(place at, const event& what);
  void end_link(place at, const base::error& why);
  void bury(place at);
  void cut_connection(std::uint64_t id);
  void list(place at);
  void remove_host(host_id id);
  [[nodiscard]] bool is_held(const connection& between) const;
  [[nodiscard]] base::duration latency(const std::string& from, const std::string& to) const;
  [[nodiscard]] end& at(place where) { return connections_.at(where.first).ends[where.second]; }
  [[nodiscard]] static place other(place where) { return {where.first, 1 - where.second}; }
  [[nodiscard]] std::vector<std::uint64_t> connections_between(const std::string& a,
                                                               const std::string& b) const;

  const memory_options options_;
  std::uint64_t next_id_ = 1; // of hosts, connections, links and events
  std::uint32_t next_port_ = 20000;
  std::map<host_id, life> hosts_;
  std::map<std::string, host_id> listeners_;
  std::map<std::string, std::string> owners_; // which node last listened on an address
  std::map<std::uint64_t, connection> connections_;
  std::map<link_id, place> links_;
  std::map<event_key, place> agenda_;
  std::set<std::pair<std::string, std::string>> holes_; // smaller name first
};

} // namespace actor_rdma::bootstrap
