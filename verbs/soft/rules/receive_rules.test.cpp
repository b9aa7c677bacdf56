// SPDX-License-Identifier: Apache-2.0
//
// Rules about completions of receives, posting to shared receive queues, and events of queues.
#include "verbs/soft/testing/ruled_rig.hpp"

#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

using list = std::vector<std::uint64_t>;

list ids(const std::vector<ibv_wc>& wcs) {
  list all;
  for (const auto& wc : wcs)
    all.push_back(wc.wr_id);
  return all;
}

/// a sends to b, whose receive number i takes 64 bytes at 64 * i.
struct message_rig : ruled_rig {
  using ruled_rig::ruled_rig;
  void receive(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i)
      REQUIRE(b->receive(i, 64 * i, 64) == 0);
  }
  void send(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i)
      REQUIRE(a->send(i, 64 * i, 64) == 0);
    run_for(1ms);
  }
};

struct shared_queue {
  shared_queue(host& on, end& e) : verbs_{on.verbs()} {
    ibv_srq_init_attr init{};
    init.attr = {8, 1, 0};
    srq = verbs_.create_srq(e.pd.get(), &init);
    REQUIRE(srq != nullptr);
  }
  ~shared_queue() { CHECK(verbs_.destroy_srq(srq) == 0); }
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;
  ibv_srq* srq = nullptr;

private:
  const provider& verbs_;
};

std::vector<ibv_async_event> async_events(const host& on, const end& e) {
  std::vector<ibv_async_event> all;
  ibv_async_event event{};
  while (on.verbs().get_async_event(e.ctx.get(), &event) == 0) {
    all.push_back(event);
    on.verbs().ack_async_event(&event);
  }
  return all;
}

} // namespace

TEST_CASE("a peer's answer completes before the send that it answers, always, where a rule says so") {
  for (const bool is_ruled : {false, true}) {
    message_rig rig;
    if (is_ruled)
      rig.rule("dev=a op=send,write do=cqe_behind:recv,50ms");
    for (std::uint64_t i = 0; i < 100; ++i) {
      REQUIRE(rig.a->receive(1000 + i, 0, 64) == 0);
      rig.receive(i, i);
      rig.send(i, i); // done, and at the peer
      REQUIRE(rig.b->poll().size() == 1);
      REQUIRE(rig.b->send(i, 0, 64) == 0);
      rig.run_for(1ms);
      CHECK(ids(rig.a->poll()) == (is_ruled ? list{1000 + i, i} : list{i, 1000 + i}));
      REQUIRE(rig.b->poll().size() == 1);
    }
    // One answer for several: they come behind it, in their order.
    REQUIRE(rig.a->receive(1000, 0, 64) == 0);
    rig.receive(0, 2);
    rig.send(0, 2);
    REQUIRE(rig.b->send(0, 0, 64) == 0);
    rig.run_for(1ms);
    CHECK(ids(rig.a->poll()) == (is_ruled ? list{1000, 0, 1, 2} : list{0, 1, 2, 1000}));
    // An answer that came while nobody polled is not passed when the patience of the rule ends.
    REQUIRE(rig.a->receive(1000, 0, 64) == 0);
    rig.receive(3, 3);
    rig.send(3, 3);
    REQUIRE(rig.b->send(0, 0, 64) == 0);
    rig.run_for(1s);
    CHECK(ids(rig.a->poll()) == (is_ruled ? list{1000, 3} : list{3, 1000}));
  }
}

TEST_CASE("a receive ends with the status that a rule says, and its queue pair with it") {
  message_rig rig;
  const auto id = rig.rule("dev=b op=recv nth=2 do=status:LOC_LEN_ERR");
  rig.receive(0, 3);
  rig.send(0, 0);
  CHECK(rig.b->poll().at(0).status == IBV_WC_SUCCESS);
  CHECK(rig.hits(id) == 0);
  rig.send(1, 1);
  CHECK(rig.a->poll().size() == 2); // the sender knows nothing of it
  auto wcs = rig.b->poll();
  CHECK(rig.hits(id) == 1);
  rig.run_for(1ms);
  const auto flushed = rig.b->poll();
  wcs.insert(wcs.end(), flushed.begin(), flushed.end());
  CHECK(ids(wcs) == list{1, 2, 3});
  CHECK(wcs.at(0).status == IBV_WC_LOC_LEN_ERR);
  CHECK(wcs.at(1).status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig.b->state() == IBV_QPS_ERR);
  CHECK(rig.verdicts() == std::vector<std::string>{"status:LOC_LEN_ERR recv 1"});
  CHECK(async_events(*rig.host_b, *rig.b).empty()); // the completion says it
}

TEST_CASE("a held receive comes at its time, what is behind it waits or passes, and the payload is there") {
  message_rig rig;
  rig.receive(0, 2);
  SUBCASE("behind it") {
    rig.rule("dev=b op=recv nth=1 do=hold_cqe:20ms");
    rig.send(0, 2);
    CHECK(rig.b->poll().empty());
    CHECK(arrived(*rig.a, *rig.b, 0, 3 * 64));
    rig.run_for(21ms);
    CHECK(ids(rig.b->poll()) == list{0, 1, 2});
  }
  SUBCASE("past it") {
    rig.rule("dev=b op=recv nth=1 do=hold_cqe:20ms,alone");
    rig.send(0, 2);
    CHECK(ids(rig.b->poll()) == list{1, 2});
    rig.run_for(21ms);
    CHECK(ids(rig.b->poll()) == list{0});
  }
  SUBCASE("for ever, and ERR brings the others") {
    rig.rule("dev=b op=recv nth=1 do=hold_cqe");
    rig.send(0, 1);
    CHECK(rig.b->poll().empty());
    REQUIRE(to_error(*rig.b) == 0);
    const auto wcs = rig.b->poll();
    CHECK(ids(wcs) == list{1, 2});
    CHECK(wcs.at(0).status == IBV_WC_SUCCESS);
    CHECK(wcs.at(1).status == IBV_WC_WR_FLUSH_ERR);
  }
  SUBCASE("until the own queue sends") {
    rig.rule("dev=b op=recv nth=1 do=cqe_behind:send,1s");
    rig.send(0, 0);
    CHECK(rig.b->poll().empty());
    REQUIRE(rig.b->write(77, rig.a->where(), 0, 0, 8) == 0);
    rig.run_for(1ms);
    CHECK(ids(rig.b->poll()) == list{77, 0});
  }
}

TEST_CASE("receives are not flushed where a rule says so, and are free again after a reset") {
  message_rig rig;
  SUBCASE("one of them") {
    rig.rule("dev=b op=recv nth=2 do=no_flush");
    rig.receive(0, 2);
    REQUIRE(to_error(*rig.b) == 0);
    CHECK(ids(rig.b->poll()) == list{0, 2});
  }
  SUBCASE("only what was posted in ERR") {
    rig.rule("dev=b op=recv do=no_flush:marker");
    rig.receive(0, 1);
    REQUIRE(to_error(*rig.b) == 0);
    rig.receive(2, 2);
    CHECK(ids(rig.b->poll()) == list{0, 1});
  }
  rig.run_for(1s);
  CHECK(rig.b->poll().empty());
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  REQUIRE(rig.b->qp.modify(attr, IBV_QP_STATE));
  REQUIRE(rig.b->to_init() == 0);
  rig.receive(0, 63); // as many as there are
}

TEST_CASE("posting to a shared receive queue fails at the element that a rule says") {
  message_rig rig;
  rig.rule("dev=b verb=post_srq_recv nth=3 do=errno:ENOMEM");
  const shared_queue shared{*rig.host_b, *rig.b};
  ibv_recv_wr wrs[4] = {};
  for (std::size_t i = 0; i < 3; ++i)
    wrs[i].next = &wrs[i + 1];
  ibv_recv_wr* bad = nullptr;
  CHECK(ibv_post_srq_recv(shared.srq, wrs, &bad) == ENOMEM);
  CHECK(bad == &wrs[2]);
  CHECK(wrs[1].next == &wrs[2]);
  CHECK(ibv_post_srq_recv(shared.srq, bad, &bad) == 0);
}

TEST_CASE("events of shared receive queues and completion queues are raised on demand, each with its own") {
  message_rig rig;
  const auto raise = [&](const char* type, std::uint32_t times = 1, std::uint32_t qp = 0) {
    REQUIRE(rig.net->raise_event("b/soft0", type, times, qp));
    rig.run_for(1ms);
    return async_events(*rig.host_b, *rig.b);
  };
  CHECK(raise("SRQ_LIMIT_REACHED").empty()); // there is none
  {
    const shared_queue shared{*rig.host_b, *rig.b};
    auto events = raise("SRQ_ERR", 2);
    REQUIRE(events.size() == 2);
    CHECK(events[0].event_type == IBV_EVENT_SRQ_ERR);
    CHECK(events[0].element.srq == shared.srq);
    CHECK(raise("SRQ_LIMIT_REACHED", 1, rig.b->qp.number()).empty()); // it does not use it
    events = raise("CQ_ERR");
    REQUIRE(events.size() == 1);
    CHECK(events[0].element.cq == rig.b->cq.get());
    events = raise("CQ_ERR", 3, rig.b->qp.number());
    CHECK(events.size() == 3);
    rig.rule("event=SRQ_LIMIT_REACHED,CQ_ERR do=delay:5ms");
    CHECK(raise("SRQ_LIMIT_REACHED").empty());
    CHECK(raise("CQ_ERR").empty());
    rig.run_for(5ms);
    CHECK(async_events(*rig.host_b, *rig.b).size() == 2);
    CHECK(raise("SRQ_LIMIT_REACHED").empty());
  }
  rig.run_for(5ms);
  CHECK(async_events(*rig.host_b, *rig.b).empty()); // gone with its queue
}
