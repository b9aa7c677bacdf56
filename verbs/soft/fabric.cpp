// SPDX-License-Identifier: Apache-2.0
//
// Fabrics and hosts: what ties the process's part in the tables to the devices that an application sees.
#include "verbs/soft/fabric.hpp"

#include "verbs/soft/control.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/port_control.hpp"
#include "verbs/soft/provider_table.hpp"
#include "verbs/soft/resources.hpp"
#include "verbs/soft/rules/rule_table.hpp"
#include "verbs/soft/runtime.hpp"

#include <cstdlib>
#include <utility>

namespace actor_rdma::verbs::soft {

namespace {

constexpr const char* layer = "soft NIC";

class host_impl final : public host {
public:
  host_impl(std::shared_ptr<runtime> rt, std::string name, std::vector<std::unique_ptr<soft_device>> devices)
      : rt_{std::move(rt)}, name_{std::move(name)}, devices_{std::move(devices)}, table_{make_provider()} {
    table_.list_devices = [this]() -> base::expected<std::vector<ibv_device*>> {
      std::vector<ibv_device*> all;
      for (const auto& device : devices_)
        if (!device->is_lost())
          all.push_back(device.get());
      return all;
    };
  }
  ~host_impl() override {
    if (rt_->is_forked_child())
      for (auto& device : devices_)
        (void)device.release();
  }
  const provider& verbs() const override { return table_; }
  const std::string& name() const override { return name_; }
  std::uint64_t arrivals() const override {
    auto all = rt_->arrivals_anywhere();
    for (const auto& device : devices_)
      all += device->arrivals();
    return all;
  }

private:
  const std::shared_ptr<runtime> rt_; // outlives the devices
  const std::string name_;
  std::vector<std::unique_ptr<soft_device>> devices_;
  provider table_;
};

class fabric_impl final : public fabric {
public:
  explicit fabric_impl(std::shared_ptr<runtime> rt) : rt_{std::move(rt)} {}

  base::expected<std::unique_ptr<host>> attach(const std::string& host_name,
                                               const std::vector<device_options>& devices) override;
  void leave_file() noexcept override { rt_->leave_file(); }
  std::optional<base::time_point> next_event() const override;
  void advance(base::time_point now) override;

  base::expected<void> set_link(std::string_view d, bool up) override {
    return soft::set_link(*rt_, d, up, false);
  }
  base::expected<void> set_link_quietly(std::string_view d, bool up) override {
    return soft::set_link(*rt_, d, up, true);
  }
  base::expected<void> set_hang(std::string_view d, bool on) override {
    return soft::set_hang(*rt_, d, on ? hang_mode::soft : hang_mode::off);
  }
  base::expected<void> set_hang_mode(std::string_view d, hang_mode mode) override {
    return soft::set_hang(*rt_, d, mode);
  }
  base::expected<void> raise_event(std::string_view d, std::string_view type, std::uint32_t count,
                                   std::uint32_t qp_num) override {
    return soft::raise_event(*rt_, d, type, count, qp_num);
  }
  base::expected<void> reset_faults() override { return soft::reset_faults(*rt_); }
  base::expected<std::uint32_t> add_rule(std::string_view text) override {
    return soft::add_rule(*rt_, text);
  }
  base::expected<void> remove_rule(std::uint32_t id) override { return soft::remove_rule(*rt_, id); }
  void clear_rules() override { soft::clear_rules(*rt_); }
  std::vector<rule_state> rules() const override { return list_rules(*rt_); }
  base::duration take_verb_delay() override { return base::duration{rt_->take_verb_delay()}; }
  base::expected<void> set_delay(std::string_view d, base::duration by) override {
    return soft::set_delay(*rt_, d, by);
  }
  base::expected<void> set_lost(std::string_view d, bool on) override { return soft::set_lost(*rt_, d, on); }
  base::expected<void> set_mode(std::string_view d, nic_mode mode) override {
    return soft::set_mode(*rt_, d, mode);
  }
  base::expected<void> set_rate(std::string_view d, double gbit_s,
                                std::optional<std::uint32_t> member) override {
    return soft::set_rate(*rt_, d, gbit_s, member);
  }
  base::expected<void> set_member(std::string_view d, std::uint32_t member, bool up,
                                  std::optional<base::duration> leaves_after) override {
    return soft::set_member(*rt_, d, member, up, leaves_after);
  }
  base::expected<void> set_width(std::string_view d, std::uint32_t lanes, double lane_gbit_s) override {
    return soft::set_width(*rt_, d, lanes, lane_gbit_s);
  }
  base::expected<void> set_host_memory(std::string_view host, double gbit_s) override {
    return soft::set_host_memory(*rt_, host, gbit_s);
  }
  base::expected<void> set_gid(std::string_view d, const gid_row& row) override {
    return soft::set_gid(*rt_, d, row);
  }
  base::expected<void> delete_gid(std::string_view d, std::uint32_t index) override {
    return soft::delete_gid(*rt_, d, index);
  }
  base::expected<void> move_gid(std::string_view d, std::uint32_t from, std::uint32_t to) override {
    return soft::move_gid(*rt_, d, from, to);
  }
  base::expected<std::vector<gid_row>> gids(std::string_view d) const override {
    return soft::list_gids(*rt_, d);
  }
  base::expected<void> set_mtu(std::string_view d, std::uint32_t bytes) override {
    return soft::set_mtu(*rt_, d, bytes);
  }
  base::expected<void> set_lid(std::string_view d, std::uint16_t lid) override {
    return soft::set_lid(*rt_, d, lid);
  }
  std::vector<device_state> devices() const override { return list_devices(*rt_); }
  std::vector<log_entry> read_log(std::uint64_t from, std::uint64_t& next) const override {
    return soft::read_log(rt_->tables(), from, next);
  }

private:
  const std::shared_ptr<runtime> rt_;
};

base::expected<std::unique_ptr<host>> fabric_impl::attach(const std::string& host_name,
                                                          const std::vector<device_options>& devices) {
  if (!rt_->is_attached())
    return base::fail(base::reason::invalid_argument, layer, "the fabric was opened for observing only");
  if (host_name.empty() || host_name.find('/') != std::string::npos)
    return base::fail(base::reason::invalid_argument, layer, "a host cannot be named \"" + host_name + '"');
  if (!rt_->memory().lock())
    return base::fail(base::reason::busy, layer, "a stopped process holds the fabric's lock");
  rt_->reap();
  std::vector<std::unique_ptr<soft_device>> made;
  for (const auto& options : devices) {
    auto device = soft_device::create(*rt_, host_name, options);
    if (!device) {
      made.clear();
      rt_->memory().unlock();
      return base::fail(std::move(device.error()));
    }
    made.push_back(std::move(*device));
  }
  rt_->memory().unlock();
  return std::make_unique<host_impl>(rt_, host_name, std::move(made));
}

std::optional<base::time_point> fabric_impl::next_event() const {
  if (!rt_->is_virtual())
    return std::nullopt;
  const auto due = rt_->needs_attention() ? rt_->now() : rt_->wire()->next_due();
  if (due == never)
    return std::nullopt;
  return base::time_point{base::duration{due}};
}

void fabric_impl::advance(base::time_point now) {
  if (!rt_->is_virtual())
    return;
  const auto until = now.time_since_epoch().count();
  auto& line = *rt_->wire();
  due_key key;
  rt_->attend(rt_->now());
  while (const auto what = line.pop_due(until, key)) {
    copy_budget unlimited = SIZE_MAX;
    rt_->set_event_time(key.at);
    what->run(key.at, until, unlimited);
    rt_->attend(rt_->now());
  }
  rt_->set_event_time(never);
}

/// From the options, or on a steady clock from the environment.
std::string named_file(const std::string& option, const char* variable, bool is_virtual) {
  if (!option.empty() || is_virtual)
    return option;
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::string{} : std::string{value};
}

base::expected<void> apply_rule_options(runtime& rt, const fabric_options& options) {
  const auto verdicts = named_file(options.verdict_file, "ACTOR_RDMA_SOFT_VERDICTS", rt.is_virtual());
  if (!verdicts.empty()) {
    auto file = verdict_file::open(verdicts);
    if (!file)
      return base::fail(std::move(file.error()));
    rt.rules().write_verdicts_to(std::move(*file));
  }
  const auto rules = named_file(options.rule_file, "ACTOR_RDMA_SOFT_RULES", rt.is_virtual());
  if (rules.empty())
    return {};
  auto loaded = load_rules(rt.tables(), rt.now(), rules);
  rt.announce_change();
  return loaded;
}

} // namespace

base::expected<std::shared_ptr<fabric>> fabric::open(const fabric_options& options) {
  const bool is_steady =
      options.clock == nullptr || dynamic_cast<const base::steady_source*>(options.clock) != nullptr;
  if (!options.name.empty() && !is_steady)
    return base::fail(base::reason::invalid_argument, layer, "only a private fabric can run in virtual time");
  auto memory = options.name.empty() ? segment::make_private(options.seed)
                                     : segment::open_named(options.name, options.seed, !options.observe_only);
  if (!memory)
    return base::fail(std::move(memory.error()));
  auto rt = std::make_shared<runtime>(std::move(*memory), is_steady ? nullptr : options.clock);
  if (!options.observe_only) {
    if (auto attached = rt->attach(); !attached)
      return base::fail(std::move(attached.error()));
  }
  rt->memory().unlock();
  if (!options.observe_only)
    if (auto ruled = apply_rule_options(*rt, options); !ruled)
      return base::fail(std::move(ruled.error()));
  return std::make_shared<fabric_impl>(std::move(rt));
}

} // namespace actor_rdma::verbs::soft
