// SPDX-License-Identifier: Apache-2.0
//
// Tests of the codec: what goes round, what is refused and in which words. What random bytes do is in
// codec_fuzz.test.cpp.
#include "bootstrap/codec.hpp"

#include "bootstrap/limits.hpp"
#include "bootstrap/testing/arbitrary_message.hpp"
#include "bootstrap/testing/sample_messages.hpp"

#include <functional>
#include <string>

#include <doctest/doctest.h>
#include <msgpack.hpp>
#include <rapidcheck.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using bootstrap::testing::any_message_of;
using bootstrap::testing::sample_messages;
using bootstrap::testing::sample_port;
using bootstrap::testing::sample_qp;

namespace {

using packer = msgpack::packer<msgpack::sbuffer>;

byte_view view(const msgpack::sbuffer& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// A message as another implementation would write it: an envelope around a body that the caller packs.
msgpack::sbuffer by_hand(const char* type, const std::function<void(packer&)>& pack_body,
                         unsigned version = 1) {
  msgpack::sbuffer bytes;
  packer pk{bytes};
  pk.pack_map(5);
  pk.pack("body");
  pack_body(pk);
  pk.pack("type").pack(type);
  pk.pack("to").pack(2u);
  pk.pack("from").pack(0xaaaau);
  pk.pack("version").pack(version);
  return bytes;
}

std::string complaint(const msgpack::sbuffer& bytes) {
  const auto decoded = decode(view(bytes));
  return decoded ? "(none)" : decoded.error().text;
}

std::string complaint(const message& what) {
  const auto bytes = encode(what);
  return bytes ? "(none)" : bytes.error().what;
}

message with(body what) {
  return {protocol_version, 1, 2, std::move(what)};
}

/// The largest of everything that the bounds allow.
segment largest_segment() {
  const auto word = ~std::uint64_t{0};
  port_address port = sample_port();
  port.device = std::string(max_string_bytes, 'd');
  segment result{std::string(max_string_bytes, 's'), word, std::vector(max_devices, port), {}, word, {}};
  result.probe_rkeys.assign(max_devices, 0xffffffff);
  const remote_buffer buffer{word, word >> 1, word >> 1, true, std::vector(max_devices, 0xffffffffu)};
  result.buffers.assign(max_buffers, buffer);
  return result;
}

} // namespace

TEST_CASE("a message of every type survives encoding and decoding") {
  for (std::size_t type = 0; type < std::variant_size_v<body>; ++type) {
    CHECK(rc::check("round trip of type " + std::to_string(type), [type] {
      const auto sent = any_message_of(type);
      const auto bytes = encode(sent);
      RC_ASSERT(bytes.has_value());
      const auto received = decode(*bytes);
      RC_ASSERT(received.has_value());
      RC_ASSERT(*received == sent);
    }));
  }
}

TEST_CASE("the sample messages cover every type and every field goes round") {
  const auto samples = sample_messages();
  CHECK(samples.size() == std::variant_size_v<body>);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CHECK(samples[i].what.index() == i);
    const auto bytes = encode(samples[i]);
    REQUIRE(bytes.has_value());
    const auto received = decode(*bytes);
    REQUIRE(received.has_value());
    CHECK(*received == samples[i]);
  }
}

TEST_CASE("C-20: unknown keys are skipped wherever they stand and whatever they hold") {
  const auto bytes = by_hand("ping", [](packer& pk) {
    pk.pack_map(4);
    pk.pack("later").pack_map(1).pack(7).pack_array(2).pack_nil().pack(1.5);
    pk.pack(17).pack("a key that is no string");
    pk.pack("token").pack(99u);
    pk.pack("stamp").pack_ext(4, -1).pack_ext_body("abcd", 4);
  });
  const auto received = decode(view(bytes));
  REQUIRE(received.has_value());
  CHECK(*received == message{1, 0xaaaa, 2, ping{99}});
}

TEST_CASE("a hello of an older peer, which names no relation and no endpoints, is one of relation 0") {
  const auto bytes = by_hand("hello", [](packer& pk) {
    pk.pack_map(4);
    pk.pack("node").pack("n").pack("build_id").pack("b").pack("features").pack(1u).pack("auth").pack("");
  });
  const auto received = decode(view(bytes));
  REQUIRE(received.has_value());
  CHECK(*received == message{1, 0xaaaa, 2, hello{"n", "b", 1, "", 0, std::nullopt}});
}

TEST_CASE("a hello says which endpoints its sender has, or that it has none, or nothing about it") {
  const auto told = [](std::optional<std::vector<std::uint32_t>> endpoints) {
    const auto bytes = encode(with(hello{"n", "b", 1, "", 0, std::move(endpoints)}));
    REQUIRE(bytes.has_value());
    const auto received = decode(*bytes);
    REQUIRE(received.has_value());
    return std::get<hello>(received->what).endpoints;
  };
  CHECK(told(std::vector{3u, 70000u}) == std::vector{3u, 70000u});
  CHECK(told(std::vector<std::uint32_t>{}) == std::vector<std::uint32_t>{});
  CHECK(told(std::nullopt) == std::nullopt);
  hello all{"n", "b", 1, "", 0};
  all.endpoints.emplace(max_endpoints + 1, 1u);
  CHECK(complaint(with(all)) == "hello.endpoints: has 4097 entries, at most 4096 are allowed");
}

TEST_CASE("a missing field is refused by name") {
  CHECK(complaint(by_hand("ping", [](packer& pk) { pk.pack_map(0); })) == "ping.token: missing");
  msgpack::sbuffer empty;
  packer{empty}.pack_map(0);
  CHECK(complaint(empty) == "message.version: missing");
  msgpack::sbuffer no_type;
  packer{no_type}.pack_map(1).pack("version").pack(1u);
  CHECK(complaint(no_type) == "message.type: missing");
}

TEST_CASE("a field of the wrong type is refused by name, path and kind") {
  const auto token = [](auto value) {
    return complaint(by_hand("ping", [value](packer& pk) { pk.pack_map(1).pack("token").pack(value); }));
  };
  CHECK(token("7") == "ping.token: must be an unsigned integer, is a string");
  CHECK(token(-7) == "ping.token: must be an unsigned integer, is a negative integer");
  CHECK(token(7.5) == "ping.token: must be an unsigned integer, is a float");
  CHECK(token(true) == "ping.token: must be an unsigned integer, is a boolean");
  CHECK(complaint(by_hand("goodbye", [](packer& pk) { pk.pack_map(1).pack("cause").pack_nil(); })) ==
        "goodbye.cause: must be a string, is nil");
  CHECK(complaint(by_hand("ping", [](packer& pk) { pk.pack_array(0); })) ==
        "ping: body must be a map, is an array");
  const auto qps = by_hand("connect", [](packer& pk) {
    pk.pack_map(4).pack("endpoint").pack(1u).pack("peer_device").pack("x");
    pk.pack("local").pack_map(6).pack("device").pack("d").pack("gid").pack_bin(16).pack_bin_body(
        "0123456789abcdef", 16);
    pk.pack("lid").pack(1u).pack("gid_type").pack(1u).pack("mtu").pack(1024u).pack("read_depth").pack(16u);
    pk.pack("qps").pack_array(1).pack_map(2).pack("index").pack(0u).pack("qp_num").pack_array(0);
  });
  CHECK(complaint(qps) == "connect.qps[0].qp_num: must be an unsigned integer, is an array");
}

TEST_CASE("a port of an end that names no link layer is one that always has a GRH") {
  const auto bytes = by_hand("rebuild", [](packer& pk) {
    pk.pack_map(3).pack("endpoint").pack(1u);
    pk.pack("local").pack_map(6).pack("device").pack("d").pack("gid").pack_bin(16).pack_bin_body(
        "0123456789abcdef", 16);
    pk.pack("lid").pack(1u).pack("gid_type").pack(1u).pack("mtu").pack(1024u).pack("read_depth").pack(16u);
    pk.pack("qp").pack_map(4).pack("index").pack(0u).pack("qp_num").pack(1u).pack("psn").pack(2u);
    pk.pack("generation").pack(1u);
  });
  const auto got = decode(view(bytes));
  REQUIRE(got);
  const auto& port = std::get<rebuild>(got->what).local;
  CHECK(port.link_layer == 0);
  CHECK(port.grh);
}

TEST_CASE("a number that its field cannot hold is refused, and so is a key that appears twice") {
  const auto retry =
      by_hand("retired", [](packer& pk) { pk.pack_map(1).pack("endpoint").pack(0x100000000u); });
  CHECK(complaint(retry) == "retired.endpoint: is 4294967296, at most 4294967295 is allowed");
  const auto twice =
      by_hand("ping", [](packer& pk) { pk.pack_map(2).pack("token").pack(1u).pack("token").pack(2u); });
  CHECK(complaint(twice) == "ping.token: appears twice");
}

TEST_CASE("an unknown type is refused by name, made harmless for a log") {
  CHECK(complaint(by_hand("frob\n\x1b[31m", [](packer& pk) { pk.pack_map(0); })) ==
        "message: unknown type \"frob??[31m\"");
}

TEST_CASE("a GID must have sixteen bytes") {
  const auto bytes = by_hand("accept", [](packer& pk) {
    pk.pack_map(2).pack("endpoint").pack(1u);
    pk.pack("local").pack_map(2).pack("device").pack("d").pack("gid").pack_bin(0).pack_bin_body("", 0);
  });
  CHECK(complaint(bytes) == "accept.local.gid: has 0 bytes, must have 16");
}

TEST_CASE("a notice's payload must be binary and within its bound") {
  const auto payload = [](const std::function<void(packer&)>& value) {
    return complaint(by_hand("notice", [&](packer& pk) {
      pk.pack_map(4).pack("session").pack(1u).pack("sequence").pack(1u).pack("name").pack("n");
      pk.pack("payload");
      value(pk);
    }));
  };
  CHECK(payload([](packer& pk) { pk.pack("text"); }) == "notice.payload: must be binary, is a string");
  const std::vector<char> long_one(4097);
  CHECK(payload([&](packer& pk) { pk.pack_bin(4097).pack_bin_body(long_one.data(), 4097); }) ==
        "notice.payload: has 4097 bytes, at most 4096 are allowed");
  CHECK(payload([&](packer& pk) { pk.pack_bin(4096).pack_bin_body(long_one.data(), 4096); }) == "(none)");
}

TEST_CASE("bytes that are no message are refused in words") {
  const auto words = [](std::initializer_list<unsigned> bytes) {
    const std::vector<std::uint8_t> data(bytes.begin(), bytes.end());
    const auto decoded = decode(data);
    return decoded ? std::string{"(none)"} : decoded.error().text;
  };
  CHECK(words({}) == "message: truncated");
  CHECK(words({0x2a}) == "message: must be a map, is an unsigned integer");
  CHECK(words({0xc1}) == "message: not msgpack");
  CHECK(words({0x80, 0x80}) == "message: 1 bytes after its end");
  CHECK(words({0xdd, 0xff, 0xff, 0xff, 0xff}) == "message: too many values");
  CHECK(words({0xdf, 0xff, 0xff, 0xff, 0xff}) == "message: a map has too many entries");
  CHECK(words({0xdb, 0xff, 0xff, 0xff, 0xff}) == "message: truncated");
  CHECK(decode(std::vector<std::uint8_t>(1000, 0x91)).error().text == "message: nested too deeply");
  CHECK(decode(std::vector<std::uint8_t>(max_message_bytes + 1, 0xc0)).error().text ==
        "message of 4194305 bytes, at most 4194304 are allowed");
}

TEST_CASE("another version is told apart from an error, whatever else its message holds") {
  const auto bytes = by_hand(
      "no_such_type", [](packer& pk) { pk.pack_nil(); }, 2);
  const auto decoded = decode(view(bytes));
  REQUIRE_FALSE(decoded.has_value());
  CHECK(decoded.error().other_version == std::uint16_t{2});
  CHECK(decoded.error().from == 0xaaaa);
  CHECK(decoded.error().text == "message of protocol version 2, this end speaks 1");

  const auto answer = wrong_version_answer(decoded.error());
  CHECK(answer.version == protocol_version);
  CHECK(answer.to == 0xaaaa);
  const auto& why = std::get<reject>(answer.what);
  CHECK(why.code == reject_code::wrong_version);
  CHECK(why.text == "this end speaks protocol version 1, yours speaks 2");
  CHECK(encode(answer).has_value());

  const auto same_version = by_hand("ping", [](packer& pk) { pk.pack_nil(); });
  CHECK_FALSE(decode(view(same_version)).error().other_version.has_value());
}

TEST_CASE("a reject of another version is understood, so that both ends can say why they part") {
  auto sent = with(reject{0, 0, 0, reject_code::wrong_version, "this end speaks 9", 0});
  sent.version = 9;
  const auto received = decode(*encode(sent));
  REQUIRE(received.has_value());
  CHECK(*received == sent);
}

TEST_CASE("the largest message that keeps to every bound fits, and one step more is refused on both sides") {
  auto sent = with(publish{largest_segment()});
  const auto bytes = encode(sent);
  REQUIRE(bytes.has_value());
  CHECK(bytes->size() <= max_message_bytes);
  const auto received = decode(*bytes);
  REQUIRE(received.has_value());
  CHECK(*received == sent);

  std::get<publish>(sent.what).published.buffers.push_back({1, 1, 1, true, std::vector(max_devices, 1u)});
  CHECK(complaint(sent) == "publish.published.buffers: has 16385 entries, at most 16384 are allowed");
  const auto many = by_hand("publish", [](packer& pk) {
    pk.pack_map(1).pack("published").pack_map(3).pack("name").pack("s").pack("version").pack(1u);
    pk.pack("devices").pack_array(33);
    for (int i = 0; i < 33; ++i)
      pk.pack_nil();
  });
  CHECK(complaint(many) == "publish.published.devices: has 33 entries, at most 32 are allowed");
}

TEST_CASE("a struct that exceeds a bound is not encoded, and the error names the field") {
  CHECK(complaint(with(hello{std::string(max_string_bytes, 'n'), "b", 0, ""})) == "(none)");
  CHECK(complaint(with(hello{std::string(max_string_bytes + 1, 'n'), "b", 0, ""})) ==
        "hello.node: has 4097 bytes, at most 4096 are allowed");
  auto qp = sample_qp(0);
  qp.psn = max_24_bits + 1;
  CHECK(complaint(with(rebuild{1, sample_port(), qp})) ==
        "rebuild.qp.psn: is 16777216, at most 16777215 is allowed");
  auto port = sample_port();
  port.mtu = 1500;
  CHECK(complaint(with(bootstrap::connect{1, port, "d", {}})) ==
        "connect.local.mtu: must be 256, 512, 1024, 2048 or 4096");
  notice note{1, 1, std::string(max_notice_name_bytes, 'n'), std::vector<std::uint8_t>(max_notice_bytes)};
  CHECK(complaint(with(note)) == "(none)");
  note.payload.push_back(0);
  CHECK(complaint(with(note)) == "notice.payload: has 4097 bytes, at most 4096 are allowed");
  note.payload.clear();
  note.name.push_back('n');
  CHECK(complaint(with(note)) == "notice.name: must have at most 256 bytes");
  segment lopsided{"s", 1, {sample_port()}, {{1, 2, 3, true, {}}}, 0, {7}};
  CHECK(complaint(with(publish{lopsided})) ==
        "publish.published.buffers: must have one rkey for each device");
  segment wrapped{"s", 1, {}, {{1, ~std::uint64_t{0}, 2, true, {}}}, 0, {}};
  CHECK(complaint(with(publish{wrapped})) ==
        "publish.published.buffers[0].length: exceeds the address space");
}

TEST_CASE("words for people are cut to their bound at the edge of a character") {
  const auto euro = std::string{"\xe2\x82\xac"};
  std::string text(max_string_bytes - 1, '.');
  const auto received = decode(*encode(with(goodbye{text + euro + euro})));
  REQUIRE(received.has_value());
  CHECK(std::get<goodbye>(received->what).cause == text);
}

TEST_CASE("types and codes have names, and a code of a later version has one too") {
  CHECK(std::string{type_name(bootstrap::connect{})} == "connect");
  CHECK(std::string{type_name(goodbye{})} == "goodbye");
  CHECK(std::string{to_string(reject_code::stale_generation)} == "stale_generation");
  CHECK(std::string{to_string(static_cast<reject_code>(999))} == "unknown");
}
