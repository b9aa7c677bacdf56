// SPDX-License-Identifier: Apache-2.0
//
// Bytes from strangers: truncated, mutated and random ones. None may crash the decoder, and none may make it
// allocate more than a few times their own size.
#include "base/random.hpp"
#include "bootstrap/codec.hpp"
#include "bootstrap/framing.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/testing/sample_messages.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::bootstrap;
using bootstrap::testing::sample_messages;

namespace {

std::vector<std::vector<std::uint8_t>> sample_bytes() {
  std::vector<std::vector<std::uint8_t>> result;
  for (const auto& what : sample_messages())
    result.push_back(*encode(what));
  return result;
}

/// Flips, inserts, removes or overwrites a few places.
void mutate(std::vector<std::uint8_t>& bytes, base::rng& random) {
  constexpr std::array<std::uint8_t, 12> nasty = {0x00, 0x7f, 0x80, 0x8f, 0xc1, 0xc6,
                                                  0xcf, 0xdb, 0xdc, 0xdd, 0xdf, 0xff};
  for (auto rounds = random.below(4) + 1; rounds > 0; --rounds) {
    if (bytes.empty())
      bytes.push_back(0x85);
    const auto place = random.below(bytes.size());
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(place);
    switch (random.below(5)) {
    case 0: *at = static_cast<std::uint8_t>(*at ^ (1u << random.below(8))); break;
    case 1: *at = nasty[random.below(nasty.size())]; break;
    case 2: bytes.insert(at, nasty[random.below(nasty.size())]); break;
    case 3: bytes.erase(at); break;
    default: *at = static_cast<std::uint8_t>(random.below(256)); break;
    }
  }
}

} // namespace

TEST_CASE("C-20: every truncated prefix of every message is refused") {
  for (const auto& bytes : sample_bytes()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy of exactly that size lets the address sanitizer see a read behind its end.
      const std::vector<std::uint8_t> prefix(bytes.begin(),
                                             bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const auto decoded = decode(prefix);
      CHECK_FALSE(decoded.has_value());
      CHECK(decoded.error().text == "message: truncated");
    }
  }
}

TEST_CASE("a hundred thousand mutated messages decode or are refused, and what decodes can be encoded") {
  const auto originals = sample_bytes();
  base::rng random{20240601};
  std::size_t decoded_count = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto bytes = originals[random.below(originals.size())];
    mutate(bytes, random);
    bytes.shrink_to_fit();
    if (const auto decoded = decode(bytes)) {
      ++decoded_count;
      CHECK(encode(*decoded).has_value());
    } else {
      CHECK_FALSE(decoded.error().text.empty());
    }
  }
  CHECK(decoded_count > 1000); // the mutations must not all be gross
  CHECK(decoded_count < 99'000);
}

TEST_CASE("a hundred thousand random byte strings are refused") {
  base::rng random{7};
  for (int i = 0; i < 100'000; ++i) {
    std::vector<std::uint8_t> bytes(random.below(200));
    for (auto& byte : bytes)
      byte = static_cast<std::uint8_t>(random.below(256));
    if (random.chance(0.5) && !bytes.empty())
      bytes[0] = 0x85; // else most of them end at the first byte
    CHECK_FALSE(decode(bytes).has_value());
  }
}

TEST_CASE("random streams never get a frame out of the frame decoder that is longer than allowed") {
  base::rng random{11};
  for (int i = 0; i < 20'000; ++i) {
    frame_decoder decoder{64};
    std::vector<std::uint8_t> bytes(random.below(100));
    for (auto& byte : bytes)
      byte = static_cast<std::uint8_t>(random.below(256));
    if (random.chance(0.7))
      std::copy_n(frame_magic.begin(), std::min(bytes.size(), frame_magic.size()), bytes.begin());
    if (random.chance(0.5) && bytes.size() > 7)
      std::fill_n(bytes.begin() + 4, 3, std::uint8_t{0});
    decoder.push(bytes);
    for (auto next = decoder.next(); next && *next; next = decoder.next())
      CHECK((*next)->size() <= 64);
    CHECK(decoder.held() <= bytes.size());
  }
}

TEST_CASE("a message full of tiny values costs a bounded amount of memory") {
  const auto peak_kib = [] {
    std::ifstream status{"/proc/self/status"};
    std::string word;
    while (status >> word && word != "VmHWM:") {
    }
    long value = 0;
    status >> value;
    return value;
  };
  const auto before = peak_kib();
  // Four million nils in arrays of a million, then as many as are allowed, and maps of nothing but nil.
  std::vector<std::uint8_t> nils(max_message_bytes, 0xc0);
  nils[0] = 0xdd;
  nils[2] = 0x3f;
  nils[1] = nils[3] = nils[4] = 0;
  CHECK(decode(nils).error().text == "message: too many values");
  std::vector<std::uint8_t> allowed(5 + max_values, 0xc0);
  allowed[0] = 0xdd;
  allowed[1] = allowed[3] = allowed[4] = 0;
  allowed[2] = 0x10;
  CHECK(decode(allowed).error().text == "message: must be a map, is an array");
#ifdef __SANITIZE_THREAD__
  constexpr long shadow = 4; // of each byte
#else
  constexpr long shadow = 1;
#endif
  CHECK(peak_kib() - before < shadow * 64 * 1024);
}
