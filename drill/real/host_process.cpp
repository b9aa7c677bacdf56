// SPDX-License-Identifier: Apache-2.0
// fork and exec; between the two only what a signal handler may do.
#include "drill/real/host_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace actor_rdma::drill {

namespace {

constexpr auto poll_period = std::chrono::milliseconds{1};
constexpr auto kill_patience = std::chrono::seconds{5};

[[noreturn]] void become(char* const* argv, const std::vector<int>& kept, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(127);  // it ended before the line above
  ::setpgid(0, 0); // an interrupt from the terminal is the conductor's affair
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int fd : kept)
    ::fcntl(fd, F_SETFD, 0);
  ::execv("/proc/self/exe", argv);
  ::_exit(127);
}

} // namespace

base::expected<std::unique_ptr<host_process>> host_process::start(const start_options& how) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return base::fail(base::reason::resource, "drill", "cannot make a socket pair", errno);
  line_socket ours(ends[0]);
  const line_socket theirs(ends[1]);
  std::vector<std::string> words{
      "actor-rdma-drill", "host",     "--file",   how.file,   "--name",
      how.host,           "--listen", how.listen, "--socket", std::to_string(theirs.fd())};
  words.insert(words.end(), how.devices.begin(), how.devices.end());
  std::vector<char*> argv;
  for (auto& w : words)
    argv.push_back(w.data());
  argv.push_back(nullptr);
  auto kept = how.memory;
  kept.push_back(theirs.fd());
  const auto self = ::getpid();
  const auto pid = ::fork();
  if (pid == 0)
    become(argv.data(), kept, self);
  if (pid < 0)
    return base::fail(base::reason::resource, "drill", "cannot start a process for " + how.host, errno);
  return std::unique_ptr<host_process>(new host_process(pid, std::move(ours)));
}

host_process::~host_process() {
  if (ended())
    return;
  signal(SIGKILL);
  (void)ended(kill_patience);
}

void host_process::signal(int number) const {
  if (!end_)
    ::kill(pid_, number);
}

std::string host_process::waits_for() const {
  const auto line_of = [](const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
  };
  std::string all;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), gone)) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", line_of(thread.path() / "comm"),
                       line_of(thread.path() / "wchan"));
    std::ifstream stack(thread.path() / "stack"); // root's
    for (std::string frame; std::getline(stack, frame);)
      all += frame.substr(frame.find(']') + 1);
  }
  return all;
}

std::optional<std::string> host_process::ended(base::duration limit) {
  const auto until = base::mono_clock::now() + limit;
  while (!end_) {
    int status = 0;
    const auto got = ::waitpid(pid_, &status, WNOHANG);
    if (got == pid_ && WIFSIGNALED(status))
      end_ = fmt::format("the process was ended by signal {} ({})", WTERMSIG(status),
                         ::strsignal(WTERMSIG(status)));
    else if (got == pid_) {
      end_ = fmt::format("the process ended with status {}", WEXITSTATUS(status));
      ended_well_ = WEXITSTATUS(status) == 0;
    } else if (base::mono_clock::now() >= until)
      break;
    else
      std::this_thread::sleep_for(poll_period);
  }
  return end_;
}

} // namespace actor_rdma::drill
