// SPDX-License-Identifier: Apache-2.0
// Sentences.
#include "drill/explain.hpp"

#include "drill/checks/expectations.hpp"
#include "drill/checks/invariants.hpp"
#include "drill/checks/statistics.hpp"
#include "drill/fault_kinds.hpp"
#include "drill/set_up.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

std::string plural(std::uint64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string sizes(const std::vector<std::uint64_t>& all) {
  std::string text;
  for (const auto s : all)
    text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text;
}

std::string describe(verbs::soft::nic_mode mode) {
  using verbs::soft::nic_mode;
  switch (mode) {
  case nic_mode::paced: return "";
  case nic_mode::immediate: return "mode inline: work is done in the post";
  case nic_mode::null: return "mode null: no payload is moved";
  case nic_mode::paced_null: return "mode paced-null: no payload is moved";
  }
  return "";
}

/// What is not as in every device.
std::string describe(const verbs::soft::device_limits& l) {
  const verbs::soft::device_limits usual;
  std::string text;
  const auto add = [&](const char* name, auto member) {
    if (l.*member != usual.*member)
      text += fmt::format(", {} {}", name, l.*member);
  };
  using limits = verbs::soft::device_limits;
  add("max_qp", &limits::max_qp);
  add("max_qp_wr", &limits::max_qp_wr);
  add("max_sge", &limits::max_sge);
  add("max_cq", &limits::max_cq);
  add("max_cqe", &limits::max_cqe);
  add("max_mr", &limits::max_mr);
  add("max_mr_size", &limits::max_mr_size);
  add("max_qp_rd_atom", &limits::max_qp_rd_atom);
  add("max_res_rd_atom", &limits::max_res_rd_atom);
  return text;
}

/// Rate and latency where they count, and what is not as in every device.
std::string describe(const verbs::soft::device_options& nic) {
  auto text = describe(nic.mode);
  if (is_paced(nic.mode))
    text += fmt::format("{}{:g} Gbit/s, {:g} us one way", text.empty() ? "" : ", ", nic.rate_gbit_s,
                        in_ms(nic.latency) * 1000);
  if (nic.bond_members > 1)
    text += fmt::format(", a bond of {}", nic.bond_members);
  if (nic.host_memory_gbit_s != 0)
    text += fmt::format(", memory of the host {:g} Gbit/s", nic.host_memory_gbit_s);
  if (nic.mtu != verbs::soft::device_options{}.mtu)
    text += fmt::format(", MTU {}", nic.mtu);
  if (nic.ports != 1)
    text += fmt::format(", {} ports", nic.ports);
  if (nic.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    text += ", InfiniBand";
    if (nic.lid != 0)
      text += fmt::format(", LID {}", nic.lid);
    if (nic.subnet_prefix != verbs::soft::default_subnet_prefix)
      text += fmt::format(", subnet {:#x}", nic.subnet_prefix);
  }
  for (const auto& row : nic.gids)
    text += fmt::format(", GID {} is {}", row.index, verbs::soft::to_text(row.value));
  return text + describe(nic.limits);
}

std::string describe(const host_spec& h) {
  std::string text = "  " + h.name + " with";
  const char* join = " ";
  for (const auto& g : h.devices) {
    text += fmt::format("{}{} ({})", join, plural(g.count, "device"), describe(g.nic));
    join = " and ";
  }
  return text + "\n";
}

std::string describe(const traffic_spec& t) {
  auto text = fmt::format("  {}: from {:g} ms on, {} ", t.name, in_ms(t.start), t.from);
  if (t.notices_only)
    text += fmt::format("sends notices to {}", t.to);
  else
    text += fmt::format("{} {} of {} bytes{}", t.op == operation::write ? "writes to" : "reads from", t.to,
                        sizes(t.sizes), t.sizes.size() > 1 ? " in turn" : "");
  if (t.count != 0 || !t.repeat_until)
    text +=
        fmt::format(", {}", plural(t.count != 0 ? t.count : t.batch, t.notices_only ? "notice" : "transfer"));
  if (t.repeat_until)
    text += fmt::format(", until {:g} ms", in_ms(*t.repeat_until));
  text += fmt::format(", {} at a time, {} open", t.batch, plural(t.depth, t.depth == 1 ? "batch" : "batche"));
  if (t.rate_per_s > 0)
    text += fmt::format(", {:g} batches per second", t.rate_per_s);
  text += fmt::format("; each within {:g} ms", in_ms(t.deadline));
  if (t.cancel_after)
    text += fmt::format(", cancelled after {:g} ms", in_ms(*t.cancel_after));
  if (t.notice)
    text += "; a notice with each batch";
  if (t.notices_only)
    return text + "\n";
  return text + (t.verify ? "; every byte is checked\n" : "\n");
}

} // namespace

std::string explain(const scenario& what) {
  auto text = fmt::format("{}: {}\n", what.id, what.title);
  if (!what.cases.empty()) {
    text += "cases:";
    for (const auto& c : what.cases)
      text += " " + c;
    text += "\n";
  }
  text += fmt::format("\n{} by default, each another order of the same events.\n\nhosts\n",
                      plural(what.seeds, "seed"));
  for (const auto& h : what.hosts)
    text += describe(h);
  text += "\ntraffic, once all rails are up\n";
  for (const auto& t : what.traffic)
    text += describe(t);
  text += "\nwhat happens\n";
  for (const auto& f : what.faults)
    text += "  " + drill::describe(f) + "\n";
  if (what.faults.empty())
    text += "  nothing else\n";
  text += "\nwhat this file expects\n";
  for (const auto& e : what.expect)
    text += "  " + drill::describe(e) + "\n";
  for (const auto& k : expect_kinds())
    if (std::any_of(what.expect.begin(), what.expect.end(), [&](const auto& e) { return e.kind == k.name; }))
      text += fmt::format("  ({}: {})\n", k.name, k.meaning);
  if (what.expect.empty())
    text += "  nothing of its own\n";
  text += "\nwhat is checked in every run\n";
  for (const auto& i : invariants())
    text += fmt::format("  {}: {}\n", i.name, i.meaning);
  std::uint64_t qps = 0;
  for (const auto& [device, n] : qps_of_devices(what))
    qps = std::max(qps, n);
  text += fmt::format("  (rails within {:g} ms, {} of a device and {} after the last fault at most)\n",
                      in_ms(what.bounds.converge_within),
                      plural(what.bounds.reconnects_at_most.value_or(usual_reconnects(qps)), "QP"),
                      plural(what.bounds.log_lines_at_most, "log line"));
  return text;
}

} // namespace actor_rdma::drill
