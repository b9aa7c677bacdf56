// SPDX-License-Identifier: Apache-2.0
//
// Devices of the kernel as a stage, in real time. What was broken is mended when it goes.
#include "drill/kernel/kernel_network.hpp"
#include "tests/kernel/behaviour/stage.hpp"
#include "verbs/soft/device_options.hpp"

#include <cstdio>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <sys/utsname.h>

namespace actor_rdma::tests::kernel {

namespace {

using drill::kernel_network;

world this_kernel() {
  utsname u{};
  unsigned major = 0;
  unsigned minor = 0;
  REQUIRE(::uname(&u) == 0);
  REQUIRE(std::sscanf(u.release, "%u.%u", &major, &minor) == 2);
  return major * 1000 + minor < 6012 ? world::rxe_6_1 : world::rxe_6_12;
}

class kernel_stage final : public stage {
public:
  kernel_stage(const std::string& devices_file, bool with_bond) : where_(this_kernel()) {
    auto net = kernel_network::open(devices_file);
    REQUIRE_MESSAGE(net, (net ? "" : net.error().to_string()));
    net_ = std::move(*net);
    for (const auto which : {side::a, side::b})
      REQUIRE_MESSAGE(!of(which).addresses.empty(), name(which) << " has no address");
    REQUIRE_MESSAGE(of(side::a).members.empty() != with_bond,
                    (with_bond ? "this needs the shape bond" : "this does not go with the shape bond"));
    const auto table = verbs::system_provider();
    REQUIRE_MESSAGE(table, (table ? "" : table.error().to_string()));
    table_ = *table;
    if (with_bond)
      std::ifstream{"/sys/class/net/" + of(side::a).netdev + "/bonding/active_slave"} >> active_;
  }
  ~kernel_stage() override {
    const auto mended = net_->restore();
    CHECK_MESSAGE(mended, (mended ? "" : mended.error().to_string()));
  }

  world where() const override { return where_; }
  const verbs::provider& table(side) const override { return *table_; }
  ibv_device* device(side which) const override {
    const auto all = table_->list_devices();
    if (!all)
      return nullptr;
    for (auto* const d : *all)
      if (of(which).device == table_->get_device_name(d))
        return d;
    return nullptr;
  }
  ibv_gid gid(side which) const override {
    const auto& address = of(which).addresses.front();
    return *verbs::soft::parse_gid(address.substr(0, address.find('/')));
  }
  ibv_gid nobody() const override {
    auto g = gid(side::b);
    g.raw[15] = 99;
    return g;
  }
  ibv_gid far_away() const override {
    auto g = gid(side::b);
    g.raw[13] = 99;
    return g;
  }
  bool is_in_real_time() const override { return true; }
  base::time_point now() const override { return base::mono_clock::now(); }
  void pass(base::duration time) override { std::this_thread::sleep_for(time); }

  done admin(side which, bool up) override { return net_->set_admin(name(which), up); }
  done cable(side which, bool up) override { return net_->set_cable(name(which), up); }
  done loss(side which, bool to_device, bool on) override {
    return net_->set_loss(name(which),
                          to_device ? kernel_network::way::to_device : kernel_network::way::from_device, on);
  }
  done address(side which, bool present) override {
    const auto& address = of(which).addresses.front();
    return present ? net_->add_address(name(which), address) : net_->remove_address(name(which), address);
  }
  done second_address(side which, bool present) override {
    return present ? net_->add_address(name(which), "10.8.0.7/24")
                   : net_->remove_address(name(which), "10.8.0.7/24");
  }
  done other_mac(side which) override { return net_->set_mac(name(which), "02:00:00:00:77:01"); }
  done small_mtu(side which, bool small) override {
    return net_->set_netdev_mtu(name(which), small ? 1000 : 1500);
  }
  done member_cable(std::size_t member, bool up) override {
    const bool is_first_active = active_ == of(side::a).members.at(0).netdev;
    return net_->set_member_cable(name(side::a), is_first_active ? member : 1 - member, up);
  }
  done remove_device(side which) override { return net_->delete_device(name(which)); }
  bool is_removed(side which) override {
    const auto outcome = net_->deleted(name(which));
    return outcome && *outcome;
  }
  done return_device(side which) override { return net_->add_device(name(which)); }

private:
  static const char* name(side which) { return which == side::a ? "a/soft0" : "b/soft0"; }
  const drill::kernel_device& of(side which) const {
    const auto* const d = net_->find(name(which));
    REQUIRE_MESSAGE(d != nullptr, "the devices file has no " << name(which));
    return *d;
  }

  world where_;
  std::unique_ptr<kernel_network> net_;
  const verbs::provider* table_ = nullptr;
  std::string active_; ///< member of the bond, as the stage was opened
};

} // namespace

std::unique_ptr<stage> open_kernel_stage(const std::string& devices_file, bool with_bond) {
  return std::make_unique<kernel_stage>(devices_file, with_bond);
}

} // namespace actor_rdma::tests::kernel
