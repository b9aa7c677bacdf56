// SPDX-License-Identifier: Apache-2.0
// Peers that say no, and peers that talk nonsense: the reason arrives in the peer's own words, and nobody
// else notices. The other end is played by hand over the same channel.
#include "tests/sim/load.hpp"

#include <functional>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

/// A node played by the test: it keeps what it hears and answers with what it is told to.
class played final : public bootstrap::channel_handler {
public:
  played(sim::cluster& in, const std::string& name) : in_(in), channel_(in.network().make_channel(name)) {
    channel_->start(*this);
    address = *channel_->listen(name);
  }
  ~played() override { channel_->stop(); }
  void on_accepted(bootstrap::link_id l, const std::string&) override { link = l; }
  void on_dialled(bootstrap::link_id) override { up = true; }
  void on_message(bootstrap::link_id l, bootstrap::message&& what) override {
    link = l;
    heard.push_back(what);
    if (answer)
      answer(heard.back());
  }
  void on_closed(bootstrap::link_id, const base::error&) override { closed = true; }

  void dial(const std::string& to) {
    link = channel_->dial(to);
    in_.world().run_until([&] { return up || closed; }, in_.now() + 1s);
  }
  void say(bootstrap::body what, bootstrap::incarnation to) {
    bootstrap::message m;
    m.from = 0x77;
    m.to = to;
    m.what = std::move(what);
    channel_->send(link, m);
  }
  template <class Body>
  const Body* first() const {
    for (const auto& m : heard)
      if (const auto* b = std::get_if<Body>(&m.what))
        return b;
    return nullptr;
  }
  template <class Body>
  bool hears() {
    return in_.world().run_until([&] { return first<Body>() != nullptr; }, in_.now() + 1s);
  }

  std::string address;
  std::function<void(const bootstrap::message&)> answer;
  std::vector<bootstrap::message> heard;
  bootstrap::link_id link = 0;
  bool up = false;
  bool closed = false;

private:
  sim::cluster& in_;
  std::unique_ptr<bootstrap::channel> channel_;
};

sim::node_options named(const char* name) {
  sim::node_options o;
  o.name = name;
  o.devices = 1;
  o.nic.mode = verbs::soft::nic_mode::paced;
  return o;
}

bootstrap::hello hello() {
  bootstrap::hello h;
  h.node = "x";
  return h;
}

using imported = std::shared_ptr<std::optional<base::expected<actors::peer_ref>>>;

/// What becomes of it, once it is known.
imported begin_import(sim::machine& by, const std::string& address) {
  auto outcome = std::make_shared<imported::element_type>();
  by.engine().import_peer(address, [outcome](auto r) { *outcome = std::move(r); });
  return outcome;
}

bootstrap::publish publish() {
  bootstrap::publish p;
  p.published.name = "x";
  p.published.devices.resize(1);
  p.published.devices[0].device = "soft0";
  p.published.probe_rkeys = {1};
  return p;
}

} // namespace

TEST_CASE("a node that refuses the link is quoted to whoever imports it") {
  sim::cluster c(1);
  auto& a = c.add(named("a"));
  played x(c, "x");
  x.answer = [&](const bootstrap::message& m) {
    bootstrap::reject r;
    r.code = bootstrap::reject_code::shutting_down;
    r.text = "closed for tonight";
    x.say(r, m.from);
  };
  const auto ref = [&] {
    const auto outcome = begin_import(a, x.address);
    c.world().run_until([&] { return outcome->has_value(); }, c.now() + 5s);
    return std::move(**outcome);
  }();
  REQUIRE_FALSE(ref.has_value());
  CHECK(ref.error().why == base::reason::peer_rejected);
  CHECK(ref.error().to_string().find("closed for tonight") != std::string::npos);
  CHECK(ref.error().to_string().find("shutting_down") != std::string::npos);
  CHECK(a.stop());
}

TEST_CASE("an acceptor names the device that it does not have") {
  sim::cluster c(2);
  auto& b = c.add(named("b"));
  c.world().run_for(10ms);
  played x(c, "x");
  x.dial(b.address());
  x.say(hello(), 0);
  REQUIRE(x.hears<bootstrap::publish>());
  bootstrap::connect connect;
  connect.endpoint = 4;
  connect.peer_device = "soft9";
  connect.qps.resize(2);
  x.say(connect, x.heard.front().from);
  REQUIRE(x.hears<bootstrap::reject>());
  const auto* r = x.first<bootstrap::reject>();
  CHECK(r->endpoint == 4);
  CHECK(r->code == bootstrap::reject_code::unknown_device);
  CHECK(r->text.find("soft9") != std::string::npos);
  CHECK(b.stop());
}

TEST_CASE(
    "C-23: a link that does not begin with hello, or asks for another incarnation, is refused in words that "
    "name both") {
  sim::cluster c(3);
  auto& b = c.add(named("b"));
  c.world().run_for(10ms);
  {
    played x(c, "x");
    x.dial(b.address());
    x.say(bootstrap::ping{1}, 0);
    REQUIRE(x.hears<bootstrap::reject>());
    CHECK(x.first<bootstrap::reject>()->code == bootstrap::reject_code::bad_request);
  }
  {
    played y(c, "y");
    y.dial(b.address());
    y.say(hello(), 0x123456);
    REQUIRE(y.hears<bootstrap::reject>());
    CHECK(y.first<bootstrap::reject>()->code == bootstrap::reject_code::wrong_incarnation);
    const auto& words = y.first<bootstrap::reject>()->text;
    CHECK(words.find("0x123456") != std::string::npos);
    CHECK(words.find(fmt::format("{:#x}", b.engine().self())) != std::string::npos);
    CHECK(c.world().run_until([&] { return y.closed; }, c.now() + 1s));
  }
  CHECK(b.stop());
}

TEST_CASE("a rail that the acceptor refuses is tried again, in its words, until it agrees") {
  sim::cluster c(4);
  auto& a = c.add(named("a"));
  played x(c, "x");
  int refused = 0;
  x.answer = [&](const bootstrap::message& m) {
    if (std::holds_alternative<bootstrap::hello>(m.what)) {
      x.say(hello(), m.from);
      x.say(publish(), m.from);
    } else if (const auto refusal = bootstrap::refusal_of(m, "come back later")) {
      ++refused;
      x.say(refusal->what, m.from);
    }
  };
  const auto outcome = begin_import(a, x.address);
  c.world().run_for(3s);
  REQUIRE(outcome->has_value());
  CHECK((*outcome)->has_value());
  CHECK(refused >= 4);  // unlimited patience
  CHECK(refused <= 30); // but in no hurry
  std::size_t quoted = 0;
  for (const auto& e : a.events)
    quoted += e.kind == observe::event_kind::rejected && e.detail.find("come back later") != std::string::npos
                  ? 1
                  : 0;
  CHECK(quoted >= 1);
  CHECK(a.stop());
}

TEST_CASE("a peer that says hello and never what it publishes is dialled again, and named") {
  sim::cluster c(6);
  auto& a = c.add(named("a"));
  played x(c, "x");
  int hellos = 0;
  x.answer = [&](const bootstrap::message& m) {
    if (!std::holds_alternative<bootstrap::hello>(m.what))
      return;
    x.say(hello(), m.from);
    if (++hellos == 3)
      x.say(publish(), m.from);
  };
  const auto outcome = begin_import(a, x.address);
  c.world().run_for(2 * a.engine().config().connect_deadline + 100ms);
  CHECK(hellos == 3);
  CHECK(sim::told(a, observe::event_kind::rejected, "it said hello, and does not say what it publishes") ==
        2);
  REQUIRE(outcome->has_value());
  CHECK((*outcome)->has_value());
  CHECK(a.count(observe::event_kind::peer_dead) == 0);
  c.world().run_for(5s);
  CHECK(hellos == 3);
  CHECK(a.stop());
}

TEST_CASE("a publish that never came is found out by the answer to a ping, and the next link brings it") {
  sim::cluster c(8);
  auto& a = c.add(named("a"));
  played x(c, "x");
  int hellos = 0;
  x.answer = [&](const bootstrap::message& m) {
    if (std::holds_alternative<bootstrap::hello>(m.what)) {
      x.say(hello(), m.from);
      auto p = publish();
      p.published.version = ++hellos == 1 ? 6 : 7;
      x.say(p, m.from);
    } else if (const auto refusal = bootstrap::refusal_of(m, "come back later")) {
      x.say(refusal->what, m.from);
    } else if (const auto* ping = std::get_if<bootstrap::ping>(&m.what)) {
      x.say(bootstrap::pong{ping->token, 7}, m.from);
    }
  };
  a.engine().import_peer(x.address, [](auto) {});
  c.world().run_for(3s);
  CHECK(hellos == 2);
  CHECK(sim::told(a, observe::event_kind::rejected, "version 7 of what it publishes did not come, 6") == 1);
  CHECK(a.count(observe::event_kind::peer_dead) == 0);
  CHECK(a.stop());
}

TEST_CASE("what a peer publishes may come before its hello") {
  sim::cluster c(7);
  auto& a = c.add(named("a"));
  played x(c, "x");
  x.answer = [&](const bootstrap::message& m) {
    if (!std::holds_alternative<bootstrap::hello>(m.what))
      return;
    x.say(publish(), m.from);
    x.say(hello(), m.from);
  };
  const auto outcome = begin_import(a, x.address);
  c.world().run_for(100ms);
  REQUIRE(outcome->has_value());
  CHECK((*outcome)->has_value());
  REQUIRE(x.hears<bootstrap::connect>());
  CHECK(a.stop());
}

TEST_CASE("published memory that the data path could not use is refused by name") {
  sim::cluster c(5);
  auto& a = c.add(named("a"));
  played x(c, "x");
  x.answer = [&](const bootstrap::message& m) {
    if (!std::holds_alternative<bootstrap::hello>(m.what))
      return;
    x.say(hello(), m.from);
    bootstrap::publish p; // without a device
    x.say(p, m.from);
  };
  const auto outcome = begin_import(a, x.address);
  c.world().run_until([&] { return outcome->has_value(); }, c.now() + 5s);
  REQUIRE(outcome->has_value());
  REQUIRE_FALSE((*outcome)->has_value());
  CHECK((*outcome)->error().why == base::reason::protocol);
  CHECK(a.stop());
}

TEST_CASE("a peer that publishes fewer devices than before loses those rails and nothing else happens") {
  sim::cluster c(6);
  auto& a = c.add(named("a"));
  played x(c, "x");
  const auto publish = [&](std::size_t devices, std::uint64_t version, bootstrap::incarnation to) {
    bootstrap::publish p;
    p.published.version = version;
    for (std::size_t i = 0; i < devices; ++i) {
      bootstrap::port_address port;
      port.device = fmt::format("soft{}", i);
      port.mtu = 1024;
      port.read_depth = 1;
      p.published.devices.push_back(port);
    }
    p.published.probe_rkeys.assign(devices, 1);
    x.say(p, to);
  };
  std::size_t asked = 0;
  x.answer = [&](const bootstrap::message& m) {
    if (std::holds_alternative<bootstrap::hello>(m.what)) {
      x.say(hello(), m.from);
      publish(2, 1, m.from);
    }
    const auto* wanted = std::get_if<bootstrap::connect>(&m.what);
    if (wanted == nullptr || ++asked < 2)
      return;
    publish(1, 2, m.from); // and then it agrees all the same
    for (std::uint32_t endpoint = 1; endpoint <= 2; ++endpoint) {
      bootstrap::accept yes;
      yes.endpoint = endpoint;
      yes.local = {"soft0", {}, 0, 2, 1024, 1};
      yes.qps = wanted->qps;
      x.say(yes, m.from);
    }
  };
  const auto outcome = begin_import(a, x.address);
  REQUIRE(c.world().run_until([&] { return asked >= 2; }, c.now() + 1s));
  REQUIRE((outcome->has_value() && (*outcome)->has_value()));
  c.world().run_for(3s);
  CHECK((**outcome)->view->memory()->published.devices.size() == 1);
  CHECK(a.count(observe::event_kind::attempt_failed) > 0);
  CHECK(a.stop());
}
