// SPDX-License-Identifier: Apache-2.0
//
// Tests of sizes and times as text.
#include "base/units.hpp"

#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

TEST_CASE("sizes are read in powers of 1024") {
  CHECK(parse_size("0").value() == 0);
  CHECK(parse_size("4096").value() == 4096);
  CHECK(parse_size("64K").value() == 65'536);
  CHECK(parse_size("64k").value() == 65'536);
  CHECK(parse_size("64KiB").value() == 65'536);
  CHECK(parse_size("1M").value() == 1'048'576);
  CHECK(parse_size("1.5M").value() == 1'572'864);
  CHECK(parse_size("512M").value() == 536'870'912);
  CHECK(parse_size("4G").value() == 4'294'967'296);
  CHECK(parse_size("2T").value() == 2'199'023'255'552);
  CHECK(parse_size("18446744073709551615").value() == ~std::uint64_t{0});
}

TEST_CASE("times are read with their unit") {
  CHECK(parse_duration("7ns").value() == 7ns);
  CHECK(parse_duration("50us").value() == 50us);
  CHECK(parse_duration("50ms").value() == 50ms);
  CHECK(parse_duration("2s").value() == 2s);
  CHECK(parse_duration("1.5s").value() == 1500ms);
  CHECK(parse_duration("0.001us").value() == 1ns);
  CHECK(parse_duration("3min").value() == 3min);
  CHECK(parse_duration("2h").value() == 2h);
}

TEST_CASE("what is no size or time is refused with a sentence") {
  for (const char* text : {"", "K", "-1", "1X", "1 K", " 1", "1KK", "1.2.3K", "0x10"})
    CHECK_FALSE(parse_size(text).has_value());
  for (const char* text : {"", "s", "5", "-1s", "1 s", "1sec", "1..s"})
    CHECK_FALSE(parse_duration(text).has_value());
  CHECK(parse_duration("5").error().to_string() ==
        "base: \"5\" is no duration: its unit must be one of ns us ms s min h");
  CHECK(parse_size("x").error().why == reason::invalid_argument);
}

TEST_CASE("what does not fit is out of range, at the first value that does not") {
  CHECK(parse_size("16777215T").has_value());
  CHECK(parse_size("16777216T").error().why == reason::out_of_range);
  CHECK(parse_size("18446744073709551616").error().why == reason::out_of_range);
  CHECK(parse_duration("9223372036s").has_value());
  CHECK(parse_duration("9223372037s").error().why == reason::out_of_range);
}
