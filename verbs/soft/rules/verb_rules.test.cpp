// SPDX-License-Identifier: Apache-2.0
//
// Rules about calls and async events, and what acts by the clock.
#include "verbs/soft/testing/rig.hpp"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;
using namespace std::chrono_literals;

namespace {

std::vector<ibv_event_type> async_events(end& e) {
  std::vector<ibv_event_type> all;
  for (auto event = e.ctx.next_async_event(); event && *event; event = e.ctx.next_async_event())
    all.push_back((*event)->type);
  return all;
}
using events = std::vector<ibv_event_type>;

void add(pair_rig& rig, const std::string& text) {
  const auto id = rig.net->add_rule(text);
  REQUIRE_MESSAGE(id, (id ? "" : id.error().to_string()));
}

bool is_readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

int to_state(end& e, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  const auto done = e.qp.modify(attr, IBV_QP_STATE);
  return done ? 0 : done.error().sys_errno;
}

int error_of(const base::expected<memory_region>& made) {
  return made ? 0 : made.error().sys_errno;
}

} // namespace

TEST_CASE("registrations and queues fail with the errno that a rule says, and only when it says so") {
  pair_rig rig{nic_mode::immediate, true};
  add(rig, "dev=a verb=reg_mr nth=2 do=errno:ENOMEM");
  add(rig, "dev=a verb=create_cq,create_qp,alloc_pd do=errno:EMFILE");
  auto& a = *rig.a;
  CHECK(error_of(memory_region::reg(a.pd, a.memory, 4096, all_access)) == 0);
  CHECK(error_of(memory_region::reg(a.pd, a.memory, 4096, all_access)) == ENOMEM);
  CHECK(error_of(memory_region::reg(a.pd, a.memory, 4096, all_access)) == 0);
  CHECK(error_of(memory_region::reg(rig.b->pd, rig.b->memory, 4096, all_access)) == 0);
  CHECK(completion_queue::create(a.ctx, 16, a.channel).error().sys_errno == EMFILE);
  CHECK(protection_domain::alloc(a.ctx).error().sys_errno == EMFILE);
  CHECK(protection_domain::alloc(rig.b->ctx));
}

TEST_CASE("a post fails at its k-th element, and what was before it is accepted") {
  pair_rig rig{nic_mode::paced, true};
  add(rig, "dev=a verb=post_send nth=3 do=errno:ENOMEM");
  std::array<ibv_send_wr, 5> chain{};
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(rig.a->memory), 64, rig.a->lkey};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    chain[i].sg_list = &sge;
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_RDMA_WRITE;
    chain[i].send_flags = IBV_SEND_SIGNALED;
    chain[i].wr.rdma.remote_addr = rig.b->where().addr;
    chain[i].wr.rdma.rkey = rig.b->rkey;
  }
  std::size_t accepted = 0;
  CHECK(rig.a->post(chain, &accepted) == ENOMEM);
  CHECK(accepted == 2);
  CHECK(chain[1].next == &chain[2]); // the caller's list is whole again
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 2);
  CHECK(rig.a->post(std::span{chain}.subspan(2), &accepted) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 3);
}

TEST_CASE("the move to ERR can be ignored, and the way back from it refused") {
  pair_rig rig{nic_mode::paced, true};
  add(rig, "dev=a verb=modify_qp state=ERR count=1 do=ignore");
  add(rig, "dev=a verb=modify_qp from=ERR state=RESET do=errno:EIO");
  CHECK(to_state(*rig.a, IBV_QPS_ERR) == 0);
  CHECK(rig.a->state() == IBV_QPS_RTS);
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().at(0).status == IBV_WC_SUCCESS);
  CHECK(to_state(*rig.a, IBV_QPS_ERR) == 0);
  CHECK(rig.a->state() == IBV_QPS_ERR);
  CHECK(to_state(*rig.a, IBV_QPS_RESET) == EIO);
  CHECK(rig.a->state() == IBV_QPS_ERR);
  CHECK(to_state(*rig.b, IBV_QPS_RESET) == 0);
}

TEST_CASE("after a fatal error every call on a device fails, and nothing of the other one") {
  pair_rig rig{nic_mode::immediate, true};
  add(rig, "dev=a after_ms=5 do=raise:DEVICE_FATAL");
  add(rig, "dev=a verb=any after_ms=6 do=errno:EIO");
  auto& a = *rig.a;
  const auto where = a.where();
  rig.run_for(5ms);
  CHECK(async_events(a) == events{IBV_EVENT_DEVICE_FATAL});
  rig.run_for(5ms);
  CHECK(a.write(1, rig.b->where(), 0, 0, 64) == EIO);
  ibv_wc wc;
  CHECK(ibv_poll_cq(a.cq.get(), 1, &wc) == -EIO);
  CHECK(ibv_req_notify_cq(a.cq.get(), 0) == EIO);
  CHECK(error_of(memory_region::reg(a.pd, a.memory, 4096, all_access)) == EIO);
  CHECK(a.ctx.query_port(1).error().sys_errno == EIO);
  CHECK(!a.qp.query_state());
  CHECK(a.ctx.next_async_event().error().sys_errno == EIO);
  CHECK(rig.host_a->verbs().open_device(rig.host_a->verbs().list_devices()->at(0)) == nullptr);
  CHECK(a.mr.destroy().error().sys_errno == EIO);
  CHECK(a.qp.destroy().error().sys_errno == EIO);
  CHECK(rig.b->write(1, where, 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.b->poll().size() == 1); // its packets still reach the dead device's memory
  rig.net->clear_rules();
  CHECK(a.qp.destroy());
}

TEST_CASE("a dead event descriptor is readable and says EIO") {
  pair_rig rig{nic_mode::immediate, true};
  const int fd = rig.a->ctx.async_fd();
  add(rig, "dev=a verb=get_async_event after_ms=5 do=errno:EIO");
  rig.run_for(4ms);
  CHECK(!is_readable(fd));
  CHECK(!*rig.a->ctx.next_async_event());
  rig.run_for(2ms);
  CHECK(is_readable(fd));
  for (int i = 0; i < 3; ++i)
    CHECK(rig.a->ctx.next_async_event().error().sys_errno == EIO);
  CHECK(is_readable(fd));
  CHECK(!is_readable(rig.b->ctx.async_fd()));
}

TEST_CASE("a call that waits for an event ends when the descriptor dies") {
  fabric_options f;
  const auto net = *fabric::open(f);
  auto on = std::move(*net->attach("a", {device_options{}}));
  auto* const context = on->verbs().open_device(on->verbs().list_devices()->at(0));
  REQUIRE(context != nullptr);
  int result = 0;
  int error = 0;
  std::thread waiter{[&] {
    ibv_async_event event{};
    do {
      result = on->verbs().get_async_event(context, &event);
      error = errno;
    } while (result != 0 && error == EINTR);
  }};
  std::this_thread::sleep_for(10ms);
  REQUIRE(net->add_rule("verb=get_async_event do=errno:EIO"));
  waiter.join();
  CHECK(result == -1);
  CHECK(error == EIO);
  CHECK(on->verbs().close_device(context) == 0);
}

TEST_CASE("slow verbs take their time") {
  pair_rig rig{nic_mode::immediate, true};
  add(rig, "dev=a verb=modify_qp,reg_mr do=delay:30ms");
  CHECK(rig.net->take_verb_delay() == 0ms);
  CHECK(error_of(memory_region::reg(rig.a->pd, rig.a->memory, 4096, all_access)) == 0);
  CHECK(to_state(*rig.a, IBV_QPS_ERR) == 0);
  CHECK(rig.net->take_verb_delay() == 60ms);
  CHECK(rig.net->take_verb_delay() == 0ms);
  pair_rig real{nic_mode::immediate};
  add(real, "dev=a verb=modify_qp do=delay:30ms");
  const auto start = base::mono_clock::now();
  CHECK(to_state(*real.a, IBV_QPS_ERR) == 0);
  CHECK(base::mono_clock::now() - start >= 30ms);
}

TEST_CASE("events are raised by the clock or on demand, once or in bursts") {
  pair_rig rig{nic_mode::immediate, true};
  add(rig, "dev=a after_ms=10 do=raise:GID_CHANGE,3");
  rig.run_for(9ms);
  CHECK(async_events(*rig.a).empty());
  rig.run_for(2ms);
  CHECK(async_events(*rig.a) == events(3, IBV_EVENT_GID_CHANGE));
  CHECK(async_events(*rig.b).empty());
  REQUIRE(rig.net->raise_event("b/soft0", "PORT_ERR"));
  REQUIRE(rig.net->raise_event("b/soft0", "IBV_EVENT_PORT_ACTIVE", 2));
  rig.run_for(1ms);
  CHECK(async_events(*rig.b) == events{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE});
  CHECK(rig.b->ctx.query_port(1)->state == IBV_PORT_ACTIVE); // only told
  REQUIRE(rig.net->raise_event("a/soft0", "QP_FATAL"));
  REQUIRE(rig.net->raise_event("a/soft0", "CQ_ERR"));
  const auto nobody = rig.net->raise_event("a/soft0", "QP_FATAL", 1, 0x1);
  REQUIRE_FALSE(nobody.has_value());
  CHECK(nobody.error().to_string() == "soft NIC: a/soft0 has no queue pair 0x1 (1)");
  const auto number = rig.a->qp.get()->qp_num;
  CHECK(rig.net->raise_event("b/soft0", "QP_FATAL", 1, number).error().why == base::reason::not_found);
  CHECK(rig.net->raise_event("a/soft0", "PORT_ERR", 1, number).error().why == base::reason::invalid_argument);
  REQUIRE(rig.net->raise_event("a/soft0", "QP_REQ_ERR", 1, number));
  REQUIRE(rig.net->raise_event("a/soft0", "SQ_DRAINED"));
  rig.run_for(1ms);
  CHECK(async_events(*rig.a) ==
        events{IBV_EVENT_QP_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED});
  CHECK(rig.net->raise_event("a/soft0", "PORT_UP").error().why == base::reason::invalid_argument);
  CHECK(rig.net->raise_event("z/soft0", "PORT_ERR").error().why == base::reason::not_found);
}

TEST_CASE("events are swallowed, multiplied and late") {
  pair_rig rig{nic_mode::immediate, true};
  add(rig, "dev=a event=PORT_ACTIVE do=swallow");
  add(rig, "dev=a event=PORT_ERR do=burst:4");
  add(rig, "dev=b event=PORT_ERR,QP_ACCESS_ERR do=delay:20ms");
  for (const auto* const device : {"a/soft0", "b/soft0"}) {
    REQUIRE(rig.net->set_link(device, false));
    rig.run_for(1ms);
    REQUIRE(rig.net->set_link(device, true));
    rig.run_for(1ms);
  }
  CHECK(async_events(*rig.a) == events(4, IBV_EVENT_PORT_ERR));
  CHECK(async_events(*rig.b) == events{IBV_EVENT_PORT_ACTIVE}); // before the other
  rig.run_for(20ms);
  CHECK(async_events(*rig.b) == events{IBV_EVENT_PORT_ERR});
  auto wrong = rig.b->where();
  wrong.rkey ^= 0x10000;
  CHECK(rig.a->write(1, wrong, 0, 0, 64) == 0);
  rig.run_for(1ms);
  REQUIRE(rig.b->qp.destroy()); // with an event on its way
  rig.run_for(1s);
  CHECK(async_events(*rig.b).empty());
}

TEST_CASE("a quiet link tells nobody, by command or by the clock") {
  pair_rig rig{nic_mode::immediate, true};
  REQUIRE(rig.net->set_link_quietly("a/soft0", false));
  rig.run_for(1ms);
  CHECK(rig.a->ctx.query_port(1)->state != IBV_PORT_ACTIVE);
  REQUIRE(rig.net->set_link("a/soft0", true));
  rig.run_for(1ms);
  CHECK(async_events(*rig.a) == events{IBV_EVENT_PORT_ACTIVE});
  add(rig, "dev=a after_ms=10 do=link:down");
  add(rig, "dev=a after_ms=20 do=link:up,quiet");
  rig.run_for(15ms);
  CHECK(rig.a->ctx.query_port(1)->state != IBV_PORT_ACTIVE);
  rig.run_for(10ms);
  CHECK(rig.a->ctx.query_port(1)->state == IBV_PORT_ACTIVE);
  CHECK(async_events(*rig.a) == events{IBV_EVENT_PORT_ERR});
}

TEST_CASE("a reset ends every fault") {
  pair_rig rig{nic_mode::paced, true};
  add(rig, "dev=a do=drop");
  REQUIRE(rig.net->set_link("a/soft0", false));
  REQUIRE(rig.net->set_hang_mode("b/soft0", hang_mode::hard));
  REQUIRE(rig.net->set_delay("b/soft0", 5ms));
  REQUIRE(rig.net->reset_faults());
  rig.run_for(1ms);
  for (const auto& d : rig.net->devices()) {
    CHECK(d.link_up);
    CHECK(!d.hang);
    CHECK(d.delay.count() == 0);
  }
  CHECK(rig.net->rules().empty());
  CHECK(rig.a->write(1, rig.b->where(), 0, 0, 64) == 0);
  rig.run_for(1ms);
  CHECK(rig.a->poll().size() == 1);
}

TEST_CASE("rules come from a file, once for each line, and verdicts go to one as JSON lines") {
  const std::string stem = "/tmp/actor-rdma-rules-test." + std::to_string(::getpid());
  {
    std::ofstream file{stem + ".rules"};
    file << "# a story\n\ndev=a nth=1 do=drop\n  verb=reg_mr nth=1 do=errno:ENOMEM  \n";
  }
  base::manual_clock clock;
  fabric_options f;
  f.clock = &clock;
  f.rule_file = stem + ".rules";
  f.verdict_file = stem + ".jsonl";
  const auto net = *fabric::open(f);
  REQUIRE(net->rules().size() == 2);
  CHECK(net->rules()[1].text == "verb=reg_mr nth=1 do=errno:ENOMEM");
  device_options device;
  device.mode = nic_mode::paced;
  const auto a = std::move(*net->attach("a", {device}));
  auto context = *context::open(a->verbs(), a->verbs().list_devices()->at(0));
  auto pd = *protection_domain::alloc(context);
  std::array<std::byte, 64> memory{};
  CHECK(error_of(memory_region::reg(pd, memory.data(), memory.size(), all_access)) == ENOMEM);
  std::ifstream verdicts{stem + ".jsonl"};
  std::string line;
  REQUIRE(std::getline(verdicts, line));
  const auto json = nlohmann::json::parse(line);
  CHECK(json["verdict"] == "errno:ENOMEM");
  CHECK(json["op"] == "reg_mr");
  CHECK(json["device"] == "a/soft0");
  CHECK(json["rule"] == net->rules()[1].id);
  CHECK(!std::getline(verdicts, line));
  {
    std::ofstream file{stem + ".rules"};
    file << "\ndo=explode\n";
  }
  const auto refused = fabric::open(f);
  REQUIRE(!refused);
  CHECK(refused.error().to_string().find(".rules:2: \"explode\" is no action") != std::string::npos);
  ::unlink((stem + ".rules").c_str());
  ::unlink((stem + ".jsonl").c_str());
  f.rule_file = stem + ".absent";
  CHECK(fabric::open(f).error().why == base::reason::not_found);
}

TEST_CASE("a rule file that is none is refused in few words, and verdicts wait for no reader") {
  const std::string stem = "/tmp/actor-rdma-rules-kinds." + std::to_string(::getpid());
  base::manual_clock clock;
  fabric_options f;
  f.clock = &clock;
  const auto refusal = [&] {
    const auto opened = fabric::open(f);
    REQUIRE_FALSE(opened.has_value());
    return opened.error().to_string();
  };
  f.rule_file = "/tmp";
  CHECK(refusal() == "soft NIC rule: rule file /tmp: is a directory, not a regular file");
  f.rule_file = stem + ".fifo";
  REQUIRE(::mkfifo(f.rule_file.c_str(), 0600) == 0);
  CHECK(refusal().find("is a FIFO") != std::string::npos);
  f.verdict_file = std::exchange(f.rule_file, stem + ".binary");
  std::ofstream{f.rule_file} << "\x7f"
                                "ELF\x02\x1b]0;\n"
                             << std::string(5000, '\1');
  CHECK(refusal().find("cannot append verdicts to " + stem + ".fifo") != std::string::npos);
  f.verdict_file.clear();
  const auto binary = refusal();
  CHECK(binary.find(".binary:1: a rule is a line of text, \"\\x7fELF\\x02\\x1b]0;\" is none") !=
        std::string::npos);
  CHECK(binary.size() < 200);
  ::unlink((stem + ".fifo").c_str());
  ::unlink((stem + ".binary").c_str());
}

TEST_CASE("rules have room for many and say when there is no more") {
  pair_rig rig{nic_mode::immediate, true};
  int added = 0;
  while (rig.net->add_rule("dev=nobody do=drop"))
    ++added;
  CHECK(added == 128);
  CHECK(rig.net->add_rule("do=drop").error().why == base::reason::resource);
  REQUIRE(rig.net->remove_rule(rig.net->rules().at(5).id));
  CHECK(rig.net->add_rule("dev=nobody do=hang"));
  CHECK(rig.net->rules().back().text == "dev=nobody do=hang");
}
