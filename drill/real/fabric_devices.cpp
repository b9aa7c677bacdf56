// SPDX-License-Identifier: Apache-2.0
// A named fabric of the software NIC.
#include "drill/fabric_faults.hpp"
#include "drill/real/real_devices.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

class fabric_devices final : public real_devices {
public:
  fabric_devices(const scenario& what, std::uint64_t seed) : what_(what), seed_(seed) {
    static unsigned count = 0;
    name_ = fmt::format("drill-{}-{}", ::getpid(), count++);
  }

  done open() override {
    verbs::soft::fabric_options how;
    how.name = name_;
    how.seed = seed_;
    auto made = verbs::soft::fabric::open(how);
    if (!made)
      return base::fail(made.error());
    fabric_ = std::move(*made);
    faults_.emplace(what_, *fabric_);
    return {};
  }
  done close() override { return {}; }
  device_faults& faults() override { return *faults_; }
  bool can_carry(const std::string& from_device, const std::string& to_device) const override {
    return faults_->can_carry(from_device, to_device);
  }
  base::expected<std::vector<state>> look() const override {
    std::vector<state> all;
    for (const auto& d : fabric_->devices())
      all.push_back({d.name, d.open_qps, d.open_mrs, d.bytes_sent});
    return all;
  }
  std::vector<std::string> words() const override { return {"--fabric", name_}; }
  std::vector<verbs::soft::log_entry> new_log() override { return fabric_->read_log(log_next_, log_next_); }
  bool logs_qps() const override { return true; }
  bool keeps_objects(const std::string& device) const override { return faults_->was_called_lost(device); }

private:
  const scenario& what_;
  const std::uint64_t seed_;
  std::string name_;
  std::shared_ptr<verbs::soft::fabric> fabric_;
  std::optional<fabric_faults> faults_;
  std::uint64_t log_next_ = 0;
};

} // namespace

std::unique_ptr<real_devices> make_fabric_devices(const scenario& what, std::uint64_t seed) {
  return std::make_unique<fabric_devices>(what, seed);
}

} // namespace actor_rdma::drill
