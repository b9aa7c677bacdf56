// SPDX-License-Identifier: Apache-2.0
// One name for a batch from its submit to its end: what events say of it can be joined.
#include "transport/transport.hpp"
#include "verbs/soft/fabric.hpp"

#include <mutex>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

struct kept_events final : observe::event_sink {
  void on_event(const observe::event& what) override {
    std::lock_guard lock(mutex);
    all.push_back(what);
  }
  std::vector<observe::event> of(observe::event_kind kind) {
    std::lock_guard lock(mutex);
    std::vector<observe::event> some;
    for (const auto& e : all)
      if (e.kind == kind)
        some.push_back(e);
    return some;
  }
  std::mutex mutex;
  std::vector<observe::event> all;
};

} // namespace

TEST_CASE("H-04: what is told of a batch has the name that its submitter gave it, or that it got") {
  const auto fabric = *verbs::soft::fabric::open({});
  const auto seen = std::make_shared<kept_events>();
  options o;
  o.soft.private_fabric = fabric;
  o.soft.devices = 1;
  o.name = o.soft.host = "target";
  o.listen = "127.0.0.1:0";
  auto target = transport::create(o);
  REQUIRE_MESSAGE(target.has_value(), target.error().to_string());
  o.name = o.soft.host = "initiator";
  o.listen.clear();
  o.events = seen;
  auto initiator = transport::create(o);
  REQUIRE_MESSAGE(initiator.has_value(), initiator.error().to_string());
  std::vector<unsigned char> from(4096);
  std::vector<unsigned char> to(4096);
  REQUIRE((*target)->register_memory(to.data(), to.size()));
  REQUIRE((*initiator)->register_memory(from.data(), from.size(), false));
  auto seg = (*initiator)->import_segment((*target)->address(), 5s);
  REQUIRE_MESSAGE(seg.has_value(), seg.error().to_string());
  const std::vector<transfer_request> one{
      {operation::write, from.data(), seg->buffers()[0].addr, from.size()}};
  submit_options how;
  const auto send = [&](std::uint64_t trace) {
    how.trace = trace;
    auto b = (*initiator)->submit(*seg, one, submit_options{how});
    REQUIRE(b);
    REQUIRE(b->wait_for(10s));
    return *b;
  };
  const auto first = send(0);
  CHECK(first.result(0).status == transfer_status::completed);
  CHECK(first.trace() != 0);
  CHECK(send(0).trace() != first.trace());
  CHECK(seen->of(observe::event_kind::batch_failed).empty());
  REQUIRE(fabric->add_rule("dev=initiator op=write count=1 do=status:LOC_LEN_ERR"));
  const auto refused = send(0x5eed);
  CHECK(refused.result(0).status == transfer_status::failed);
  CHECK(refused.trace() == 0x5eed);
  const auto errors = seen->of(observe::event_kind::wr_error);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].trace == 0x5eed);
  const auto ends = seen->of(observe::event_kind::batch_failed);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].trace == 0x5eed);
  CHECK(ends[0].value == 1);
  CHECK(ends[0].detail.find("of 1 transfers; number 0 failed: ") == 0);
  CHECK((*initiator)->shutdown(5s).clean);
  CHECK((*target)->shutdown(5s).clean);
}
