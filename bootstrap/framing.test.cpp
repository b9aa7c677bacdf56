// SPDX-License-Identifier: Apache-2.0
//
// Tests of the frame decoder: how a stream may be cut, and what ends it.
#include "bootstrap/framing.hpp"

#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace actor_rdma::bootstrap;

namespace {

using bytes = std::vector<std::uint8_t>;

bytes of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string failure(const bytes& stream) {
  frame_decoder decoder{100};
  decoder.push(stream);
  const auto next = decoder.next();
  return next ? "(none)" : next.error().what;
}

} // namespace

TEST_CASE("a frame is the magic, the length with its highest byte first, and the payload") {
  CHECK(make_frame(of("abc")) == bytes{0xa7, 'r', 'd', 'm', 0, 0, 0, 3, 'a', 'b', 'c'});
  CHECK(make_frame(bytes(0x010203, 0))[5] == 1);
}

TEST_CASE("payloads come out whole and in order however the stream is cut") {
  CHECK(rc::check("any cut", [] {
    const auto payloads = *rc::gen::arbitrary<std::vector<bytes>>();
    bytes stream;
    for (const auto& payload : payloads) {
      const auto framed = make_frame(payload);
      stream.insert(stream.end(), framed.begin(), framed.end());
    }
    frame_decoder decoder{1 << 20};
    std::vector<bytes> received;
    for (std::size_t at = 0; at < stream.size();) {
      const auto piece = std::min<std::size_t>(*rc::gen::inRange<std::size_t>(1, 20), stream.size() - at);
      decoder.push(std::span{stream}.subspan(at, piece));
      at += piece;
      for (auto next = decoder.next(); next && *next; next = decoder.next())
        received.emplace_back((*next)->begin(), (*next)->end());
    }
    RC_ASSERT(received == payloads);
    RC_ASSERT(decoder.held() == 0u);
  }));
}

TEST_CASE("a stranger is recognised by the first byte that differs") {
  CHECK(failure(of("GET / HTTP/1.1\r\n")) == "not this protocol, the bytes are 47 45 54 20 2f 20 48 54");
  CHECK(failure({0xa7, 'r', 'D'}) == "not this protocol, the bytes are a7 72 44");
  CHECK(failure({0xa7, 'r'}) == "(none)");
}

TEST_CASE("a length is checked before anything of that size is awaited, at the bound and one over it") {
  CHECK(failure({0xa7, 'r', 'd', 'm', 0, 0, 0, 100}) == "(none)");
  CHECK(failure({0xa7, 'r', 'd', 'm', 0, 0, 0, 101}) == "frame of 101 bytes, at most 100 are allowed");
  CHECK(failure({0xa7, 'r', 'd', 'm', 0xff, 0xff, 0xff, 0xff}) ==
        "frame of 4294967295 bytes, at most 100 are allowed");
}

TEST_CASE("a stream that failed stays failed, and what came before the fault is still delivered") {
  frame_decoder decoder{100};
  auto stream = make_frame(of("good"));
  stream.push_back('x');
  decoder.push(stream);
  const auto first = decoder.next();
  REQUIRE(first.has_value());
  REQUIRE(first->has_value());
  CHECK(bytes((*first)->begin(), (*first)->end()) == of("good"));
  CHECK_FALSE(decoder.next().has_value());
  decoder.push(make_frame(of("more")));
  CHECK_FALSE(decoder.next().has_value());
}
