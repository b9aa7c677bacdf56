// SPDX-License-Identifier: Apache-2.0
// Names, counts and bytes of devices of the kernel.
#include "drill/kernel/kernel_devices.hpp"

#include "drill/kernel/interfaces.hpp"
#include "drill/kernel/kernel_faults.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace actor_rdma::drill {

namespace {

bool is_of_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

class kernel_devices final : public real_devices {
public:
  explicit kernel_devices(std::string file) : file_(std::move(file)) {}

  done open() override {
    auto net = kernel_network::open(file_);
    if (!net)
      return base::fail(net.error());
    net_ = std::move(*net);
    faults_.emplace(*net_);
    if (auto whole = net_->restore(); !whole)
      return whole;
    for (const auto& d : net_->devices()) {
      const auto is = interfaces::rdma_objects(d.device);
      if (!is)
        return base::fail(is.error());
      before_[d.name] = *is;
    }
    return {};
  }
  done close() override { return net_->restore(); }
  device_faults& faults() override { return *faults_; }
  bool can_carry(const std::string& from_device, const std::string& to_device) const override {
    return faults_->can_carry(from_device) && faults_->can_carry(to_device);
  }
  base::expected<std::vector<state>> look() const override {
    std::vector<state> all;
    for (const auto& d : net_->devices()) {
      const auto is = interfaces::rdma_objects(d.device);
      if (!is)
        return base::fail(is.error());
      const auto& was = before_.at(d.name); // the kernel has a QP and regions of its own
      const auto bytes = carried_.find(d.name);
      all.push_back({d.name, is->qps - std::min(is->qps, was.qps), is->mrs - std::min(is->mrs, was.mrs),
                     bytes == carried_.end() ? 0 : bytes->second});
    }
    return all;
  }
  std::vector<std::string> words() const override { return {"--devices", file_}; }
  base::duration look_period() const override { return std::chrono::milliseconds{20}; }
  void name_devices(std::string& text) const override {
    for (const auto& d : net_->devices())
      for (auto at = text.find(d.device); at != std::string::npos; at = text.find(d.device, at + 1)) {
        const auto end = at + d.device.size();
        if ((at > 0 && is_of_a_name(text[at - 1])) || (end < text.size() && is_of_a_name(text[end])))
          continue;
        // A process says "a/rxe0" of it, libibverbs "rxe0".
        const auto name = at > 0 && text[at - 1] == '/' ? d.name.substr(d.name.find('/') + 1) : d.name;
        text.replace(at, d.device.size(), name);
        at += name.size() - 1;
      }
  }
  void carried(const std::string& rail, std::uint64_t bytes) override {
    auto name = rail.substr(0, rail.find('>'));
    name_devices(name);
    carried_[name] += bytes;
  }

private:
  const std::string file_;
  std::unique_ptr<kernel_network> net_;
  std::optional<kernel_faults> faults_;
  std::map<std::string, interfaces::object_counts> before_;
  std::map<std::string, std::uint64_t> carried_;
};

} // namespace

std::unique_ptr<real_devices> make_kernel_devices(const std::string& devices_file) {
  return std::make_unique<kernel_devices>(devices_file);
}

} // namespace actor_rdma::drill
