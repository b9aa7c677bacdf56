// SPDX-License-Identifier: Apache-2.0
//
// Environment, files, execvp.
#include "verbs/dropin/exec.hpp"

#include "verbs/dropin/environment.hpp"
#include "verbs/dropin/file_view.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

namespace actor_rdma::verbs::dropin {

namespace {

namespace fs = std::filesystem;

constexpr int exit_refused = 1;
constexpr int exit_usage = 2;
constexpr int exit_not_runnable = 126;
constexpr int exit_not_found = 127;

int complain(const std::string& what) {
  fmt::print(stderr, "soft-nic exec: {}\n", what);
  return exit_refused;
}

/// What was in the variable stays behind what is put in.
void put_first(const char* variable, const std::string& value, char separator) {
  const char* const old = std::getenv(variable);
  const auto all = old != nullptr && *old != '\0' ? value + separator + old : value;
  ::setenv(variable, all.c_str(), 1);
}

} // namespace

int exec_on_soft_nic(const exec_options& options) {
  ::setenv(fabric_variable, options.fabric.c_str(), 1);
  if (options.devices)
    ::setenv(devices_variable, std::to_string(*options.devices).c_str(), 1);
  if (!options.host.empty())
    ::setenv(host_variable, options.host.c_str(), 1);
  if (!options.link_layer.empty())
    ::setenv(link_layer_variable, options.link_layer.c_str(), 1);
  const auto chosen = read_environment([](const char* name) { return std::getenv(name); });
  if (!chosen) {
    complain(chosen.error().to_string());
    return exit_usage;
  }
  const auto self = fs::read_symlink("/proc/self/exe").parent_path();
  const auto libraries = (self / "../lib/softverbs").lexically_normal();
  const auto library = libraries / "libibverbs.so.1";
  if (!fs::exists(library))
    return complain("there is no " + library.string() + " (it is not built under sanitizers)");

  if (options.with_files) {
    // Only root can mount. Where it may not either (a container without that right), it is as everybody else.
    if (::geteuid() != 0 || !mount_view(chosen->devices)) {
      const auto view = make_view(chosen->devices);
      if (!view)
        return complain(view.error().to_string());
      ::setenv(view_variable, view->c_str(), 1);
      put_first("LD_PRELOAD", (libraries / "libsoftfiles.so").string(), ':');
    }
  }
  put_first("LD_LIBRARY_PATH", libraries.string(), ':');
  put_first("LD_PRELOAD", library.string(), ':');

  std::vector<char*> arguments;
  for (const auto& word : options.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  complain(options.command.front() + ": " + std::strerror(error));
  return error == ENOENT ? exit_not_found : exit_not_runnable;
}

} // namespace actor_rdma::verbs::dropin
