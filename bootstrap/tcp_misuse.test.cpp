// SPDX-License-Identifier: Apache-2.0
//
// Tests of the TCP channel against strangers, wrong versions, peers that do not read and a process that runs
// out of descriptors: each costs one link or a little time, and nobody else notices.
#include "base/log.hpp"
#include "base/random.hpp"
#include "bootstrap/codec.hpp"
#include "bootstrap/testing/raw_socket.hpp"
#include "bootstrap/testing/sample_messages.hpp"
#include "bootstrap/testing/tcp_node.hpp"

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/resource.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using namespace actor_rdma::bootstrap::testing;
using namespace std::chrono_literals;
using base::reason;
using kind = recorder::kind;

namespace {

/// Collects the log while it lives.
struct captured_log {
  std::mutex mutex;
  std::string text;
  captured_log() {
    base::set_sink([this](base::level, std::string_view line) {
      const std::lock_guard lock{mutex};
      text.append(line).append("\n");
    });
  }
  ~captured_log() { base::set_sink({}); }
  bool contains(const std::string& part) {
    const std::lock_guard lock{mutex};
    return text.find(part) != std::string::npos;
  }
};

std::vector<std::uint8_t> framed(const message& what) {
  return make_frame(*encode(what));
}

std::chrono::microseconds cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return std::chrono::seconds{used.ru_utime.tv_sec + used.ru_stime.tv_sec} +
         std::chrono::microseconds{used.ru_utime.tv_usec + used.ru_stime.tv_usec};
}

} // namespace

TEST_CASE("garbage closes its own link with a logged reason that names the sender") {
  captured_log log;
  tcp_node server{{}, ":0"};
  raw_socket stranger{server.address};
  CHECK(stranger.send("GET / HTTP/1.1\r\n\r\n"));
  CHECK(stranger.receive_all().empty());
  CHECK(stranger.closed());
  REQUIRE(server.heard.wait(kind::closed, 1));
  const auto link = server.last_accepted();
  const auto why = server.heard.end_of(link);
  CHECK(why.why == reason::protocol);
  CHECK(why.what == "not this protocol, the bytes are 47 45 54 20 2f 20 48 54");
  CHECK(why.peer == server.heard.events(kind::accepted)[0].peer);
  CHECK(log.contains("closed the link with " + why.peer + ": not this protocol"));
}

TEST_CASE("what is too long, undecodable or half-known ends one link in words") {
  tcp_node server{{}, ":0"};
  const auto words_for = [&](const std::vector<std::uint8_t>& bytes) {
    raw_socket peer{server.address};
    CHECK(peer.send(bytes));
    peer.receive_all();
    CHECK(peer.closed());
    server.heard.wait_closed(server.last_accepted());
    return server.heard.end_of(server.last_accepted()).what;
  };
  CHECK(words_for({0xa7, 'r', 'd', 'm', 0xff, 0, 0, 0}) ==
        "frame of 4278190080 bytes, at most 4194304 are allowed");
  CHECK(words_for({0xa7, 'r', 'd', 'm', 0, 0, 0, 1, 0xc1}) == "message: not msgpack");
  CHECK(words_for({0xa7, 'r', 'd', 'm', 0, 0, 0, 1, 0x80}) == "message.version: missing");
}

TEST_CASE("a listener that is fed random bytes stays up and the links beside it are undisturbed") {
  captured_log log;
  tcp_node server{{}, ":0"};
  tcp_node client;
  server.heard.then([&](const recorder::event& what) {
    if (what.what == kind::message)
      server.channel->send(what.link, what.content);
  });
  const auto good = client.connect_to(server);
  const auto before = open_descriptors();
  base::rng random{99};
  for (std::uint64_t round = 0; round < 300; ++round) {
    raw_socket stranger{server.address};
    std::vector<std::uint8_t> bytes(random.below(300) + 1);
    for (auto& byte : bytes)
      byte = static_cast<std::uint8_t>(random.below(256));
    if (random.chance(0.5)) { // a frame that is right outside and wrong inside
      bytes = make_frame(bytes);
    }
    stranger.send(bytes);
    if (round % 3 == 0)
      stranger.reset();
    CHECK(client.channel->send(good, {1, 1, 2, ping{round}}));
  }
  REQUIRE(client.heard.wait(kind::message, 300));
  CHECK(client.heard.count(kind::closed) == 0);
  REQUIRE(server.heard.wait(kind::closed, 300, 10s));
  CHECK(server.heard.end_of(server.heard.events(kind::accepted)[0].link).why == reason::none);
  CHECK(open_descriptors() == before);
  CHECK(log.contains("closed the link with"));
  std::size_t lines = 0;
  for (const char c : log.text)
    lines += c == '\n';
  CHECK(lines <= 30); // a storm costs a few lines
}

TEST_CASE("a message may come byte by byte") {
  tcp_node server{{}, ":0"};
  raw_socket peer{server.address};
  const auto sent = sample_messages()[2];
  for (const auto byte : framed(sent)) {
    CHECK(peer.send(std::vector<std::uint8_t>{byte}));
    if (byte % 8 == 0)
      std::this_thread::sleep_for(1ms);
  }
  REQUIRE(server.heard.wait(kind::message, 1));
  CHECK(server.heard.events(kind::message)[0].content == sent);
}

TEST_CASE("a message of another version is answered with a reject that names both, then the link closes") {
  captured_log log;
  tcp_node server{{}, ":0"};
  raw_socket peer{server.address};
  CHECK(peer.send(framed({7, 0xaaaa, 0, hello{"new", "build", 0, ""}})));
  const auto answer = peer.receive_all();
  CHECK(peer.closed());
  frame_decoder decoder{max_message_bytes};
  decoder.push(answer);
  const auto payload = decoder.next();
  REQUIRE(payload.has_value());
  REQUIRE(payload->has_value());
  const auto rejected = decode(**payload);
  REQUIRE(rejected.has_value());
  CHECK(rejected->to == 0xaaaa);
  const auto& why = std::get<reject>(rejected->what);
  CHECK(why.code == reject_code::wrong_version);
  CHECK(why.text == "this end speaks protocol version 1, yours speaks 7");
  REQUIRE(server.heard.wait_closed(server.last_accepted()));
  CHECK(server.heard.end_of(server.last_accepted()).why == reason::protocol);
  CHECK(server.heard.count(kind::message) == 0);
  CHECK(log.contains("message of protocol version 7, this end speaks 1"));
}

TEST_CASE("the side that dialled sees the reject of the other version before the link ends") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  const auto link = client.channel->dial(server.address);
  for (int i = 0; i < 50; ++i) // more than the server will read
    client.channel->send(link, {7, 1, 0, hello{"new", std::string(4000, 'b'), 0, ""}});
  REQUIRE(client.heard.wait_closed(link));
  const auto calls = client.heard.of_link(link);
  REQUIRE(calls.size() == 3);
  CHECK(std::get<reject>(calls[1].content.what).code == reject_code::wrong_version);
  CHECK(calls[2].why.why == reason::peer_dead);
}

TEST_CASE("the last words of a peer that reset its link are heard although a send fails first") {
  std::atomic<bool> inside{false};
  tcp_node server{{}, ":0"};
  raw_socket busy{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 1));
  raw_socket peer{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 2));
  const auto link = server.last_accepted();
  server.heard.then([&inside, link](const recorder::event& what) {
    if (what.link != link && what.what == kind::message) {
      inside = true;
      std::this_thread::sleep_for(200ms); // the loop comes to the send before it reads
    }
  });
  CHECK(busy.send(framed(hello_from(1))));
  CHECK(server.heard.wait_until([&] { return inside.load(); }));
  const message last_words{1, 2, 0, reject{0, 0, 0, reject_code::shutting_down, "last words", 0}};
  CHECK(peer.send(framed(last_words)));
  peer.reset();
  CHECK(server.channel->send(link, hello_from(3)));
  REQUIRE(server.heard.wait_closed(link));
  const auto calls = server.heard.of_link(link);
  REQUIRE(calls.size() == 3);
  CHECK(calls[1].content == last_words);
  CHECK(calls[2].why.why == reason::peer_dead);
  CHECK(calls[2].why.sys_errno == ECONNRESET);
}

TEST_CASE("a peer that does not read overflows its own queue and nobody else's") {
  captured_log log;
  tcp_options small;
  small.send_queue_bytes = 256 << 10;
  tcp_node client{small};
  tcp_node server{{}, ":0"};
  auto deaf = open_listener(address_of("127.0.0.1:0"));
  REQUIRE(deaf.has_value());
  const auto link = client.channel->dial(local_address(*deaf).to_string());
  const auto good = client.connect_to(server);
  REQUIRE(client.heard.wait(kind::dialled, 2));
  const message big{1, 1, 2, hello{std::string(4000, 'n'), std::string(4000, 'b'), 0, ""}};
  int sent = 0;
  while (sent < 100'000 && client.channel->send(link, big)) {
    if (++sent % 20 == 0)
      std::this_thread::sleep_for(1ms); // lets the queue drain into the kernel for as long as it can
  }
  CHECK(sent > 20);
  CHECK(sent < 100'000);
  CHECK_FALSE(client.channel->send(link, big));
  REQUIRE(client.heard.wait_closed(link));
  CHECK(client.heard.end_of(link).why == reason::resource);
  CHECK(client.heard.end_of(link).sys_errno == ENOBUFS);
  CHECK(client.heard.of_link(link).size() == 2);
  CHECK(log.contains("the send queue is full"));
  CHECK(client.channel->send(good, hello_from(1)));
  CHECK(server.heard.wait(kind::message, 1));
}

TEST_CASE("a message that exceeds a bound ends the link it was sent on, and says which field") {
  tcp_node server{{}, ":0"};
  tcp_node client;
  const auto link = client.connect_to(server);
  CHECK_FALSE(client.channel->send(link, {1, 1, 2, hello{std::string(5000, 'n'), "", 0, ""}}));
  REQUIRE(client.heard.wait_closed(link));
  CHECK(client.heard.end_of(link).why == reason::invalid_argument);
  CHECK(client.heard.end_of(link).what == "hello.node: has 5000 bytes, at most 4096 are allowed");
}

TEST_CASE("a link that never sends a valid message is closed in time, one that does is kept") {
  tcp_options hasty;
  hasty.first_message_timeout = 200ms;
  tcp_node server{hasty, ":0"};
  raw_socket scanner{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 1));
  const auto scanned = server.last_accepted();
  raw_socket peer{server.address};
  CHECK(peer.send(framed(hello_from(1))));
  CHECK(scanner.send(std::vector<std::uint8_t>{0xa7, 'r', 'd', 'm', 0, 0}));
  REQUIRE(server.heard.wait_closed(scanned));
  CHECK(server.heard.end_of(scanned).why == reason::peer_silent);
  std::this_thread::sleep_for(300ms);
  CHECK(server.heard.count(kind::closed) == 1);
}

TEST_CASE("links above the limit are turned away, whoever dials") {
  tcp_options few;
  few.max_links = 2;
  tcp_node server{few, ":0"};
  raw_socket first{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 1));
  const auto mine =
      server.channel->dial(server.address); // takes a place at each end, so the far one has none
  REQUIRE(server.heard.wait_closed(mine));
  CHECK(server.heard.end_of(mine).why == reason::peer_dead);
  raw_socket second{server.address};
  REQUIRE(server.heard.wait(kind::accepted, 2));
  const auto too_many = server.channel->dial(server.address);
  REQUIRE(server.heard.wait_closed(too_many));
  CHECK(server.heard.end_of(too_many).why == reason::resource);
  raw_socket third{server.address};
  third.receive_all();
  CHECK(third.closed());
  CHECK(server.heard.count(kind::accepted) == 2);
}

TEST_CASE("running out of descriptors delays accepting and does not spin") {
  captured_log log;
  tcp_node server{{}, ":0"};
  // All that happens below happens once before: UBSan looks a type up through a pipe when it first meets it,
  // and there will be no descriptors for one.
  const auto first = begin_connect(address_of(server.address));
  REQUIRE(server.heard.wait(kind::accepted, 1));
  CHECK(server.heard.count(kind::accepted) == 1);
  base::log(base::level::warn, "test", "{}, {} ms",
            base::fail(reason::local_device, "test", "like what follows", EMFILE).value().to_string(), 1);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{static_cast<rlim_t>(open_descriptors() + 20), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<unique_fd> fillers;
  for (unique_fd next{::dup(0)}; next; next = unique_fd{::dup(0)})
    fillers.push_back(std::move(next));
  fillers.pop_back();
  const auto peer = begin_connect(address_of(server.address)); // takes the last descriptor
  const auto cpu = cpu_time();
  std::this_thread::sleep_for(350ms);
  const auto used = cpu_time() - cpu;
  const auto meanwhile = server.heard.count(kind::accepted);
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(peer.has_value());
  CHECK(meanwhile == 1);
  CHECK(used < 100ms);
  CHECK(log.contains("cannot accept"));
  CHECK(server.heard.wait(kind::accepted, 2));
}
