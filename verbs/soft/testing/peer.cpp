// SPDX-License-Identifier: Apache-2.0
//
// Both sides of the second process.
#include "verbs/soft/testing/peer.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace actor_rdma::verbs::soft::testing {

namespace {

constexpr int peer_fd = 3;

void send_line(int fd, const std::string& line) {
  const auto text = line + '\n';
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error{"the other process does not listen"};
}

std::string receive_line(int fd) {
  std::string line;
  for (char c = 0; ::read(fd, &c, 1) == 1;) {
    if (c == '\n')
      return line;
    line += c;
  }
  throw std::runtime_error{"the other process is gone"};
}

nic_mode to_mode(const std::string& name) {
  return name == "paced" ? nic_mode::paced : name == "null" ? nic_mode::null : nic_mode::immediate;
}

/// The obeying side.
class peer_end {
public:
  std::string obey(const std::string& line) {
    std::istringstream in{line};
    std::string command;
    in >> command;
    if (command == "open")
      return open(in);
    if (command == "where")
      return to_text(end_->where());
    if (command == "connect") {
      std::string rest;
      std::getline(in, rest);
      end_->connect(peer_ = to_address(rest));
      return "ok";
    }
    if (command == "write" || command == "read")
      return post(command, in);
    if (command == "sends") { // the same with messages
      send_for_ever();
      return "ok";
    }
    if (command == "writes") { // as many as fit, again and again, until the peer is gone or an error comes
      write_for_ever();
      return "ok";
    }
    if (command == "poll")
      return poll(in);
    if (command == "message" || command == "receive" || command == "messages" || command == "wake")
      return obey_message(command, in);
    if (command == "word" || command == "add")
      return obey_word(command, in);
    if (command == "fill") {
      unsigned seed = 0;
      in >> seed;
      fill(end_->memory, buffer_bytes, seed);
      return "ok";
    }
    if (command == "byte") {
      std::size_t offset = 0;
      in >> offset;
      return std::to_string(static_cast<int>(end_->memory[offset]));
    }
    if (command == "state")
      return std::to_string(end_->state());
    if (command == "dereg")
      return end_->mr.destroy() ? "ok" : "busy";
    if (command == "reg") {
      std::string with;
      in >> with;
      const int access = all_access | (with == "atomic" ? IBV_ACCESS_REMOTE_ATOMIC : 0);
      end_->mr = std::move(*memory_region::reg(end_->pd, end_->memory, buffer_bytes, access));
      end_->lkey = end_->mr.lkey();
      end_->rkey = end_->mr.rkey();
      return "ok";
    }
    if (command == "event")
      return event();
    if (command == "close") {
      end_.reset();
      host_.reset();
      net_.reset();
      free_shared(shared_, buffer_bytes);
      return "ok";
    }
    return "what?";
  }

private:
  std::string open(std::istringstream& in) {
    std::string name;
    std::string host_name;
    std::string mode;
    std::string memory;
    in >> name >> host_name >> mode >> memory;
    qp_options options;
    int timeout = options.timeout;
    options.access |= IBV_ACCESS_REMOTE_ATOMIC;
    options.rnr_retry = 7; // for ever
    if (in >> timeout)
      options.timeout = static_cast<std::uint8_t>(timeout);
    fabric_options f;
    f.name = name;
    auto net = fabric::open(f);
    if (!net)
      return net.error().to_string();
    net_ = std::move(*net);
    device_options device;
    device.mode = to_mode(mode);
    auto attached = net_->attach(host_name, {device});
    if (!attached)
      return attached.error().to_string();
    host_ = std::move(*attached);
    shared_ = memory == "shared" ? allocate_shared(buffer_bytes) : nullptr;
    end_ = end::open(*host_, 0, options, static_cast<std::byte*>(shared_));
    return "ok";
  }

  std::string post(const std::string& command, std::istringstream& in) {
    std::uint64_t wr_id = 0;
    std::uint64_t local = 0;
    std::uint64_t remote = 0;
    std::uint32_t length = 0;
    in >> wr_id >> local >> remote >> length;
    return std::to_string(command == "write" ? end_->write(wr_id, peer_, local, remote, length)
                                             : end_->read(wr_id, peer_, local, remote, length));
  }

  std::string obey_message(const std::string& command, std::istringstream& in) {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint32_t third = 0;
    in >> first >> second >> third;
    if (command == "message") // number, where it is, length
      return std::to_string(end_->send(first, second, third));
    if (command == "receive")
      return std::to_string(end_->receive(first, second, third));
    if (command == "messages") // sender, how many: each says in 8 bytes which it is
      return send_numbered(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second));
    if (ibv_req_notify_cq(end_->cq.get(), 0) != 0) // "wake": milliseconds
      return "not armed";
    send_line(peer_fd, "armed");
    pollfd fd{end_->channel.fd(), POLLIN, 0};
    return ::poll(&fd, 1, static_cast<int>(first)) == 1 ? "awake" : "asleep";
  }

  std::string send_numbered(std::uint32_t sender, std::uint32_t count) {
    std::uint32_t done = 0;
    for (std::uint32_t posted = 0; done < count;) {
      const auto at = end_->memory + 8 * (posted % 64);
      if (posted < count && posted - done < 64) {
        std::memcpy(at, &sender, sizeof sender);
        std::memcpy(at + sizeof sender, &posted, sizeof posted);
        if (end_->send(posted, 8 * (posted % 64), 8) != 0)
          return "cannot post";
        ++posted;
      }
      for (const auto& wc : end_->poll()) {
        if (wc.status != IBV_WC_SUCCESS)
          return "failed with " + std::to_string(wc.status);
        ++done;
      }
    }
    return "ok";
  }

  /// The owner's own view of 8 bytes of its memory, and its own additions to the first of them.
  std::string obey_word(const std::string& command, std::istringstream& in) {
    std::uint64_t number = 0;
    in >> number;
    const auto cell = [&](std::uint64_t at) {
      return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(end_->memory + at)};
    };
    if (command == "word")
      return std::to_string(cell(number).load());
    for (std::uint64_t i = 0; i < number; ++i)
      cell(0).fetch_add(1);
    return "ok";
  }

  void write_for_ever() {
    for (std::uint64_t i = 0;; ++i) {
      if (end_->write(i, peer_, 0, 0, 64 << 10) != 0 && end_->state() != IBV_QPS_RTS)
        return;
      for (const auto& wc : end_->poll())
        if (wc.status != IBV_WC_SUCCESS)
          return;
    }
  }

  void send_for_ever() {
    for (std::uint64_t i = 0;; ++i) {
      if (end_->send(i, 0, 64 << 10) != 0 && end_->state() != IBV_QPS_RTS)
        return;
      for (const auto& wc : end_->poll())
        if (wc.status != IBV_WC_SUCCESS)
          return;
    }
  }

  std::string poll(std::istringstream& in) {
    std::size_t count = 0;
    int timeout_ms = 0;
    in >> count >> timeout_ms;
    std::string text;
    for (const auto& wc : end_->poll_for(count, std::chrono::milliseconds{timeout_ms}))
      text += std::to_string(wc.status) + ' ';
    return text;
  }

  std::string event() {
    for (int i = 0; i < 500; ++i) {
      const auto event = end_->ctx.next_async_event();
      if (event && *event)
        return std::to_string((*event)->type);
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return "none";
  }

  std::shared_ptr<fabric> net_;
  std::unique_ptr<host> host_;
  std::unique_ptr<end> end_;
  void* shared_ = nullptr;
  address peer_;
};

} // namespace

TEST_CASE("second process of the other cases" * doctest::skip()) {
  peer_end peer;
  for (;;) {
    const auto line = receive_line(peer_fd);
    if (line == "quit") {
      peer.obey("close");
      return;
    }
    send_line(peer_fd, peer.obey(line));
  }
}

peer_process::peer_process(const std::string& fabric, const std::string& host, const std::string& mode,
                           const std::string& memory, const std::string& options) {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    if (pair[1] == peer_fd)
      ::fcntl(peer_fd, F_SETFD, 0);
    else
      ::dup2(pair[1], peer_fd);
    ::execl("/proc/self/exe", "peer", "--no-skip=true", "--test-case=second process of the other cases",
            "--no-version=true", "--minimal=true", nullptr);
    ::_exit(127);
  }
  ::close(pair[1]);
  fd_ = pair[0];
  REQUIRE(ask("open " + fabric + ' ' + host + ' ' + mode + ' ' + memory + ' ' + options) == "ok");
}

peer_process::~peer_process() {
  if (pid_ > 0)
    kill();
  ::close(fd_);
}

void peer_process::send(const std::string& line) {
  send_line(fd_, line);
}
std::string peer_process::receive() {
  return receive_line(fd_);
}

std::string peer_process::ask(const std::string& line) {
  send(line);
  return receive();
}

address peer_process::where() {
  return to_address(ask("where"));
}
void peer_process::connect(const address& peer) {
  REQUIRE(ask("connect " + to_text(peer)) == "ok");
}

std::vector<int> peer_process::poll(std::size_t count, int timeout_ms) {
  std::istringstream in{ask("poll " + std::to_string(count) + ' ' + std::to_string(timeout_ms))};
  std::vector<int> all;
  for (int status = 0; in >> status;)
    all.push_back(status);
  return all;
}

void peer_process::signal(int number) const {
  if (pid_ > 0) // -1 would be everybody
    ::kill(pid_, number);
}

void peer_process::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int peer_process::quit() {
  send("quit");
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

shared_target::shared_target(const std::string& name) : memory(allocate_shared(buffer_bytes)) {
  fabric_options f;
  f.name = name;
  net = *fabric::open(f);
  on = std::move(*net->attach("own", {device_options{}}));
  e = end::open(*on, 0, {}, static_cast<std::byte*>(memory));
}

shared_target::~shared_target() {
  e.reset();
  on.reset();
  free_shared(memory, buffer_bytes);
}

std::string to_text(const address& a) {
  std::ostringstream out;
  for (const auto byte : a.gid.raw)
    out << static_cast<int>(byte) << ' ';
  out << a.qpn << ' ' << a.psn << ' ' << a.addr << ' ' << a.rkey;
  return out.str();
}

address to_address(const std::string& text) {
  std::istringstream in{text};
  address a;
  for (auto& byte : a.gid.raw) {
    int value = 0;
    in >> value;
    byte = static_cast<std::uint8_t>(value);
  }
  in >> a.qpn >> a.psn >> a.addr >> a.rkey;
  return a;
}

std::string unique_fabric() {
  static std::atomic<int> next{0};
  return "test-" + std::to_string(::getpid()) + '-' + std::to_string(next++);
}

} // namespace actor_rdma::verbs::soft::testing
