// SPDX-License-Identifier: Apache-2.0
// What --fault takes, and that everything else is refused with a word that helps.
#include "bench/fault_plan.hpp"

#include <doctest/doctest.h>

using namespace actor_rdma::bench;
using namespace std::chrono_literals;

TEST_CASE("a fault plan is read in the order of its times") {
  const auto plan =
      parse_fault_plan("up:soft0@4s,down:soft0@2s,delay:target/soft1=10ms@2500ms,hang:soft1@0s");
  REQUIRE(plan);
  REQUIRE(plan->size() == 4);
  CHECK((*plan)[0].verb == fault_verb::hang);
  CHECK((*plan)[1].to_string() == "down:soft0");
  CHECK((*plan)[1].at == 2s);
  CHECK((*plan)[2].device == "target/soft1");
  CHECK((*plan)[2].amount == 10ms);
  CHECK((*plan)[3].verb == fault_verb::up);
}

TEST_CASE("a plain device is the initiator's") {
  const auto plan = with_host(*parse_fault_plan("down:soft0@1s,down:target/soft0@1s"), "me");
  CHECK(plan[0].device == "me/soft0");
  CHECK(plan[1].device == "target/soft0");
}

TEST_CASE("what harms and what heals are told apart") {
  const auto plan = *parse_fault_plan("down:a@0s,up:a@1s,hang:a@2s,heal:a@3s,delay:a=1ms@4s,delay:a=0ms@5s");
  std::string harms;
  for (const auto& step : plan)
    harms += step.harms() ? '1' : '0';
  CHECK(harms == "101010");
}

TEST_CASE("a wrong fault is refused with what would be right") {
  const auto error_of = [](const char* text) {
    const auto plan = parse_fault_plan(text);
    return plan ? std::string("accepted") : plan.error().to_string();
  };
  CHECK(error_of("") == "\"\": a fault is written VERB:DEVICE@TIME, for example down:soft0@2s");
  CHECK(error_of("down:soft0") ==
        "\"down:soft0\": a fault is written VERB:DEVICE@TIME, for example down:soft0@2s");
  CHECK(error_of("flap:soft0@2s") == "\"flap:soft0@2s\": the verbs are down, up, hang, heal and delay");
  CHECK(error_of("down:@2s") == "\"down:@2s\": which device?");
  CHECK(error_of("down:soft0=3ms@2s") == "\"down:soft0=3ms@2s\": only delay takes an amount");
  CHECK(error_of("delay:soft0@2s").find("by how much") != std::string::npos);
  CHECK(error_of("down:soft0@2").find("unit") != std::string::npos);
  CHECK(error_of("down:soft0@1s,").find("VERB:DEVICE@TIME") != std::string::npos);
}
