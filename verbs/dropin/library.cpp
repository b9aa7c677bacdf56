// SPDX-License-Identifier: Apache-2.0
//
// Devices before the NIC, the attachment, forks and the end of the process.
#include "verbs/dropin/library.hpp"

#include "base/log.hpp"
#include "verbs/dropin/environment.hpp"
#include "verbs/soft/fabric.hpp"
#include "verbs/soft/provider_table.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

namespace actor_rdma::verbs::dropin {

namespace {

struct attachment {
  pid_t pid = 0;
  std::shared_ptr<soft::fabric> net;
  std::unique_ptr<soft::host> host;
  std::vector<ibv_device*> devices;
};

/// Never destroyed: threads of the application may be inside a verb while the process ends, and so is the
/// engine.
struct state {
  settings chosen;
  std::vector<device_handle*> handles;
  std::mutex mutex; // guards `current`
  attachment* current = nullptr;
};

/// rdma-core's table of a provider's operations has fewer entries than that.
constexpr const void* no_ops[64] = {};

std::unique_ptr<state> make_state() {
  auto s = std::make_unique<state>();
  auto chosen = read_environment([](const char* name) { return std::getenv(name); });
  if (!chosen) {
    std::fprintf(stderr, "%s\n", chosen.error().to_string().c_str());
    return s;
  }
  s->chosen = std::move(*chosen);
  for (unsigned i = 0; i < s->chosen.devices.size(); ++i) {
    auto handle = std::make_unique<device_handle>();
    auto& device = handle->device;
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(device.name, sizeof device.name, "%s", s->chosen.devices[i].name.c_str());
    std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs%u", i);
    std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs%u", i);
    std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%s", device.name);
    handle->ops = &no_ops;
    s->handles.push_back(handle.release()); // handed out, never taken back
  }
  return s;
}

state& shared() noexcept;

void at_exit() {
  auto& s = shared();
  // An exit in the middle of an attach must not wait for it.
  if (!s.mutex.try_lock())
    return;
  if (s.current != nullptr && s.current->pid == ::getpid())
    s.current->net->leave_file();
  s.mutex.unlock();
}

state& shared() noexcept {
  static auto* const instance = [] {
    auto* const s = make_state().release();
    // A child must not find the mutex in the hands of a thread that it does not have.
    ::pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); },
                     [] { shared().mutex.unlock(); });
    std::atexit(at_exit);
    return s;
  }();
  return *instance;
}

std::string default_host() {
  std::string name = program_invocation_short_name;
  name.resize(std::min<std::size_t>(name.size(), 30));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '.'; },
      '_');
  return fmt::format("{}-{}", name, ::getpid());
}

base::expected<std::unique_ptr<attachment>> attach(const settings& chosen) {
  auto a = std::make_unique<attachment>();
  a->pid = ::getpid();
  soft::fabric_options options;
  options.name = chosen.fabric;
  auto net = soft::fabric::open(options);
  if (!net)
    return base::fail(std::move(net.error()));
  a->net = std::move(*net);
  const auto wanted = chosen.host.empty() ? default_host() : chosen.host;
  auto host = a->net->attach(wanted, chosen.devices);
  // The children of a process and further copies of a program inherit its variables: the name that was given
  // is then taken, and they get one that begins with it.
  if (!host && host.error().why == base::reason::busy)
    host = a->net->attach(fmt::format("{}-{}", wanted, a->pid), chosen.devices);
  if (!host)
    return base::fail(std::move(host.error()));
  a->host = std::move(*host);
  auto devices = a->host->verbs().list_devices();
  if (!devices)
    return base::fail(std::move(devices.error()));
  a->devices = std::move(*devices);
  return a;
}

} // namespace

const std::vector<device_handle*>& device_handles() noexcept {
  return shared().handles;
}

int index_of(const ibv_device* device) noexcept {
  const auto& all = device_handles();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto* h) { return &h->device == device; });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

ibv_device* attached_device(const ibv_device* handle) noexcept {
  const int index = index_of(handle);
  if (index < 0) {
    errno = ENODEV;
    return nullptr;
  }
  auto& s = shared();
  std::lock_guard lock{s.mutex};
  if (s.current == nullptr || s.current->pid != ::getpid()) {
    try {
      auto made = attach(s.chosen);
      if (!made) {
        base::log(base::level::error, "soft NIC", "{}", made.error().to_string());
        errno = made.error().sys_errno != 0 ? made.error().sys_errno : EIO;
        return nullptr;
      }
      s.current = made->release(); // in a child, its parent's is left as it is: see above
    } catch (...) {
      errno = ENOMEM;
      return nullptr;
    }
  }
  return s.current->devices[static_cast<std::size_t>(index)];
}

unsigned yield_after() noexcept {
  return shared().chosen.yield_after;
}

const provider& nic() noexcept {
  // Never destroyed, like the state above. Without memory for it the process cannot go on in any case.
  static const auto* const table =
      new provider{soft::make_provider()}; // NOLINT(bugprone-unhandled-exception-at-new)
  return *table;
}

} // namespace actor_rdma::verbs::dropin
