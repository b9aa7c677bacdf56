// SPDX-License-Identifier: Apache-2.0
// Faults on processes and TCP.
#include "drill/real/real_stage.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

namespace actor_rdma::drill {

namespace {

std::pair<std::string, std::string> in_order(const std::string& a, const std::string& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

tl::unexpected<base::error> not_now(std::string why) {
  return base::fail(base::reason::invalid_argument, "drill", std::move(why));
}

} // namespace

real_stage::real_stage(const scenario& what, std::unique_ptr<real_devices> devices, event_loop& loop)
    : what_(what), devices_(std::move(devices)) {
  for (const auto& h : what.hosts)
    hosts_[h.name] = std::make_unique<real_host>(h, loop);
  for (const auto& c : what.control) {
    latency_[{c.from, c.to}] = c.latency;
    proxied_.insert({{c.from, c.to}, {c.to, c.from}});
  }
  for (const auto& f : what.faults) {
    if (!f.from.empty() && !f.to.empty())
      proxied_.insert({{f.from, f.to}, {f.to, f.from}});
    if (f.kind == "control_refuse")
      for (const auto& h : what.hosts)
        if (h.name != f.host)
          proxied_.insert({h.name, f.host});
  }
}

real_stage::~real_stage() {
  hosts_.clear();
  proxies_.clear();
  devices_.reset();
}

stage::done real_stage::open(const std::function<std::vector<int>(const real_host&)>& descriptors) {
  if (auto opened = devices_->open(); !opened)
    return opened;
  descriptors_ = descriptors;
  for (const auto& [name, host] : hosts_)
    if (auto started = start(*host); !started)
      return started;
  return {};
}

stage::done real_stage::start(real_host& host) {
  return host.start(what_.path, devices_->words(), descriptors_(host));
}

void real_stage::is_listening(const real_host& host) {
  for (const auto& p : proxied_)
    if (p.second == host.name() && proxies_.count(p) == 0) {
      proxies_[p] = std::make_unique<tcp_proxy>(host.address());
      apply_latency(p.first, p.second);
      apply_latency(p.second, p.first);
    }
  if (refusing_.count(host.name()) == 0)
    for (const auto& [p, made] : proxies_)
      if (p.second == host.name())
        made->refuse(false);
}

std::string real_stage::dial(const real_host& from, const real_host& to) const {
  const auto* through = proxy(from.name(), to.name());
  return through != nullptr ? through->address() : to.address();
}

void real_stage::use_names_of_scenario(std::string& text) const {
  devices_->name_devices(text);
  constexpr std::string_view loopback = "127.0.0.1:";
  for (auto at = text.find(loopback); at != std::string::npos; at = text.find(loopback, at + 1)) {
    const auto port = at + loopback.size();
    const auto address = text.substr(at, text.find_first_not_of("0123456789", port) - at);
    for (const auto& [name, host] : hosts_)
      if (host->address() == address)
        text.replace(at, loopback.size() - 1, name);
    for (const auto& [who, through] : proxies_)
      if (through->address() == address)
        text.replace(at, loopback.size() - 1, who.second);
  }
}

tcp_proxy* real_stage::proxy(const std::string& from, const std::string& to) const {
  const auto found = proxies_.find({from, to});
  return found == proxies_.end() ? nullptr : found->second.get();
}

void real_stage::apply_latency(const std::string& from, const std::string& to) {
  const auto found = latency_.find({from, to});
  const auto by = found == latency_.end() ? base::duration::zero() : found->second;
  if (auto* dialled = proxy(from, to))
    dialled->set_latency_to_target(by);
  if (auto* dialling = proxy(to, from))
    dialling->set_latency_from_target(by);
}

stage::process_state real_stage::process_of(const std::string& name) const {
  const auto& h = host(name);
  return {h.life(), h.is_there(), h.is_frozen()};
}
stage::done real_stage::revoke_memory(const std::string& traffic, bool on) {
  return revoked(traffic, on);
}

bool real_stage::can_carry(const std::string& from_device, const std::string& to_device) const {
  const auto well = [&](const std::string& device) {
    const auto& h = host(host_of(device));
    return h.is_there() && !h.is_frozen() && refusing_.count(h.name()) == 0;
  };
  return devices_->can_carry(from_device, to_device) && well(from_device) && well(to_device) &&
         holes_.count(in_order(host_of(from_device), host_of(to_device))) == 0;
}

// -- control network ------------------------------------------------------------------------------

stage::done real_stage::cut_control(const std::string& a, const std::string& b) {
  for (auto* p : {proxy(a, b), proxy(b, a)})
    if (p != nullptr)
      p->cut();
  return {};
}
stage::done real_stage::black_hole_control(const std::string& a, const std::string& b, bool on) {
  if (on)
    holes_.insert(in_order(a, b));
  else
    holes_.erase(in_order(a, b));
  for (auto* p : {proxy(a, b), proxy(b, a)})
    if (p != nullptr)
      p->hold(on);
  return {};
}
stage::done real_stage::set_control_latency(const std::string& from, const std::string& to,
                                            base::duration by) {
  latency_[{from, to}] = by;
  apply_latency(from, to);
  return {};
}
base::duration real_stage::usual_control_latency(const std::string& from, const std::string& to) const {
  for (const auto& c : what_.control)
    if (c.from == from && c.to == to)
      return c.latency;
  return {};
}
stage::done real_stage::refuse_dials(const std::string& name, bool on) {
  if (on)
    refusing_.insert(name);
  else
    refusing_.erase(name);
  for (const auto& [p, made] : proxies_)
    if (p.second == name)
      made->refuse(on || !host(name).is_there());
  return {};
}
stage::done real_stage::next_messages(const bootstrap::message_fault& what) {
  const auto trap = std::make_shared<message_trap>(what);
  traps_.push_back(trap);
  for (auto [p, towards_target] :
       {std::pair{proxy(what.from, what.to), true}, std::pair{proxy(what.to, what.from), false}})
    if (p != nullptr)
      p->set_trap(towards_target, trap);
  return {};
}
std::optional<base::time_point> real_stage::end_message_faults() {
  std::optional<base::time_point> last;
  for (const auto& trap : std::exchange(traps_, {})) {
    trap->left = 0;
    if (const base::time_point met = trap->met; met != base::time_never && (!last || *last < met))
      last = met;
  }
  return last;
}

// -- hosts ----------------------------------------------------------------------------------------

stage::done real_stage::kill_host(const std::string& name) {
  auto& h = host(name);
  if (!h.is_there())
    return not_now(name + " is dead already");
  h.kill();
  for (const auto& [p, made] : proxies_) // its port refuses dials now, and so do those before it
    if (p.second == name)
      made->refuse(true);
  killed(h);
  return {};
}
stage::done real_stage::stop_host(const std::string& name) {
  auto& h = host(name);
  if (!h.is_alive())
    return not_now(name + " is dead already");
  stopping(h);
  std::vector<std::string> left;
  if (const auto wrong = h.terminate(left); !wrong.empty())
    return not_now(name + " was told to stop: " + wrong);
  stopped(h, left);
  for (const auto& [p, made] : proxies_)
    if (p.second == name)
      made->refuse(true);
  killed(h);
  return {};
}
stage::done real_stage::fork_host(const std::string& name, base::duration lives) {
  auto& h = host(name);
  if (!h.is_there())
    return not_now(name + " is dead");
  h.ask({{"do", "fork"}, {"lives_ns", lives.count()}}, [](const auto&) {});
  return {};
}
/// Of the process that is there now. Another one in its place meets the rules alone.
stage::done real_stage::limit_descriptors(const std::string& name, bool on) {
  const auto pid = host(name).process();
  rlimit limit{};
  if (pid < 0 || ::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0)
    return {};
  limit.rlim_cur = on ? 0 : limit.rlim_max;
  if (::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr) != 0)
    return base::fail(base::reason::permission, "drill", "prlimit of " + name, errno);
  return {};
}
stage::done real_stage::restart_host(const std::string& name) {
  auto& h = host(name);
  if (h.is_there())
    return not_now(name + " is alive");
  return start(h);
}
stage::done real_stage::freeze_host(const std::string& name, bool on) {
  auto& h = host(name);
  if (!h.is_there() || h.is_frozen() == on)
    return not_now(name + (!h.is_there() ? " is dead" : on ? " is stopped already" : " is not stopped"));
  h.freeze(on);
  return {};
}
stage::done real_stage::churn_memory(const std::string& name) {
  auto& h = host(name);
  if (!h.is_there())
    return not_now(name + " is dead");
  h.ask({{"do", "churn"}}, [](const auto&) {});
  return {};
}

} // namespace actor_rdma::drill
