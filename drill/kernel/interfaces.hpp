// SPDX-License-Identifier: Apache-2.0
// One thing about one network interface or RDMA link of the kernel at a time, by its name. Needs
// CAP_NET_ADMIN to change any. Any thread; what is wrong is said with the interface and errno.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace actor_rdma::drill::interfaces {

using done = base::expected<void>;

done set_up(const std::string& netdev, bool up);
base::expected<std::string> mac(const std::string& netdev);
done set_mac(const std::string& netdev, const std::string& mac);
base::expected<std::uint32_t> mtu(const std::string& netdev);
done set_mtu(const std::string& netdev, std::uint32_t bytes);
/// `address` is "10.7.0.1/24" or "fd00::1/64"; an IPv6 one may be used at once, without a search for doubles.
/// Adding what is there, or removing what is not, is an error (EEXIST, EADDRNOTAVAIL).
done set_address(const std::string& netdev, const std::string& address, bool present);
/// Every packet that goes into the interface from outside (`incoming`), or out of it, is dropped without a
/// word. Asking twice for the same is no error.
done set_dropping(const std::string& netdev, bool incoming, bool on);

/// The kernel's number of an RDMA device; nothing if there is none of this name.
base::expected<std::optional<std::uint32_t>> rdma_index(const std::string& device);
/// What the kernel counts of a device's, of all processes and of its own.
struct object_counts {
  std::uint64_t qps = 0;
  std::uint64_t mrs = 0;
};
/// None of a device that is not there.
base::expected<object_counts> rdma_objects(const std::string& device);
done add_rxe(const std::string& device, const std::string& netdev);
/// Comes back when every program has closed the device.
done remove_rdma_link(const std::string& device);

} // namespace actor_rdma::drill::interfaces
