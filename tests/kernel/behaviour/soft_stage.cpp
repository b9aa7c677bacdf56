// SPDX-License-Identifier: Apache-2.0
//
// The software NIC as a stage, in virtual time. Its devices have the addresses that a kernel's would have.
#include "tests/kernel/behaviour/stage.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/testing/rig.hpp"

#include <array>
#include <chrono>
#include <cstdlib>

#include <doctest/doctest.h>

namespace actor_rdma::tests::kernel {

namespace {

namespace soft = verbs::soft;

constexpr std::uint32_t first_index = 1;  // of an address, behind the link-local one
constexpr std::uint32_t other_index = 3;  // where it comes back
constexpr std::uint32_t second_index = 2; // of a second address
constexpr std::chrono::milliseconds rehash{200};

soft::gid_row row(std::uint32_t index, const char* address) {
  return {index, *soft::parse_gid(address), IBV_GID_TYPE_ROCE_V2, 1, true};
}

class soft_stage final : public stage {
public:
  soft_stage(bool with_bond, const char* rule, world as) : where_(as) {
    soft::fabric_options f;
    f.clock = &clock_;
    net_ = *soft::fabric::open(f);
    soft::device_options d;
    d.mode = soft::nic_mode::paced;
    d.gids = {row(0, "fe80::1"), row(first_index, "10.7.0.1")};
    d.bond_members = with_bond ? 2 : 1;
    hosts_[0] = std::move(*net_->attach("a", {d}));
    d.gids = {row(0, "fe80::2"), row(first_index, "10.7.0.2")};
    d.bond_members = 1;
    hosts_[1] = std::move(*net_->attach("b", {d}));
    if (rule != nullptr)
      REQUIRE(net_->add_rule(rule));
  }

  world where() const override { return where_; }
  const verbs::provider& table(side which) const override { return on(which).verbs(); }
  ibv_device* device(side which) const override {
    const auto all = table(which).list_devices();
    return all && !all->empty() ? all->front() : nullptr;
  }
  ibv_gid gid(side which) const override { return *soft::parse_gid(address_of(which)); }
  ibv_gid nobody() const override { return *soft::parse_gid("10.7.0.99"); }
  ibv_gid far_away() const override { return *soft::parse_gid("10.99.0.1"); }
  bool is_in_real_time() const override { return false; }
  base::time_point now() const override { return clock_.now(); }
  void pass(base::duration time) override {
    soft::testing::advance_until(*net_, clock_, clock_.now() + time);
    net_->advance(clock_.now());
  }

  done admin(side which, bool up) override { return net_->set_link(name(which), up); }
  done cable(side which, bool up) override { return net_->set_link(name(which), up); }
  done loss(side which, bool to_device, bool is_on) override {
    auto& rule = rules_[which == side::b][to_device];
    if (!is_on)
      return rule != 0 ? net_->remove_rule(std::exchange(rule, 0)) : done{};
    const auto added =
        net_->add_rule(std::string{"dev="} + name(which) + (to_device ? " dir=rx" : " dir=tx") + " do=drop");
    if (!added)
      return base::fail(added.error());
    rule = *added;
    return {};
  }
  done address(side which, bool present) override {
    if (!present)
      return net_->delete_gid(name(which), first_index);
    return net_->set_gid(name(which), row(other_index, address_of(which)));
  }
  done second_address(side which, bool present) override {
    return present ? net_->set_gid(name(which), row(second_index, "10.7.1.7"))
                   : net_->delete_gid(name(which), second_index);
  }
  /// There are none: what a kernel does with the addresses then.
  done other_mac(side which) override {
    const auto gone = address(which, false);
    return gone ? address(which, true) : gone;
  }
  done small_mtu(side which, bool small) override { return net_->set_mtu(name(which), small ? 512 : 4096); }
  done member_cable(std::size_t member, bool up) override {
    return net_->set_member(name(side::a), static_cast<std::uint32_t>(member), up, rehash);
  }
  done remove_device(side which) override { return net_->set_lost(name(which), true); }
  bool is_removed(side which) override { return device(which) == nullptr; }
  done return_device(side which) override { return net_->set_lost(name(which), false); }

private:
  static const char* name(side which) { return which == side::a ? "a/soft0" : "b/soft0"; }
  static const char* address_of(side which) { return which == side::a ? "10.7.0.1" : "10.7.0.2"; }
  soft::host& on(side which) const { return *hosts_.at(which == side::a ? 0 : 1); }

  world where_;
  base::manual_clock clock_;
  std::shared_ptr<soft::fabric> net_;
  std::array<std::unique_ptr<soft::host>, 2> hosts_;
  std::array<std::array<std::uint32_t, 2>, 2> rules_{};
};

} // namespace

std::unique_ptr<stage> open_soft_stage(bool with_bond, const char* rule, world as) {
  return std::make_unique<soft_stage>(with_bond, rule, as);
}

std::unique_ptr<stage> stage::open(bool with_bond) {
  const char* const devices = std::getenv("ACTOR_RDMA_DEVICES");
  return devices != nullptr ? open_kernel_stage(devices, with_bond) : open_soft_stage(with_bond);
}

} // namespace actor_rdma::tests::kernel
