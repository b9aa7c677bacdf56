// SPDX-License-Identifier: Apache-2.0
//
// Verdicts as text and as JSON.
#include "verbs/soft/rules/verdicts.hpp"

#include "verbs/soft/rules/rule_words.hpp"
#include "verbs/soft/tables.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace actor_rdma::verbs::soft {

std::string verdict_text(rule_action action, std::uint32_t detail) {
  std::string name = name_of(action_words(), static_cast<std::uint32_t>(action));
  switch (action) {
  case rule_action::status: return name + ':' + name_of(status_words(), detail);
  case rule_action::fail: return name + ':' + name_of(errno_words(), detail);
  case rule_action::raise: return name + ':' + name_of(event_words(), detail);
  case rule_action::link: return name + (detail != 0 ? ":up" : ":down");
  case rule_action::hang: return name + (detail != 0 ? ":hard" : ":soft");
  case rule_action::burst: return name + ':' + std::to_string(detail);
  default: return name;
  }
}

std::string subject_text(rule_target target, std::uint32_t code) {
  switch (target) {
  case rule_target::work: return name_of(op_words(), code);
  case rule_target::verb: return name_of(verb_words(), code);
  case rule_target::event:
  case rule_target::timer: return name_of(event_words(), code);
  }
  return "unknown";
}

log_entry write_verdict(layout::tables& t, nanos at, std::uint32_t rule_id, const rule& what,
                        std::uint32_t detail, const verdict_subject& subject) {
  const auto& device = t.devices[subject.device];
  write_log(t, at, log_kind::rule, device, subject.qp_num, detail, subject.work,
            {rule_id, subject.peer, subject.wr, static_cast<std::uint32_t>(what.target),
             static_cast<std::uint32_t>(what.action), subject.code});
  log_entry e;
  e.at = base::time_point{base::duration{at}};
  e.kind = log_kind::rule;
  e.device = device_name(device);
  e.qp_num = subject.qp_num;
  e.wr_id = subject.work.wr_id;
  e.remote_addr = subject.work.remote_addr;
  e.length = subject.work.length;
  e.detail = detail;
  e.rule = rule_id;
  e.peer = subject.peer < layout::max_devices ? device_name(t.devices[subject.peer]) : std::string{};
  e.wr = subject.wr;
  e.op = subject_text(what.target, subject.code);
  e.verdict = verdict_text(what.action, detail);
  return e;
}

base::expected<verdict_file> verdict_file::open(const std::string& path) {
  verdict_file file;
  // A FIFO from which nobody reads is an error (ENXIO), and nothing to wait for.
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  if (file.fd_ < 0)
    return base::fail(base::reason::invalid_argument, "soft NIC", "cannot append verdicts to " + path, errno);
  return file;
}

verdict_file::~verdict_file() {
  if (fd_ >= 0)
    ::close(fd_);
}

void verdict_file::append(const log_entry& e) const {
  nlohmann::ordered_json line{{"at_ns", e.at.time_since_epoch().count()},
                              {"rule", e.rule},
                              {"verdict", e.verdict},
                              {"device", e.device},
                              {"op", e.op}};
  if (!e.peer.empty())
    line["peer"] = e.peer;
  if (e.qp_num != 0) {
    line["qp"] = fmt::format("{:#x}", e.qp_num);
    line["wr"] = e.wr;
    line["wr_id"] = e.wr_id;
    line["remote_addr"] = fmt::format("{:#x}", e.remote_addr);
    line["bytes"] = e.length;
  }
  const auto text = line.dump() + '\n';
  // A file that cannot be written to any more (disk full) must not stop the device.
  [[maybe_unused]] const auto written = ::write(fd_, text.data(), text.size());
}

} // namespace actor_rdma::verbs::soft
