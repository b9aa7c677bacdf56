// SPDX-License-Identifier: Apache-2.0
//
// Writing the files, and mounting them.
#include "verbs/dropin/file_view.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace actor_rdma::verbs::dropin {

namespace {

namespace fs = std::filesystem;

constexpr const char* layer = "soft-nic exec";

using file = std::pair<const char*, std::string>;

void write_files(const fs::path& folder, std::initializer_list<file> files) {
  fs::create_directories(folder);
  for (const auto& [name, text] : files)
    std::ofstream{folder / name} << text << '\n';
}

/// What is below /sys/class. Devices of PCI have their class's folder below the function's own, and the class
/// has links to there. What changes while the NIC runs (state, GIDs) is left to verbs.
void write_classes(const fs::path& classes, const std::vector<soft::device_options>& devices) {
  fs::create_directories(classes / "infiniband");
  write_files(classes / "infiniband_verbs", {{"abi_version", "6"}});
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& name = devices[i].name;
    const auto node = fmt::format("uverbs{}", i);
    const auto function = fmt::format(".soft-nic/0000:f5:{:02x}.0", i);
    const auto root = classes / function;
    write_files(root, {{"vendor", "0x5246"},
                       {"device", "0x0001"},
                       {"class", "0x020700"},
                       {"numa_node", "0"},
                       {"max_link_speed", "16.0 GT/s PCIe"},
                       {"max_link_width", "16"}});
    const auto device = root / "infiniband" / name;
    write_files(device, {{"node_type", "1: CA"},
                         {"node_desc", name},
                         {"fw_ver", "soft-1"},
                         {"hca_type", "soft"},
                         {"board_id", "ACTOR_RDMA_SOFT"}});
    write_files(device / "ports/1", {{"link_layer", soft::link_layer_name(devices[i].link_layer)}});
    write_files(device / "ports/1/pkeys", {{"0", "0xffff"}});
    fs::create_directory_symlink("../..", device / "device");
    write_files(root / "infiniband_verbs" / node, {{"ibdev", name}, {"abi_version", "1"}});
    fs::create_directory_symlink("../..", root / "infiniband_verbs" / node / "device");
    fs::create_directory_symlink(fmt::format("../{}/infiniband/{}", function, name),
                                 classes / "infiniband" / name);
    fs::create_directory_symlink(fmt::format("../{}/infiniband_verbs/{}", function, node),
                                 classes / "infiniband_verbs" / node);
  }
}

/// The folders of /sys/class, held open so that they can be mounted again over what hides them.
class kept_folders {
public:
  explicit kept_folders(const fs::path& from) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator{from, error}) {
      const auto name = entry.path().filename().string();
      if (name != "infiniband" && name != "infiniband_verbs")
        folders_.emplace_back(name, ::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
    }
  }
  ~kept_folders() {
    for (const auto& [name, fd] : folders_)
      ::close(fd);
  }
  kept_folders(const kept_folders&) = delete;
  kept_folders& operator=(const kept_folders&) = delete;

  void mount_into(const fs::path& to) const {
    for (const auto& [name, fd] : folders_) {
      fs::create_directory(to / name);
      (void)::mount(fmt::format("/proc/self/fd/{}", fd).c_str(), (to / name).c_str(), nullptr, MS_BIND,
                    nullptr);
    }
  }

private:
  std::vector<std::pair<std::string, int>> folders_;
};

/// What the files depend on: "2", or "2-ie" where the first of two is an InfiniBand device.
std::string kind_of(const std::vector<soft::device_options>& devices) {
  std::string layers;
  for (const auto& d : devices)
    layers += d.link_layer == IBV_LINK_LAYER_INFINIBAND ? 'i' : 'e';
  const auto number = std::to_string(devices.size());
  return layers.find('i') == std::string::npos ? number : number + '-' + layers;
}

bool mount_memory(const char* at) {
  return ::mount("soft-nic", at, "tmpfs", 0, "size=4m,mode=755") == 0;
}

} // namespace

bool mount_view(const std::vector<soft::device_options>& devices) {
  std::error_code error;
  // The folder stays: to take it away could take the mount of another process away with it.
  fs::create_directory("/dev/infiniband", error);
  if (!fs::is_directory("/dev/infiniband") || !fs::is_directory("/sys/class"))
    return false;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  const kept_folders others{"/sys/class"};
  if (!mount_memory("/sys/class"))
    return false;
  others.mount_into("/sys/class");
  write_classes("/sys/class", devices);
  if (!mount_memory("/dev/infiniband"))
    return false;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    // A character device that may be opened for reading and writing, and of which nothing else is expected.
    const auto node = fmt::format("/dev/infiniband/uverbs{}", i);
    std::ofstream{node}.close();
    if (::mount("/dev/null", node.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return false;
  }
  return true;
}

base::expected<std::string> make_view(const std::vector<soft::device_options>& devices) {
  const char* const parent = std::getenv("TMPDIR");
  const fs::path folder =
      fmt::format("{}/actor-rdma-view-{}-{}", parent != nullptr && *parent != '\0' ? parent : "/tmp",
                  ::geteuid(), kind_of(devices));
  struct stat found {};
  const auto is_ours = [&] {
    return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
  };
  if (is_ours())
    return folder.string();
  auto pattern = folder.string() + '.' + std::string(6, 'X');
  if (::mkdtemp(pattern.data()) == nullptr)
    return base::fail(base::reason::resource, layer, "cannot make " + folder.string(), errno);
  const fs::path fresh = pattern;
  try {
    write_classes(fresh / "sys/class", devices);
    fs::create_directories(fresh / "dev/infiniband");
    for (std::size_t i = 0; i < devices.size(); ++i)
      fs::create_symlink("/dev/null", fresh / fmt::format("dev/infiniband/uverbs{}", i));
    ::chmod(fresh.c_str(), 0755);
    fs::rename(fresh, folder); // complete or not at all
  } catch (const fs::filesystem_error& e) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    if (!is_ours()) // else somebody was faster
      return base::fail(base::reason::resource, layer, e.what(), e.code().value());
  }
  return folder.string();
}

} // namespace actor_rdma::verbs::dropin
