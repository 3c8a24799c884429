#include "recorder/translate/guard/store_watch.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// While the process changes its memory map, the kernel says EAGAIN.
bool Control(int file, unsigned long request, void* argument) {
  while (ioctl(file, request, argument) != 0) {
    if (errno != EAGAIN && errno != EINTR) return false;
  }
  return true;
}

bool Protect(int file, uint64_t start, uint64_t end, bool on) {
  uffdio_writeprotect change = {};
  change.range = {.start = start, .len = end - start};
  change.mode = on ? uint64_t{UFFDIO_WRITEPROTECT_MODE_WP} : 0;
  return Control(file, UFFDIO_WRITEPROTECT, &change);
}

}  // namespace

UniqueFd TakeUserfaultfd(int pidfd, int fd) {
  UniqueFd file(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0)));
  std::error_code error;
  const auto name =
      std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", file.get()), error);
  return name == "anon_inode:[userfaultfd]" ? std::move(file) : UniqueFd();
}

absl::StatusOr<std::unique_ptr<StoreWatch>> StoreWatch::Start(UniqueFd file, OnStore on_store) {
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (!Control(file.get(), UFFDIO_API, &api)) {
    return absl::ErrnoToStatus(errno, "cannot agree on userfaultfd's features");
  }
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  return std::unique_ptr<StoreWatch>(
      new StoreWatch(std::move(file), std::move(stop), std::move(on_store)));
}

StoreWatch::StoreWatch(UniqueFd file, UniqueFd stop, OnStore on_store)
    : file_(std::move(file)), stop_(std::move(stop)), on_store_(std::move(on_store)) {
  thread_ = std::thread([this] { Run(); });
}

StoreWatch::~StoreWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

bool StoreWatch::Register(uint64_t start, uint64_t end) {
  uffdio_register area = {};
  area.range = {.start = start, .len = end - start};
  area.mode = UFFDIO_REGISTER_MODE_WP;
  constexpr uint64_t kNeeded = uint64_t{1} << _UFFDIO_WRITEPROTECT;
  return Control(file_.get(), UFFDIO_REGISTER, &area) && (area.ioctls & kNeeded) != 0;
}

bool StoreWatch::Watch(uint64_t start, uint64_t end) {
  return Protect(file_.get(), start, end, true);
}

void StoreWatch::Release(uint64_t start, uint64_t end) {
  if (Protect(file_.get(), start, end, false)) return;
  // Other memory is there by now, or none: who waits finds out.
  uffdio_range range = {.start = start, .len = end - start};
  Control(file_.get(), UFFDIO_WAKE, &range);
}

void StoreWatch::Run() {
  while (true) {
    pollfd entries[] = {{.fd = file_.get(), .events = POLLIN, .revents = 0},
                        {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) return;
    if (entries[1].revents != 0 || (entries[0].revents & ~POLLIN) != 0) return;
    if (entries[0].revents != 0) ReadAll();
  }
}

void StoreWatch::ReadAll() {
  constexpr size_t kAtOnce = 16;
  uffd_msg messages[kAtOnce];
  const ssize_t bytes = read(file_.get(), messages, sizeof(messages));
  for (ssize_t i = 0; i * static_cast<ssize_t>(sizeof(uffd_msg)) < bytes; ++i) {
    if (messages[i].event != UFFD_EVENT_PAGEFAULT) continue;
    on_store_(PageOf(messages[i].arg.pagefault.address));
  }
}

}  // namespace hindsight
