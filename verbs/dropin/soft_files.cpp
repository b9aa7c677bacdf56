// SPDX-License-Identifier: Apache-2.0
//
// libsoftfiles.so: redirects /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband to a
// directory, for programs of users who cannot mount. It is preloaded into everything that such a program
// starts, so it uses the C library only, and does nothing without ACTOR_RDMA_SOFT_VIEW. System calls that a
// program makes itself, or that the C library makes for other purposes (glob, ftw), are not redirected.
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

bool has_prefix(const char* path, const char* prefix) noexcept {
  const auto n = std::strlen(prefix);
  return std::strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/// The last one is where the links of the first two lead: who follows links himself arrives there.
bool is_ours(const char* path) noexcept {
  return has_prefix(path, "/sys/class/infiniband") || has_prefix(path, "/sys/class/infiniband_verbs") ||
         has_prefix(path, "/dev/infiniband") || has_prefix(path, "/sys/class/.soft-nic");
}

/// The path to use in place of the program's.
class redirected {
public:
  explicit redirected(const char* path) noexcept : path_{path} {
    if (path == nullptr || !is_ours(path))
      return;
    const char* const view = std::getenv("ACTOR_RDMA_SOFT_VIEW");
    if (view == nullptr || *view == '\0')
      return;
    const int n = std::snprintf(text_, sizeof text_, "%s%s", view, path);
    if (n > 0 && static_cast<std::size_t>(n) < sizeof text_)
      path_ = text_;
  }
  redirected(const redirected&) = delete;
  redirected& operator=(const redirected&) = delete;
  operator const char*() const noexcept { return path_; } // NOLINT(google-explicit-constructor): it is one

private:
  const char* path_;
  char text_[PATH_MAX];
};

/// The function that ours hides.
template <class Function>
Function* next(Function*, const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

} // namespace

#define NEXT(name) static auto* const real = next(&name, #name)

extern "C" {

#define OPEN(name)                                                                                           \
  int name(const char* path, int flags, ...) {                                                               \
    NEXT(name);                                                                                              \
    va_list more;                                                                                            \
    va_start(more, flags);                                                                                   \
    const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};               \
    va_end(more);                                                                                            \
    return real(redirected{path}, flags, mode);                                                              \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                         \
  int name(int at, const char* path, int flags, ...) {                                                       \
    NEXT(name);                                                                                              \
    va_list more;                                                                                            \
    va_start(more, flags);                                                                                   \
    const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};               \
    va_end(more);                                                                                            \
    return real(at, redirected{path}, flags, mode);                                                          \
  }
OPENAT(openat)
OPENAT(openat64)

FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return real(redirected{path}, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  NEXT(fopen64);
  return real(redirected{path}, mode);
}
DIR* opendir(const char* path) {
  NEXT(opendir);
  return real(redirected{path});
}
int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
            int (*compare)(const dirent**, const dirent**)) {
  NEXT(scandir);
  return real(redirected{path}, list, filter, compare);
}
int stat(const char* path, struct stat* out) {
  static auto* const real = next(static_cast<int (*)(const char*, struct stat*)>(&stat), "stat");
  return real(redirected{path}, out);
}
int stat64(const char* path, struct stat64* out) {
  static auto* const real = next(static_cast<int (*)(const char*, struct stat64*)>(&stat64), "stat64");
  return real(redirected{path}, out);
}
int lstat(const char* path, struct stat* out) {
  NEXT(lstat);
  return real(redirected{path}, out);
}
int lstat64(const char* path, struct stat64* out) {
  NEXT(lstat64);
  return real(redirected{path}, out);
}
int fstatat(int at, const char* path, struct stat* out, int flags) {
  NEXT(fstatat);
  return real(at, redirected{path}, out, flags);
}
int fstatat64(int at, const char* path, struct stat64* out, int flags) {
  NEXT(fstatat64);
  return real(at, redirected{path}, out, flags);
}
int statx(int at, const char* path, int flags, unsigned mask, struct statx* out) {
  static auto* const real =
      next(static_cast<int (*)(int, const char*, int, unsigned, struct statx*)>(&statx), "statx");
  return real(at, redirected{path}, flags, mask, out);
}
int access(const char* path, int mode) {
  NEXT(access);
  return real(redirected{path}, mode);
}
int faccessat(int at, const char* path, int mode, int flags) {
  NEXT(faccessat);
  return real(at, redirected{path}, mode, flags);
}
ssize_t readlink(const char* path, char* out, std::size_t size) {
  NEXT(readlink);
  return real(redirected{path}, out, size);
}
ssize_t readlinkat(int at, const char* path, char* out, std::size_t size) {
  NEXT(readlinkat);
  return real(at, redirected{path}, out, size);
}
char* realpath(const char* path, char* out) {
  NEXT(realpath);
  return real(redirected{path}, out);
}
char* canonicalize_file_name(const char* path) {
  NEXT(canonicalize_file_name);
  return real(redirected{path});
}
// ls -l asks for these of every name that it shows.
ssize_t getxattr(const char* path, const char* name, void* out, std::size_t size) {
  NEXT(getxattr);
  return real(redirected{path}, name, out, size);
}
ssize_t lgetxattr(const char* path, const char* name, void* out, std::size_t size) {
  NEXT(lgetxattr);
  return real(redirected{path}, name, out, size);
}
ssize_t listxattr(const char* path, char* out, std::size_t size) {
  NEXT(listxattr);
  return real(redirected{path}, out, size);
}
ssize_t llistxattr(const char* path, char* out, std::size_t size) {
  NEXT(llistxattr);
  return real(redirected{path}, out, size);
}
/// What realpath is in programs that were built with _FORTIFY_SOURCE.
char* __realpath_chk(const char* path, char* out, std::size_t size);
char* __realpath_chk(const char* path, char* out, std::size_t size) {
  NEXT(__realpath_chk);
  return real(redirected{path}, out, size);
}
/// What open is there, when its flags are constant.
int __open_2(const char* path, int flags);
int __open_2(const char* path, int flags) {
  NEXT(__open_2);
  return real(redirected{path}, flags);
}
int __open64_2(const char* path, int flags);
int __open64_2(const char* path, int flags) {
  NEXT(__open64_2);
  return real(redirected{path}, flags);
}

} // extern "C"
