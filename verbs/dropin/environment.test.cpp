// SPDX-License-Identifier: Apache-2.0
//
// The variables of the drop-in library.
#include "verbs/dropin/environment.hpp"

#include <chrono>
#include <map>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::dropin;
using namespace std::chrono_literals;

namespace {

using variables = std::map<std::string, std::string>;

base::expected<settings> read(const variables& set) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

TEST_CASE("without variables there is one device that executes at once") {
  for (const auto& set : {variables{}, variables{{devices_variable, ""}, {fabric_variable, ""}}}) {
    const auto s = read(set);
    REQUIRE(s);
    CHECK(s->fabric == "default");
    CHECK(s->host.empty());
    REQUIRE(s->devices.size() == 1);
    CHECK(s->devices[0].name == "soft0");
    CHECK(s->devices[0].mode == soft::nic_mode::immediate);
    CHECK(s->yield_after == 20);
  }
}

TEST_CASE("every variable arrives in every device") {
  const auto s = read({{fabric_variable, "lab-1"},
                       {host_variable, "left"},
                       {devices_variable, "3"},
                       {mode_variable, "paced"},
                       {rate_variable, "12.5"},
                       {latency_variable, "1.5ms"},
                       {yield_variable, "0"}});
  REQUIRE(s);
  CHECK(s->fabric == "lab-1");
  CHECK(s->host == "left");
  CHECK(s->yield_after == 0);
  REQUIRE(s->devices.size() == 3);
  CHECK(s->devices[2].name == "soft2");
  for (const auto& d : s->devices) {
    CHECK(d.mode == soft::nic_mode::paced);
    CHECK(d.rate_gbit_s == doctest::Approx(12.5));
    CHECK(d.latency == 1500us);
  }
}

TEST_CASE("a link layer is said for all devices or for each") {
  const auto layers = [](const char* text) {
    std::vector<int> all;
    const auto s = read({{devices_variable, "2"}, {link_layer_variable, text}});
    REQUIRE(s);
    for (const auto& d : s->devices)
      all.push_back(d.link_layer);
    return all;
  };
  constexpr int ib = IBV_LINK_LAYER_INFINIBAND;
  constexpr int eth = IBV_LINK_LAYER_ETHERNET;
  CHECK(layers("") == std::vector{eth, eth});
  CHECK(layers("infiniband") == std::vector{ib, ib});
  CHECK(layers("infiniband,ethernet") == std::vector{ib, eth});
}

TEST_CASE("no devices is an answer too") {
  const auto s = read({{devices_variable, "0"}});
  REQUIRE(s);
  CHECK(s->devices.empty());
}

TEST_CASE("a wrong value is refused by the name of its variable and with what is accepted") {
  const struct {
    const char* variable;
    const char* value;
    const char* accepted;
  } wrong[] = {
      {fabric_variable, "a/b", "letters"},
      {fabric_variable, ".hidden", "letters"},
      {host_variable, "a host", "1 to 40"},
      {host_variable, "01234567890123456789012345678901234567890", "1 to 40"},
      {devices_variable, "many", "0 to 16"},
      {devices_variable, "17", "0 to 16"},
      {devices_variable, "-1", "0 to 16"},
      {devices_variable, "1.5", "0 to 16"},
      {devices_variable, "2 ", "0 to 16"},
      {devices_variable, "nan", "0 to 16"},
      {mode_variable, "fast", "inline, paced, null"},
      {rate_variable, "0", "0.001 to 10000"},
      {rate_variable, "nan", "0.001 to 10000"},
      {latency_variable, "5", "5us"},
      {latency_variable, "-5us", "5us"},
      {latency_variable, "1h", "10s"},
      {yield_variable, "often", "0 (never yield)"},
      {link_layer_variable, "ib", "ethernet or infiniband"},
      {link_layer_variable, "infiniband,", "ethernet or infiniband"},
      {link_layer_variable, "infiniband,ethernet", "for each of the 1"},
      {devices_variable, "1e1", "0 to 16"},
      {devices_variable, "0x2", "0 to 16"},
      {devices_variable, " 2", "0 to 16"},
      {devices_variable, "2.0", "0 to 16"},
      {yield_variable, "1e3", "0 (never yield)"},
      {rate_variable, " 25", "0.001 to 10000"},
      {rate_variable, "0x10", "0.001 to 10000"},
  };
  for (const auto& w : wrong) {
    CAPTURE(w.variable);
    CAPTURE(w.value);
    const auto s = read({{w.variable, w.value}});
    REQUIRE(!s);
    CHECK(s.error().why == base::reason::invalid_argument);
    CHECK(s.error().what.find(std::string{w.variable} + "=\"" + w.value + '"') != std::string::npos);
    CHECK(s.error().what.find(w.accepted) != std::string::npos);
  }
}
