// SPDX-License-Identifier: Apache-2.0
//
// The soft-nic tool, run as a user would.
#include "verbs/soft/testing/peer.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include <sys/wait.h>

using namespace actor_rdma;
using namespace actor_rdma::verbs::soft;
using namespace actor_rdma::verbs::soft::testing;

namespace {

struct outcome {
  int code = -1;
  std::string text;
};

outcome run(const std::string& arguments) {
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "soft-nic";
  std::FILE* const out = ::popen((tool.string() + ' ' + arguments + " 2>&1").c_str(), "r");
  REQUIRE(out != nullptr);
  outcome o;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out))
    o.text += static_cast<char>(c);
  const int status = ::pclose(out);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

bool has(const outcome& o, const std::string& part) {
  return o.text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the tool shows and changes a fabric from outside") {
  fabric_options f;
  f.name = unique_fabric();
  const auto net = *fabric::open(f);
  device_options device;
  device.mode = nic_mode::paced;
  const auto host = std::move(*net->attach("h", {device}));
  const auto fabric_argument = " --fabric " + f.name;
  auto o = run("show" + fabric_argument);
  CHECK(o.code == 0);
  CHECK(has(o, "h/soft0"));
  CHECK(has(o, "paced"));
  CHECK(run("link h/soft0 down" + fabric_argument).code == 0);
  CHECK(run("hang soft0 on" + fabric_argument).code == 0);
  CHECK(run("delay soft0 1.5ms" + fabric_argument).code == 0);
  CHECK(run("rate soft0 50" + fabric_argument).code == 0);
  CHECK(run("mode soft0 null" + fabric_argument).code == 0);
  const auto d = net->devices().at(0);
  CHECK(!d.link_up);
  CHECK(d.hang);
  CHECK(d.delay == std::chrono::microseconds{1500});
  CHECK(d.rate_gbit_s == doctest::Approx(50));
  CHECK(d.mode == nic_mode::null);
  CHECK(run("link soft0 up" + fabric_argument).code == 0);
  CHECK(run("hang soft0 off" + fabric_argument).code == 0);
  CHECK(run("delay soft0 0" + fabric_argument).code == 0);
  CHECK(run("mode soft0 inline" + fabric_argument).code == 0);
  const auto healed = net->devices().at(0);
  CHECK(healed.link_up);
  CHECK(!healed.hang);
  CHECK(healed.delay.count() == 0);
  CHECK(healed.mode == nic_mode::immediate);
  CHECK(run("width soft0 2 50" + fabric_argument).code == 0);
  CHECK(run("memory h 100" + fabric_argument).code == 0);
  CHECK(run("member soft0 0 down --rehash 20ms" + fabric_argument).code == 0);
  CHECK(net->devices().at(0).lanes == 2);
  CHECK(net->devices().at(0).members_up == 0);
  CHECK(has(run("show" + fabric_argument), "2x50"));
  CHECK(run("member soft0 0 up" + fabric_argument).code == 0);
  CHECK(run("rate soft0 40 --member 0" + fabric_argument).code == 0);
  CHECK(net->devices().at(0).rate_gbit_s == doctest::Approx(40));
  CHECK(run("mtu soft0 1024" + fabric_argument).code == 0);
  CHECK(net->devices().at(0).mtu == 1024);
  CHECK(run("lid soft0 7" + fabric_argument).code == 0);
  CHECK(net->devices().at(0).lid == 7);
  CHECK(run("gid soft0 move 3 5" + fabric_argument).code == 0);
  CHECK(run("gid soft0 del 0" + fabric_argument).code == 0);
  CHECK(run("gid soft0 set 3 10.0.0.9 --type v1 --interface 4 --interface-down" + fabric_argument).code == 0);
  o = run("gid soft0 list" + fabric_argument);
  CHECK(o.code == 0);
  CHECK(has(o, "  5 ::ffff:10.77.0.0"));
  CHECK(has(o, "::ffff:10.0.0.9"));
  CHECK(has(o, "v1  interface 4 down"));
  CHECK(!has(o, "  0 "));
  o = run("log" + fabric_argument);
  CHECK(o.code == 0);
  CHECK(has(o, "link_down h/soft0"));
  CHECK(has(o, "mode_changed h/soft0"));
}

TEST_CASE("the tool's refusals have a sentence and an exit code") {
  fabric_options f;
  f.name = unique_fabric();
  auto o = run("show --fabric " + f.name);
  CHECK(o.code == 3);
  CHECK(has(o, f.name));
  const auto net = *fabric::open(f);
  const auto host = std::move(*net->attach("h", {device_options{}}));
  const auto fabric_argument = " --fabric " + f.name;
  o = run("link soft9 down" + fabric_argument);
  CHECK(o.code == 1);
  CHECK(has(o, "soft9"));
  CHECK(run("rate soft0 0" + fabric_argument).code == 2);
  CHECK(run("link soft0 sideways" + fabric_argument).code == 2);
  CHECK(run("delay soft0 soon" + fabric_argument).code == 2);
  CHECK(run("delay soft0 -5ms" + fabric_argument).code == 2);
  CHECK(run("mtu soft0 1500" + fabric_argument).code == 2);
  CHECK(run("width soft0 3" + fabric_argument).code == 2);
  CHECK(run("member soft0 0 down --rehash soon" + fabric_argument).code == 2);
  CHECK(has(run("member soft0 1 down" + fabric_argument), "h/soft0 has members 0 to 0, not 1"));
  CHECK(run("memory nobody 10" + fabric_argument).code == 1);
  CHECK(run("lid soft0 65536" + fabric_argument).code == 2);
  {
    device_options ib;
    ib.link_layer = IBV_LINK_LAYER_INFINIBAND;
    const auto other = std::move(*net->attach("ib", {ib}));
    CHECK(has(run("lid ib/soft0 1" + fabric_argument), "a port's LID is 2 to 32767, or 0 for none, not 1"));
    CHECK(run("lid ib/soft0 77" + fabric_argument).code == 0);
    CHECK(has(run("show" + fabric_argument), "77 InfiniBand"));
  }
  CHECK(run("gid soft0 move 9 5" + fabric_argument).code == 1); // nothing is there now
  CHECK(run("gid soft0 move 16 5" + fabric_argument).code == 2);
  CHECK(run("gid soft0 del 16" + fabric_argument).code == 2);
  CHECK(run("gid soft0 set 99 10.0.0.1" + fabric_argument).code == 2);
  CHECK(run("gid soft0 set 1 ::" + fabric_argument).code == 2);
  CHECK(run("gid soft0 set 1 nowhere" + fabric_argument).code == 2);
  CHECK(run("").code == 2);
  o = run("event soft0 QP_FATAL --qp 77" + fabric_argument);
  CHECK(o.code == 1);
  CHECK(has(o, "soft0 has no queue pair 0x4d (77)"));
  CHECK(run("event soft0 PORT_ERR --qp 77" + fabric_argument).code == 2);
  o = run("rule add dev=h/soft0/x do=drop" + fabric_argument);
  CHECK(o.code == 2);
  CHECK(has(o, "dev=\"h/soft0/x\" names no device"));
  CHECK(run("show --fabric=").code == 2);
  CHECK(run("show --fabric a/b").code == 2);
  o = run("exec --devices 99 -- true");
  CHECK(o.code == 2);
  CHECK(has(o, "a number of devices from 0 to 16"));
  const auto other = std::move(*net->attach("other", {device_options{}}));
  o = run("link soft0 down" + fabric_argument);
  CHECK(o.code == 2);
  CHECK(has(o, "say host/soft0"));
  CHECK(run("sweep").code == 0);
  CHECK(run("--help").code == 0);
}

TEST_CASE("a word that is no command of the tool is named, with the commands that there are") {
  auto o = run("frob --fabric x");
  CHECK(o.code == 2);
  CHECK(has(o, "soft-nic: unknown command \"frob\", known are show, mode, gid, mtu, lid, rate, member, "
               "width, memory, link, "));
  o = run("rule frob");
  CHECK(o.code == 2);
  CHECK(has(o, "soft-nic: unknown command \"rule frob\", known are add, list, remove, clear\n"));
  o = run("gid soft0 frob");
  CHECK(o.code == 2);
  CHECK(has(o, "unknown command \"gid frob\", known are list, set, move, del\n"));
  CHECK(!has(run("rate"), "unknown command"));
}

TEST_CASE("rules, events and quiet links of the tool reach another process") {
  fabric_options f;
  f.name = unique_fabric();
  const auto net = *fabric::open(f);
  const auto host = std::move(*net->attach("own", {device_options{}}));
  auto own = end::open(*host);
  const auto fabric_argument = " --fabric " + f.name;
  // The rule is there before the device of which it speaks.
  auto o = run("rule add dev=peer/soft0 peer=own op=write nth=2 do=status:REM_ACCESS_ERR,garbage" +
               fabric_argument);
  CHECK(o.code == 0);
  CHECK(o.text == "1\n");
  peer_process peer{f.name, "peer", "immediate", "shared"};
  peer.connect(own->where());
  own->connect(peer.where());
  for (int i = 0; i < 3; ++i)
    CHECK(peer.ask("write 1 0 0 64") == "0");
  CHECK(peer.poll(3) == std::vector<int>{IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR});
  o = run("rule list" + fabric_argument);
  CHECK(has(o, "    1          2          1 dev=peer/soft0 peer=own op=write nth=2"));
  o = run("log" + fabric_argument);
  CHECK(has(o, " rule peer/soft0 rule 1 status:REM_ACCESS_ERR write peer own/soft0 wr 1 qp 0x"));
  CHECK(run("link peer/soft0 down --quiet" + fabric_argument).code == 0);
  CHECK(run("event peer/soft0 LID_CHANGE 2" + fabric_argument).code == 0);
  for (int i = 0; i < 2; ++i)
    CHECK(peer.ask("event") == std::to_string(IBV_EVENT_LID_CHANGE));
  CHECK(run("hang peer/soft0 hard" + fabric_argument).code == 0);
  CHECK(has(run("show" + fabric_argument), "hard"));
  CHECK(run("rule remove 1" + fabric_argument).code == 0);
  CHECK(run("rule remove 1" + fabric_argument).code == 1);
  CHECK(run("rule add 'verb=reg_mr do=errno:EIO'" + fabric_argument).code == 0);
  CHECK(run("reset" + fabric_argument).code == 0);
  CHECK(net->rules().empty());
  CHECK(net->devices().back().link_up);
  CHECK(!net->devices().back().hang);
  o = run("rule add do=explode" + fabric_argument);
  CHECK(o.code == 2);
  CHECK(has(o, "say one of drop"));
  CHECK(run("event peer/soft0 PORT_UP" + fabric_argument).code == 2);
  CHECK(run("rule" + fabric_argument).code == 2);
  CHECK(run("rule clear" + fabric_argument).code == 0);
}
