// SPDX-License-Identifier: Apache-2.0
//
// The rule language: what it reads, what it refuses, and what it matches.
#include "verbs/soft/rules/rule.hpp"

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs::soft;

namespace {

rule read(const std::string& text) {
  const auto r = parse_rule(text);
  if (!r)
    FAIL_CHECK(text << ": " << r.error().to_string());
  return r.value_or(rule{});
}

bool refuses(const std::string& text, const std::string& with) {
  const auto r = parse_rule(text);
  if (r)
    return false;
  CHECK(r.error().why == base::reason::invalid_argument);
  INFO(r.error().to_string());
  CHECK(r.error().to_string().find(with) != std::string::npos);
  return true;
}

work_facts write_from_a() {
  work_facts f;
  f.requester = "a/soft0";
  f.responder = "b/soft1";
  f.requester_qp = 0x11;
  f.responder_qp = 0x22;
  f.bytes = 4096;
  return f;
}

std::uint64_t hits(const rule& r, std::uint64_t matches_seen) {
  std::uint64_t n = 0;
  for (std::uint64_t i = 1; i <= matches_seen; ++i)
    n += fires(r, i, 1) ? 1 : 0;
  return n;
}

} // namespace

TEST_CASE("a rule line is read key by key") {
  const auto r = read("dev=a/soft0 peer=b op=write,read qp=0x1a dir=tx bytes=1-1024 skip=2 every=3 count=4 "
                      "after_ms=1.5 for_ms=20 chance=0.25 do=delay:5ms # as in the report");
  CHECK(r.target == rule_target::work);
  CHECK(r.device == "a/soft0");
  CHECK(r.peer == "b");
  CHECK(r.ops == (1U << static_cast<int>(work_op::write) | 1U << static_cast<int>(work_op::read)));
  CHECK(r.qp == 0x1aU);
  CHECK(r.direction == rule_direction::tx);
  CHECK(r.bytes.least == 1);
  CHECK(r.bytes.most == 1024);
  CHECK(r.skip == 2);
  CHECK(r.every == 3);
  CHECK(r.count == 4);
  CHECK(r.after == 1'500'000);
  CHECK(r.during == 20'000'000);
  CHECK(r.chance_ppm == 250'000);
  CHECK(r.action == rule_action::delay);
  CHECK(r.time == 5'000'000);
}

TEST_CASE("every action has its arguments") {
  auto r = read("do=status:IBV_WC_REM_ACCESS_ERR,garbage,landed");
  CHECK(r.value == IBV_WC_REM_ACCESS_ERR);
  CHECK(r.is_garbage);
  CHECK(r.lands);
  CHECK(read("do=hold_cqe").time == never);
  r = read("do=hold_cqe:2ms,alone");
  CHECK(r.time == 2'000'000);
  CHECK(r.is_alone);
  CHECK(read("do=hold_cqe,alone").is_alone);
  CHECK(read("do=hold_dma:500ms").time == 500'000'000);
  CHECK(read("op=recv do=cqe_behind:send").behind == cqe_class::send);
  CHECK(read("do=cqe_behind:recv,1s").time == 1'000'000'000);
  CHECK(!read("do=hang").is_hard);
  CHECK(read("do=hang:hard").is_hard);
  CHECK(read("do=no_flush:marker").is_marker);
  CHECK(read("do=reorder").time == never);
  CHECK(read("dir=ack do=drop").direction == rule_direction::ack);
  r = read("verb=reg_mr,create_qp nth=2 do=errno:ENOMEM");
  CHECK(r.target == rule_target::verb);
  CHECK(r.value == ENOMEM);
  CHECK(r.verbs == (std::uint64_t{1} << static_cast<int>(verb::reg_mr) |
                    std::uint64_t{1} << static_cast<int>(verb::create_qp)));
  r = read("verb=modify_qp state=ERR do=ignore");
  CHECK(r.states_to == 1U << IBV_QPS_ERR);
  CHECK(read("verb=destroy_qp do=late_cqe").action == rule_action::late_cqe);
  CHECK(read("verb=create_qp,modify_qp do=half").action == rule_action::half);
  r = read("verb=reg_mr do=delay:1.5ms/GiB");
  CHECK(r.time == 1'500'000);
  CHECK(r.per == 1U << 30);
  r = read("event=PORT_ERR,IBV_EVENT_PORT_ACTIVE do=swallow");
  CHECK(r.events == (1ULL << IBV_EVENT_PORT_ERR | 1ULL << IBV_EVENT_PORT_ACTIVE));
  CHECK(read("event=any do=burst:500").repeat == 500);
  r = read("dev=a after_ms=10 do=raise:DEVICE_FATAL,3");
  CHECK(r.target == rule_target::timer);
  CHECK(r.value == IBV_EVENT_DEVICE_FATAL);
  CHECK(r.repeat == 3);
  r = read("dev=a/soft0 do=link:down,quiet");
  CHECK(r.value == 0);
  CHECK(r.is_quiet);
}

TEST_CASE("what a rule cannot mean is refused by name, with what is accepted") {
  CHECK(refuses("", "do=ACTION"));
  CHECK(refuses("# nothing", "do=ACTION"));
  CHECK(refuses("dev=a", "do=ACTION"));
  CHECK(refuses("device=a do=drop", "\"device\"; keys are dev, peer, qp"));
  CHECK(refuses("drop", "\"drop\" is no key=value"));
  CHECK(refuses("do=explode", "\"explode\" is no action: say one of drop, delay"));
  CHECK(refuses("op=writes do=drop", "\"writes\" is no operation: say one of send, write, read"));
  CHECK(refuses("do=status:REM_ACCESS", "\"REM_ACCESS\" is no completion status: say one of SUCCESS"));
  CHECK(refuses("verb=reg do=errno:EIO", "\"reg\" is no verb"));
  CHECK(refuses("verb=reg_mr do=errno:EWHAT", "\"EWHAT\" is no errno"));
  CHECK(refuses("event=PORT_UP do=swallow", "\"PORT_UP\" is no event"));
  CHECK(refuses("dir=left do=drop", "\"left\" is no direction: say one of request, ack, tx, rx"));
  CHECK(refuses("qp=0 do=drop", "no queue pair number"));
  CHECK(refuses("qp=x do=drop", "\"x\" is no number"));
  CHECK(refuses("nth=0 do=drop", "nth=0"));
  CHECK(refuses("nth=1 nth=2 do=drop", "twice"));
  CHECK(refuses("do=drop do=hang", "twice"));
  CHECK(refuses("do=delay", "do=delay:T"));
  CHECK(refuses("do=delay:soon", "\"soon\""));
  CHECK(refuses("do=drop:1", "no argument"));
  CHECK(refuses("bytes=9-3 do=drop", "bytes=9-3"));
  CHECK(refuses("region=9-3 do=drop", "region=9-3 is empty: say region=LOW-HIGH"));
  CHECK(refuses("peer_region=all do=drop", "peer_region=\"all\" is no number"));
  CHECK(refuses("region=4096 verb=reg_mr do=errno:EIO", "\"region\" does not go with a rule about verbs"));
  CHECK(refuses("chance=2 do=drop", "chance"));
  CHECK(refuses("after_ms=-1 do=drop", "after_ms"));
  CHECK(refuses("do=hold_cqe:2ms,lonely", "\"lonely\""));
  CHECK(refuses("do=link:sideways", "\"sideways\""));
  CHECK(refuses("event=any do=burst:0", "burst:N"));
  CHECK(refuses("verb=any event=any do=delay:1ms", "exclude each other"));
  CHECK(refuses("do=errno:EIO", "does not go with a rule about work requests"));
  CHECK(refuses("verb=reg_mr do=drop", "does not go with a rule about verbs"));
  CHECK(refuses("verb=reg_mr op=write do=errno:EIO", "\"op\" does not go with"));
  CHECK(refuses("nth=2 do=raise:PORT_ERR", "\"nth\" does not go with"));
  CHECK(refuses("verb=reg_mr state=ERR do=errno:EIO", "modify_qp"));
  CHECK(refuses("verb=reg_mr do=ignore", "modify_qp"));
  CHECK(refuses("verb=reg_mr do=late_cqe", "destroy_qp"));
  CHECK(refuses("verb=reg_mr do=half", "do=half is for verb=create_cq"));
  CHECK(refuses("verb=create_cq do=half:3", "no argument"));
  CHECK(refuses("verb=reg_mr do=delay:1ms/MB", "\"1ms/MB\" is not understood"));
  CHECK(refuses("verb=reg_mr,dereg_mr do=delay:1ms/MiB", "verb=reg_mr only"));
  CHECK(refuses("do=delay:1ms/MiB", "verb=reg_mr only"));
  CHECK(refuses("dir=ack do=hang", "dir=request only"));
  CHECK(refuses("dir=ack do=duplicate", "payload"));
  CHECK(refuses("op=recv do=hold_dma:1ms", "op=recv"));
  CHECK(refuses(std::string(300, ' ') + "do=drop", "characters"));
}

TEST_CASE("a rule that can never hit is refused") {
  CHECK(refuses("dev=h/soft0/x do=drop", "dev=\"h/soft0/x\" names no device"));
  CHECK(refuses("dev= do=drop", "dev=\"\" names no device"));
  CHECK(refuses("dev=/soft0 do=drop", "names no device"));
  CHECK(refuses("peer=h/ do=drop", "peer=\"h/\" names no device"));
  CHECK(refuses("nth=3 every=2 do=drop", "neither with every= nor with first="));
  CHECK(refuses("nth=3 first=2 do=drop", "neither with every= nor with first="));
  CHECK(refuses("every=3 first=2 do=drop", "every=3 would never hit among the first=2"));
  CHECK(refuses("chance=1e-9 do=drop", "never hit"));
  CHECK(refuses("for_ms=0 do=drop", "for_ms=0"));
  CHECK(refuses("event=PORT_ERR qp=5 do=swallow", "events of queue pairs"));
  CHECK(refuses("verb=reg_mr,create_qp qp=5 do=errno:EIO", "verbs on a queue pair"));
  CHECK(refuses("dev=a do=\x1b[2J", "a rule is a line of text"));
  CHECK(read("event=any qp=5 do=swallow").qp == 5U);
  CHECK(read("verb=any qp=5 do=errno:EIO").qp == 5U);
  CHECK(read("every=3 first=3 do=drop").every == 3);
  CHECK(read("nth=3 count=1 skip=2 do=drop").nth == 3);
}

TEST_CASE("a device is named in full, by its host or by its own name") {
  CHECK(names_device("", "a/soft0"));
  CHECK(names_device("a/soft0", "a/soft0"));
  CHECK(names_device("a", "a/soft0"));
  CHECK(names_device("soft0", "a/soft0"));
  CHECK(!names_device("b", "a/soft0"));
  CHECK(!names_device("a/soft1", "a/soft0"));
  CHECK(!names_device("soft", "a/soft0"));
  CHECK(!names_device("b/soft0", "a/soft0"));
}

TEST_CASE("a direction is seen from the rule's device") {
  auto request = write_from_a();
  auto answer = request;
  answer.is_answer = true;
  const auto both = [&](const std::string& text) {
    const auto r = read(text + " do=drop");
    return std::pair{matches(r, request), matches(r, answer)};
  };
  CHECK(both("") == std::pair{true, false});
  CHECK(both("dev=a") == std::pair{true, false});
  CHECK(both("dev=a dir=ack") == std::pair{false, true});
  CHECK(both("dev=a dir=tx") == std::pair{true, false});
  CHECK(both("dev=a dir=rx") == std::pair{false, true});
  CHECK(both("dev=b") == std::pair{false, false}); // it requests nothing here
  CHECK(both("dev=b dir=ack") == std::pair{false, false});
  CHECK(both("dev=b dir=tx") == std::pair{false, true});
  CHECK(both("dev=b dir=rx") == std::pair{true, false});
  CHECK(both("dev=a peer=b/soft1 dir=tx") == std::pair{true, false});
  CHECK(both("dev=a peer=c dir=tx") == std::pair{false, false});
  CHECK(both("qp=0x11") == std::pair{true, false});
  CHECK(both("qp=0x22") == std::pair{false, false});
  CHECK(both("dev=b qp=0x22 dir=rx") == std::pair{true, false});
  CHECK(both("op=read") == std::pair{false, false});
  CHECK(both("bytes=4096") == std::pair{true, false});
  CHECK(both("bytes=4097-") == std::pair{false, false});
}

TEST_CASE("a rule about memory means the region at its own device, and that at the other end") {
  auto f = write_from_a();
  f.region = 8192;
  f.peer_region = 65536;
  CHECK(matches(read("dev=a region=8192 do=drop"), f));
  CHECK(!matches(read("dev=a region=65536 do=drop"), f));
  CHECK(matches(read("dev=a peer_region=65536 do=drop"), f));
  CHECK(!matches(read("dev=a region=8192 peer_region=1-8192 do=drop"), f));
  CHECK(matches(read("dev=b dir=rx region=65536 peer_region=8192 do=drop"), f));
  CHECK(!matches(read("dev=b dir=rx region=8192 do=drop"), f));
  f.region = 0; // inline data
  CHECK(!matches(read("dev=a region=1- do=drop"), f));
}

TEST_CASE("receives match only rules that speak of them") {
  auto f = write_from_a();
  f.op = work_op::recv;
  CHECK(!matches(read("do=hold_cqe"), f));
  CHECK(matches(read("op=recv do=hold_cqe"), f));
  CHECK(matches(read("op=any do=hold_cqe"), f));
}

TEST_CASE("verbs and events match by name, device, queue pair and states") {
  verb_facts v{"a/soft0", verb::modify_qp, 5, 1U << IBV_QPS_ERR, 1U << IBV_QPS_RESET};
  CHECK(matches(read("verb=modify_qp from=ERR state=RESET do=errno:EIO"), v));
  CHECK(matches(read("verb=any do=errno:EIO"), v));
  CHECK(matches(read("verb=modify_qp,reg_mr qp=5 do=errno:EIO"), v));
  CHECK(!matches(read("verb=modify_qp from=RTS state=RESET do=errno:EIO"), v));
  CHECK(!matches(read("verb=modify_qp state=RTR do=errno:EIO"), v));
  CHECK(!matches(read("verb=modify_qp qp=6 do=errno:EIO"), v));
  CHECK(!matches(read("dev=b verb=modify_qp do=errno:EIO"), v));
  CHECK(!matches(read("verb=create do=errno:EIO"), v));
  v.call = verb::reg_mr;
  CHECK(matches(read("verb=create do=errno:EIO"), v));
  CHECK(!matches(read("verb=destroy,query do=errno:EIO"), v));
  CHECK(!matches(read("do=drop"), v));
  event_facts e{"a/soft0", IBV_EVENT_PORT_ERR, 0};
  CHECK(matches(read("event=any do=swallow"), e));
  CHECK(matches(read("dev=soft0 event=PORT_ERR do=swallow"), e));
  CHECK(!matches(read("event=PORT_ACTIVE do=swallow"), e));
  CHECK(!matches(read("qp=3 event=PORT_ERR,QP_FATAL do=swallow"), e));
}

TEST_CASE("triggers count matches from one, and spans of time have an end") {
  CHECK(hits(read("do=drop"), 10) == 10);
  CHECK(hits(read("nth=7 do=drop"), 6) == 0);
  CHECK(hits(read("nth=7 do=drop"), 20) == 1);
  CHECK(fires(read("nth=7 do=drop"), 7, 1));
  CHECK(hits(read("every=3 do=drop"), 10) == 3);
  CHECK(hits(read("first=4 do=drop"), 10) == 4);
  CHECK(hits(read("skip=8 do=drop"), 10) == 2);
  CHECK(fires(read("skip=2 nth=3 do=drop"), 5, 1));
  const auto some = hits(read("chance=0.1 do=drop"), 10'000);
  CHECK(some > 800);
  CHECK(some < 1200);
  CHECK(fires(read("chance=0.5 do=drop"), 3, 9) == fires(read("chance=0.5 do=drop"), 3, 9));
  const auto r = read("after_ms=10 for_ms=5 do=drop");
  CHECK(!is_in_time(r, 9'999'999));
  CHECK(is_in_time(r, 10'000'000));
  CHECK(is_in_time(r, 14'999'999));
  CHECK(!is_in_time(r, 15'000'000));
  CHECK(is_in_time(read("do=drop"), 1LL << 60));
}
