// SPDX-License-Identifier: Apache-2.0
// Children by fork and exec, with their output in memory files.
#include "tests/process/child.hpp"

#include "verbs/soft/fabric.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace actor_rdma::process {

namespace {

using namespace std::chrono_literals;

constexpr base::duration poll_period = 2ms;

std::string contents(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const auto n = ::pread(fd, part.data(), part.size(), at);
    if (n <= 0)
      return text;
    text.append(part.data(), static_cast<std::size_t>(n));
    at += n;
  }
}

[[noreturn]] void become(char* const* argv, int output, int errors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(127); // it ended before the line above
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execv(argv[0], argv);
  ::_exit(127);
}

} // namespace

child::child(std::vector<std::string> argv)
    : output_fd_(::memfd_create("output", MFD_CLOEXEC)), error_fd_(::memfd_create("errors", MFD_CLOEXEC)) {
  // Written at their ends, whoever else reads them.
  for (const int fd : {output_fd_, error_fd_})
    ::fcntl(fd, F_SETFL, O_APPEND);
  std::vector<char*> pointers;
  for (auto& a : argv)
    pointers.push_back(a.data());
  pointers.push_back(nullptr);
  const auto self = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0)
    become(pointers.data(), output_fd_, error_fd_, self);
  if (pid_ < 0)
    throw std::runtime_error("fork");
}

child::~child() {
  if (!status_) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(output_fd_);
  ::close(error_fd_);
}

std::optional<int> child::wait(base::duration limit) {
  const auto until = base::mono_clock::now() + limit;
  while (!status_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (base::mono_clock::now() > until)
      break;
    else
      std::this_thread::sleep_for(poll_period);
  }
  return status_;
}

bool child::wait_for_text(const std::string& text, base::duration limit) {
  const auto until = base::mono_clock::now() + limit;
  for (;;) {
    const bool ended = wait(0ms).has_value(); // before looking: its last words count
    if (output().find(text) != std::string::npos || errors().find(text) != std::string::npos)
      return true;
    if (ended || base::mono_clock::now() > until)
      return false;
    std::this_thread::sleep_for(poll_period);
  }
}

void child::signal(int number) const {
  if (!status_)
    ::kill(pid_, number);
}

std::string child::output() const {
  return contents(output_fd_);
}

std::string child::errors() const {
  return contents(error_fd_);
}

base::duration child::cpu_time() const {
  clockid_t clock{};
  timespec ts{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &ts) != 0)
    throw std::runtime_error("no CPU clock of the child");
  return base::duration{std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec};
}

std::vector<std::string> bench_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ACTOR_RDMA_BENCH);
  return arguments;
}

fabric_name::fabric_name() {
  static std::atomic<unsigned> count{0};
  name_ = "test-" + std::to_string(::getpid()) + '-' + std::to_string(count++);
}

fabric_name::~fabric_name() {
  verbs::soft::fabric_options how;
  how.name = name_;
  (void)verbs::soft::fabric::open(how); // who attaches last and leaves removes it
}

target_process::target_process(const std::string& fabric, std::vector<std::string> arguments,
                               const std::string& listen)
    : process([&] {
        arguments.insert(arguments.begin(), {"target", "--soft-fabric", fabric, "--listen", listen});
        return bench_command(arguments);
      }()) {
  const std::string before = "listening on ";
  if (!process.wait_for_text(before, 30s))
    return;
  const auto text = process.output();
  const auto at = text.find(before) + before.size();
  address = text.substr(at, text.find('\n', at) - at);
}

} // namespace actor_rdma::process
