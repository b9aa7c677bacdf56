// SPDX-License-Identifier: Apache-2.0
// The words name what the file says.
#include "drill/explain.hpp"

#include "drill/format/read.hpp"
#include "drill/format/tables.hpp"

#include <map>

#include <doctest/doctest.h>

using namespace actor_rdma::drill;

namespace {

std::string words_for(const std::string& device) {
  const auto s = parse_scenario(R"({ "id": "x", "title": "y", "hosts": [{ "name": "a", "devices": [)" +
                                device + R"(] }] })");
  REQUIRE(s.has_value());
  return explain(*s);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the words for a device name each of its settings that is not the usual one") {
  CHECK(has(words_for("{}"), "  a with 1 device (25 Gbit/s, 5 us one way)\n"));
  const std::map<std::string, std::pair<std::string, std::string>> said{
      {"count", {"3", "3 devices"}},
      {"mode", {R"("inline")", "(mode inline: work is done in the post)"}},
      {"rate_gbit_s", {"100", "100 Gbit/s"}},
      {"bond_members", {"2", "one way, a bond of 2"}},
      {"latency_us", {"7", "7 us one way"}},
      {"mtu", {"1024", "one way, MTU 1024)"}},
      {"ports", {"2", "one way, 2 ports)"}},
      {"gids", {R"({ "3": "10.0.0.1" })", "GID 3 is ::ffff:10.0.0.1"}},
      {"link_layer", {R"("infiniband")", "one way, InfiniBand"}},
      {"lid", {R"(5, "link_layer": "infiniband")", "InfiniBand, LID 5"}},
      {"subnet_prefix", {R"("fec0::", "link_layer": "infiniband")", "InfiniBand, subnet 0xfec0"}},
      {"limits", {R"({ "max_qp": 7, "max_cqe": 9 })", "one way, max_qp 7, max_cqe 9)"}},
  };
  for (const auto& k : format::device_keys()) {
    CAPTURE(k.name);
    REQUIRE(said.count(k.name) == 1);
    const auto& [value, words] = said.at(k.name);
    CHECK(has(words_for("{ \"" + k.name + "\": " + value + " }"), words));
  }
  for (const auto& k : format::limit_keys()) {
    CAPTURE(k.name);
    CHECK(has(words_for(R"({ "limits": { ")" + k.name + R"(": 3 } })"), ", " + k.name + " 3)"));
  }
}

TEST_CASE("a device without rate and latency is not said to have them") {
  for (const std::string mode : {"inline", "null"})
    CHECK_FALSE(has(words_for(R"({ "mode": ")" + mode + "\" }"), "Gbit/s"));
  CHECK(has(words_for(R"({ "mode": "paced-null" })"), "no payload is moved, 25 Gbit/s, 5 us one way"));
  CHECK(has(words_for(R"({ "mode": "null", "mtu": 512 })"), "(mode null: no payload is moved, MTU 512)"));
}
