// SPDX-License-Identifier: Apache-2.0
//
// What requests do that meet their own port down, where a rule says it: devices differ in that.
#include "verbs/soft/rules/rule.hpp"
#include "verbs/soft/testing/ruled_rig.hpp"

#include <chrono>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

/// Two writes leave just before a's link goes down, and one after it.
void write_into_a_link_that_goes_down(ruled_rig& rig) {
  rig.write(0);
  rig.write(1);
  REQUIRE(rig.net->set_link("a/soft0", false));
  rig.write(2);
  rig.run_for(1ms);
}

} // namespace

TEST_CASE("a device fails what meets its own port down, as a rule says") {
  ruled_rig rig;
  rig.rule("dev=a link=down do=status:LOC_QP_OP_ERR");
  write_into_a_link_that_goes_down(rig);
  const auto wcs = rig.a->poll();
  REQUIRE(wcs.size() == 3);
  CHECK(wcs[0].status == IBV_WC_LOC_QP_OP_ERR);
  CHECK(wcs[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(wcs[2].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig.a->state() == IBV_QPS_ERR);
  CHECK(!rig.landed(0));
  CHECK(rig.verdicts() == std::vector<std::string>{"status:LOC_QP_OP_ERR write 0"});
}

TEST_CASE("a device holds what meets its own port down, and no retry counts meanwhile") {
  ruled_rig rig;
  const auto rule = rig.rule("dev=a link=down do=hold");
  write_into_a_link_that_goes_down(rig);
  rig.run_for(10 * retry_time);
  CHECK(rig.a->poll().empty());
  CHECK(rig.a->state() == IBV_QPS_RTS);
  CHECK(rig.hits(rule) > 0);
  REQUIRE(rig.net->set_link("a/soft0", true));
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 3);
  CHECK(rig.landed(2));
}

TEST_CASE("what meets its own port down hangs for good, and comes back when its queue pair is moved to ERR") {
  ruled_rig rig;
  rig.rule("dev=a link=down do=hang");
  write_into_a_link_that_goes_down(rig);
  REQUIRE(rig.net->set_link("a/soft0", true));
  rig.write(3);
  rig.run_for(10 * retry_time);
  CHECK(rig.a->poll().empty());
  CHECK(to_error(*rig.a) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 4);
}

TEST_CASE("a rule about the own port says nothing of the peer's, nor of work while the port is up") {
  ruled_rig rig;
  const auto rule = rig.rule("dev=a link=down do=status:LOC_QP_OP_ERR");
  rig.write(0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  REQUIRE(rig.net->set_link("b/soft0", false));
  rig.write(1);
  rig.run_for(1ms);
  CHECK(rig.a->poll().empty());
  // It is waiting for its next try when its own port goes down too.
  REQUIRE(rig.net->set_link("a/soft0", false));
  rig.run_for(retry_time / 2 + 1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_LOC_QP_OP_ERR);
  CHECK(rig.hits(rule) >= 1);
}

TEST_CASE("a rule about the own port is refused where it would mean nothing") {
  const auto refusal = [](const char* text) {
    const auto read = parse_rule(text);
    return read ? std::string{} : read.error().what;
  };
  CHECK(refusal("link=up do=hang").find("say link=down") != std::string::npos);
  CHECK(refusal("link=down do=drop").find("status, hang and hold") != std::string::npos);
  CHECK(refusal("link=down op=recv do=status:SUCCESS").find("op=recv") != std::string::npos);
  CHECK(refusal("dev=a do=hold").find("needs link=down") != std::string::npos);
  CHECK(refusal("dev=a link=down do=hold").empty());
}
