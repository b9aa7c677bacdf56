// SPDX-License-Identifier: Apache-2.0
//
// The process's part in a fabric as the drop-in library has it: nothing at all until somebody asks for
// devices, then a list of them, and an attachment to the fabric with the first that is opened. A forked child
// begins anew: what it inherits of its parent's attachment it never touches.
#pragma once

#include "base/error.hpp"
#include "verbs/provider.hpp"

#include <cstdint>
#include <vector>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::dropin {

/// What an application gets as a device. It is ours and not the NIC's, because it exists before the NIC does
/// and survives a fork. Provider libraries compare what lies behind `ibv_device` with their own table of
/// operations, so there has to be a table that is none of theirs, and memory as large as rdma-core's.
struct device_handle {
  ibv_device device{};
  const void* ops = nullptr;
  std::uint64_t reserved[16] = {};
};

/// Empty when the environment is wrong, which is said on standard error, once. The handles live for ever.
[[nodiscard]] const std::vector<device_handle*>& device_handles() noexcept;

/// Index of the handle in the list, or -1.
[[nodiscard]] int index_of(const ibv_device* device) noexcept;

/// The NIC's own device behind a handle; attaches to the fabric if need be. nullptr with errno, and the
/// reason on standard error.
[[nodiscard]] ibv_device* attached_device(const ibv_device* handle) noexcept;

/// Empty polls in a row after which a poller gives up its core; 0: never.
[[nodiscard]] unsigned yield_after() noexcept;

/// The verbs of the NIC. Usable without an attachment.
[[nodiscard]] const provider& nic() noexcept;

} // namespace actor_rdma::verbs::dropin
