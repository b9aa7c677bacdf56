// SPDX-License-Identifier: Apache-2.0
// What the raw engine posts on: for each device of the initiator a few queue pairs that are connected to the
// same number on one device of the target, made with the verbs and nothing else.
#pragma once

#include "base/error.hpp"
#include "bench/content.hpp"
#include "bench/settings.hpp"
#include "verbs/objects.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace actor_rdma::bench {

class raw_link {
public:
  struct end {
    verbs::context ctx;
    verbs::protection_domain pd;
    verbs::completion_channel no_channel;
    verbs::completion_queue cq;
    verbs::memory_region mr;
    std::vector<verbs::queue_pair> qps;
    verbs::gid_entry gid;
    ibv_port_attr port{};

    base::expected<void> open(const verbs::provider& table, ibv_device* device, std::span<std::byte> memory,
                              const settings& what);
    base::expected<void> connect(std::size_t qp, const end& peer);
    base::expected<void> close();
  };
  struct rail {
    end near;
    end far;
  };

  /// `net` is null for the system's devices; then both ends are on the same device.
  static base::expected<std::unique_ptr<raw_link>> open(const settings& what, run_memory memory,
                                                        const std::shared_ptr<verbs::soft::fabric>& net);
  ~raw_link();

  std::deque<rail>& rails() noexcept { return rails_; }

private:
  raw_link() = default;
  std::unique_ptr<verbs::soft::host> near_host_;
  std::unique_ptr<verbs::soft::host> far_host_;
  std::deque<rail> rails_;
};

/// The NICs of one host as the settings ask for them.
std::vector<verbs::soft::device_options> soft_devices(const settings& what);

} // namespace actor_rdma::bench
