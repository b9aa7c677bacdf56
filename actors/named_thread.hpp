// SPDX-License-Identifier: Apache-2.0
//
// Threads of this library: named, and with every signal blocked, because signals belong to the host program.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace actor_rdma::actors {

/// The kernel keeps the first 15 characters of the name. Throws std::system_error when there can be no more
/// threads.
std::thread named_thread(const std::string& name, std::function<void()> body);

} // namespace actor_rdma::actors
