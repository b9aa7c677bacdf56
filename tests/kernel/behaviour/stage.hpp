// SPDX-License-Identifier: Apache-2.0
//
// Where the rows of the behaviour table are played: two devices, a and b, connected by a network that can be
// broken. It is the software NIC in virtual time, or devices of the kernel as ACTOR_RDMA_DEVICES names them
// (a devices file, tests/kernel/README.md) in real time.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "verbs/provider.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace actor_rdma::tests::kernel {

/// A column of the table. A kernel older than 6.12 is taken for a 6.1.
enum class world : std::uint8_t { soft, rxe_6_1, rxe_6_12 };
enum class side : std::uint8_t { a, b };

class stage {
public:
  using done = base::expected<void>;
  /// `members`: with a bond of two under a; on the kernel that is the shape of the guest. Ends the test case
  /// if it cannot be had.
  static std::unique_ptr<stage> open(bool with_bond = false);
  virtual ~stage() = default;

  virtual world where() const = 0;
  virtual const verbs::provider& table(side which) const = 0;
  /// nullptr: it is not listed.
  virtual ibv_device* device(side which) const = 0;
  /// The address by which the device is reached, whatever its index is now.
  virtual ibv_gid gid(side which) const = 0;
  /// One of its network that nobody has; one to which no way leads.
  virtual ibv_gid nobody() const = 0;
  virtual ibv_gid far_away() const = 0;
  virtual bool is_in_real_time() const = 0;
  virtual base::time_point now() const = 0;
  virtual void pass(base::duration time) = 0;

  /// The port's own interface, as its administrator does it.
  virtual done admin(side which, bool up) = 0;
  /// Its cable to the switch.
  virtual done cable(side which, bool up) = 0;
  /// The switch loses what it sends to the device, or what comes from it, and nobody is told.
  virtual done loss(side which, bool to_device, bool on) = 0;
  /// The address of gid(). It does not come back to the place where it was.
  virtual done address(side which, bool present) = 0;
  virtual done second_address(side which, bool present) = 0;
  virtual done other_mac(side which) = 0;
  /// Too small for the path MTU of the tests, or as it was.
  virtual done small_mtu(side which, bool small) = 0;
  /// Of a's bond: 0 is the active one.
  virtual done member_cable(std::size_t member, bool up) = 0;
  /// Takes the device out while programs have it open.
  virtual done remove_device(side which) = 0;
  /// Whether that has come to its end.
  virtual bool is_removed(side which) = 0;
  virtual done return_device(side which) = 0;
};

/// With fault rules, `as` if it were a kernel whose column it then has to keep to.
std::unique_ptr<stage> open_soft_stage(bool with_bond, const char* rule = nullptr, world as = world::soft);
std::unique_ptr<stage> open_kernel_stage(const std::string& devices_file, bool with_bond);

} // namespace actor_rdma::tests::kernel
