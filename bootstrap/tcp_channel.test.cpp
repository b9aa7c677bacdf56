// SPDX-License-Identifier: Apache-2.0
//
// Tests of the TCP channel between ends that keep to the protocol: what arrives, how links end, what
// restarts. Peers that do not are in tcp_misuse.test.cpp.
#include "bootstrap/tcp_channel.hpp"

#include "bootstrap/codec.hpp"
#include "bootstrap/testing/raw_socket.hpp"
#include "bootstrap/testing/sample_messages.hpp"
#include "bootstrap/testing/tcp_node.hpp"

#include <cerrno>
#include <thread>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using namespace std::chrono_literals;
using base::reason;
using kind = recorder::kind;

TEST_CASE("every kind of message goes both ways over one link, in order") {
  tcp_node server{{}, "127.0.0.1:0"};
  tcp_node client;
  // The server answers whatever comes.
  server.heard.then([&](const recorder::event& what) {
    if (what.what == kind::message)
      CHECK(server.channel->send(what.link, what.content));
  });
  const auto link = client.connect_to(server);
  const auto samples = sample_messages();
  for (const auto& what : samples)
    CHECK(client.channel->send(link, what));
  REQUIRE(client.heard.wait(kind::message, samples.size()));
  const auto echoed = client.heard.events(kind::message);
  for (std::size_t i = 0; i < samples.size(); ++i)
    CHECK(echoed[i].content == samples[i]);
}

TEST_CASE("messages may be sent before the link is up and follow when it is") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  CHECK(server.address.rfind("127.0.0.1:", 0) == 0); // nothing but loopback unless asked for
  const auto link = client.channel->dial(server.address);
  for (std::uint64_t i = 0; i < 100; ++i)
    CHECK(client.channel->send(link, {1, 1, 0, ping{i}}));
  REQUIRE(server.heard.wait(kind::message, 100));
  const auto received = server.heard.events(kind::message);
  for (std::uint64_t i = 0; i < 100; ++i)
    CHECK(std::get<ping>(received[i].content.what).token == i);
  CHECK(client.heard.events()[0].what == kind::dialled);
}

TEST_CASE("a large message arrives whole") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  segment large{"large", 1, {sample_port()}, {}, 0, {1}};
  for (std::uint64_t i = 0; i < max_buffers; ++i)
    large.buffers.push_back({i, i << 12, 4096, true, {static_cast<std::uint32_t>(i)}});
  const message sent{1, 1, 2, publish{large}};
  const auto link = client.connect_to(server);
  CHECK(client.channel->send(link, sent));
  REQUIRE(server.heard.wait(kind::message, 1));
  CHECK(server.heard.events(kind::message)[0].content == sent);
}

TEST_CASE("D-15: IPv6 and host names work, and an address that is none says why") {
  tcp_node server{{}, "[::1]:0"};
  CHECK(server.address.rfind("[::1]:", 0) == 0);
  tcp_node client;
  client.connect_to(server);
  CHECK(client.heard.count(kind::dialled) == 1);

  tcp_node named{{}, "localhost:0"};
  const auto port = named.address.substr(named.address.rfind(':'));
  const auto by_name = client.channel->dial("localhost" + port);
  CHECK(client.heard.wait_until([&] { return client.heard.of_link(by_name).size() == 1; }));
  CHECK(client.heard.of_link(by_name)[0].what == kind::dialled);

  for (const auto* bad :
       {"nonsense", "::1:5000", "host:port", "127.0.0.1:0", "127.0.0.1:65536", "no.such.name.invalid:1"}) {
    const auto link = client.channel->dial(bad);
    REQUIRE(client.heard.wait_closed(link, 10s));
    const auto why = client.heard.end_of(link);
    // A machine without a name server may answer only when the dial has timed out.
    CHECK((why.why == reason::not_found || why.why == reason::peer_silent));
    CHECK(why.peer == bad);
  }
  CHECK_FALSE(client.channel->listen("nonsense").has_value());
}

TEST_CASE("a listener on all interfaces names an address that can be dialled") {
  tcp_node server{{}, "0.0.0.0:0"};
  CHECK(server.address.rfind("0.0.0.0", 0) == std::string::npos);
  tcp_node client;
  client.connect_to(server);
  CHECK(client.heard.count(kind::dialled) == 1);

  tcp_options advertised;
  advertised.advertised_host = "node7.example";
  tcp_node other{advertised, "[::]:0"};
  CHECK(other.address.rfind("node7.example:", 0) == 0);
  const auto v4 = client.channel->dial("127.0.0.1" + other.address.substr(other.address.rfind(':')));
  REQUIRE(other.heard.wait(kind::accepted, 1));
  CHECK(other.heard.events(kind::accepted)[0].peer.rfind("127.0.0.1:", 0) == 0);
  client.channel->close(v4);
}

TEST_CASE("a dial that nobody answers is refused, and an address in use cannot be listened on") {
  std::string address;
  {
    tcp_node gone{{}, ":0"};
    address = gone.address;
    tcp_node second;
    const auto taken = second.channel->listen(address);
    REQUIRE_FALSE(taken.has_value());
    CHECK(taken.error().why == reason::busy);
  }
  tcp_node client;
  const auto link = client.channel->dial(address);
  REQUIRE(client.heard.wait_closed(link));
  const auto why = client.heard.end_of(link);
  CHECK(why.why == reason::peer_dead);
  CHECK(why.sys_errno == ECONNREFUSED);
  CHECK(client.heard.of_link(link).size() == 1);
  CHECK_FALSE(client.channel->send(link, hello_from(1)));
}

TEST_CASE("the ways in which a link ends are told apart on both sides") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  const auto link = client.connect_to(server);
  CHECK(client.channel->send(link, {1, 1, 2, goodbye{"last words"}}));
  client.channel->close(link);
  client.channel->close(link); // harmless
  CHECK_FALSE(client.channel->send(link, hello_from(1)));
  const auto far = server.last_accepted();
  REQUIRE(server.heard.wait_closed(far));
  REQUIRE(client.heard.wait_closed(link));
  CHECK(client.heard.end_of(link).why == reason::cancelled);
  CHECK(server.heard.end_of(far).why == reason::peer_dead);
  CHECK(server.heard.end_of(far).sys_errno == 0);
  CHECK(server.heard.count(kind::message) == 1); // what was queued went first

  raw_socket rude{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 2));
  rude.reset();
  const auto reset = server.last_accepted();
  REQUIRE(server.heard.wait_closed(reset));
  CHECK(server.heard.end_of(reset).why == reason::peer_dead);
  CHECK(server.heard.end_of(reset).sys_errno == ECONNRESET);
  client.channel->close(link); // gone: harmless
}

TEST_CASE(
    "a process that was restarted listens on the same address at once and is dialled at the first attempt") {
  tcp_node client;
  std::string address = ":0";
  for (int life = 0; life < 5; ++life) {
    tcp_node server{{}, address};
    REQUIRE_FALSE(server.address.empty());
    address = server.address;
    const auto link = client.connect_to(server);
    CHECK(client.heard.of_link(link)[0].what == kind::dialled);
    CHECK(client.channel->send(link, hello_from(1)));
    CHECK(server.heard.wait(kind::message, 1));
    server.channel->stop();
    CHECK(client.heard.wait_closed(link));
  }
}

TEST_CASE("two hundred links opened and closed leave no descriptor behind") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  const auto before = open_descriptors();
  std::vector<link_id> links;
  for (int i = 0; i < 200; ++i)
    links.push_back(client.channel->dial(server.address));
  REQUIRE(client.heard.wait(kind::dialled, 200));
  REQUIRE(server.heard.wait(kind::accepted, 200));
  CHECK(open_descriptors() == before + 400);
  for (const auto link : links)
    client.channel->close(link);
  REQUIRE(client.heard.wait(kind::closed, 200));
  REQUIRE(server.heard.wait(kind::closed, 200));
  CHECK(open_descriptors() == before);
  for (const auto link : links)
    CHECK(client.heard.of_link(link).size() == 2);
}

TEST_CASE("stop ends open, dialling and silent links within a second, each with one last call") {
  tcp_node server{{}, ":0"};
  tcp_options slow;
  slow.lookup = [](const host_port&) -> base::expected<std::vector<socket_address>> {
    std::this_thread::sleep_for(3s); // outlives this test
    return std::vector<socket_address>(1);
  };
  auto silent = open_listener(address_of("127.0.0.1:0")); // accepts in the kernel only and never reads
  REQUIRE(silent.has_value());
  tcp_node client{slow};
  client.connect_to(server);
  const auto unread = client.channel->dial(local_address(*silent).to_string());
  const auto unresolved = client.channel->dial("some.name:1");
  REQUIRE(client.heard.wait(kind::dialled, 2));
  for (int i = 0; i < 50; ++i)
    client.channel->send(unread, {1, 1, 2, goodbye{std::string(4000, '.')}});

  const auto begin = std::chrono::steady_clock::now();
  client.channel->stop();
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  const auto ends = client.heard.events(kind::closed);
  CHECK(ends.size() == 3);
  for (const auto& end : ends)
    CHECK(end.why.why == reason::shutting_down);
  const auto calls = client.heard.events().size();
  CHECK_FALSE(client.channel->send(unresolved, hello_from(1)));
  client.channel->dial(server.address);
  CHECK_FALSE(client.channel->listen(":0").has_value());
  std::this_thread::sleep_for(100ms);
  CHECK(client.heard.events().size() == calls);
  CHECK(server.heard.wait(kind::closed, 1));
}

TEST_CASE("closing does not wait for ever for a peer that keeps its side open") {
  tcp_node server{{}, ":0"};
  raw_socket peer{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 1));
  const auto link = server.last_accepted();
  CHECK(server.channel->send(link, hello_from(1)));
  const auto begin = std::chrono::steady_clock::now();
  server.channel->close(link);
  REQUIRE(server.heard.wait_closed(link));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took > 400ms); // the linger time
  CHECK(took < 2s);
  CHECK(server.heard.end_of(link).why == reason::cancelled);
  CHECK(peer.receive_all().size() == make_frame(*encode(hello_from(1))).size());
}

namespace {

/// A listener whose queue is full drops what comes, like a host that is not there.
struct silent_host {
  unique_fd listener = *open_listener(address_of("127.0.0.1:0"));
  std::string address = local_address(listener).to_string();
  std::vector<unique_fd> fillers;
  silent_host() {
    CHECK(::listen(listener.get(), 0) == 0);
    for (int i = 0; i < 4; ++i)
      fillers.push_back(*begin_connect(address_of(address)));
    std::this_thread::sleep_for(50ms);
  }
};

} // namespace

TEST_CASE("a peer that accepts no connection in time has timed out, and no other link waits for it") {
  tcp_options options;
  options.dial_timeout = 1s;
  tcp_node client{options};
  tcp_node server{{}, ":0"};
  const silent_host silent;
  const auto begin = std::chrono::steady_clock::now();
  const auto link = client.channel->dial(silent.address);
  client.connect_to(server);
  CHECK(client.heard.count(kind::dialled) == 1);
  CHECK(client.heard.count(kind::closed) == 0);
  REQUIRE(client.heard.wait_closed(link));
  CHECK(std::chrono::steady_clock::now() - begin > 950ms);
  CHECK(client.heard.end_of(link).why == reason::peer_silent);
  CHECK(client.heard.end_of(link).sys_errno == ETIMEDOUT);
}

TEST_CASE("a name is resolved beside the loop, its addresses are tried in turn, and a slow one times out") {
  tcp_node server{{}, ":0"};
  const silent_host silent;
  tcp_options options;
  options.dial_timeout = 1200ms;
  options.lookup =
      [dead = silent.address](const host_port& where) -> base::expected<std::vector<socket_address>> {
    if (where.host == "slow")
      std::this_thread::sleep_for(1800ms);
    // The first address refuses, the second does not answer.
    return std::vector{address_of("127.0.0.1:1"), address_of(dead),
                       address_of(join_host_port("127.0.0.1", where.port))};
  };
  tcp_node client{options};
  const auto port = server.address.substr(server.address.rfind(':'));
  const auto slow = client.channel->dial("slow" + port);
  const auto quick = client.channel->dial("quick" + port);
  REQUIRE(client.heard.wait_until([&] { return !client.heard.of_link(quick).empty(); }, 2s));
  CHECK(client.heard.of_link(quick)[0].what == kind::dialled);
  CHECK(client.heard.end_of(slow).why == reason::none);
  REQUIRE(client.heard.wait_closed(slow));
  CHECK(client.heard.end_of(slow).why == reason::peer_silent);
}
