#include "recorder/snapshot/points/point_listener.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/snapshot/points/namespace_ids.h"

namespace hindsight {
namespace {

uint32_t Load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void Store(uint32_t& word, uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }
void Wake(uint32_t& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

uint32_t StateOf(uint32_t word) { return word % HS_SLOT_STATES; }

}  // namespace

absl::StatusOr<std::unique_ptr<PointListener>> PointListener::Make(const PointFilter& filter,
                                                                   UniqueFd fd) {
  if (!fd.valid()) {
    fd = UniqueFd(memfd_create("hindsight-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  // Sealed: a program that cut the file would take the listener's pages away.
  if (!fd.valid() || ftruncate(fd.get(), sizeof(hs_control)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "making the control file");
  }
  void* mapped = mmap(nullptr, sizeof(hs_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, "mapping the control file");
  auto listener =
      absl::WrapUnique(new PointListener(std::move(fd), static_cast<hs_control*>(mapped)));
  RETURN_IF_ERROR(listener->SetFilter(filter));
  hs_control& control = *listener->control_;
  control.version = HS_CONTROL_VERSION;
  control.size = sizeof(hs_control);
  control.magic = HS_CONTROL_MAGIC;
  ASSIGN_OR_RETURN(listener->life_, LifeMark::Set(&control.guard));
  return listener;
}

PointListener::~PointListener() {
  Stop();
  // What is posted after this sweep finds no listener.
  life_.reset();
  for (hs_slot& slot : control_->slots) {
    const uint32_t word = Load(slot.word);
    if (StateOf(word) == HS_SLOT_POSTED) Free(slot, word);
  }
  Wake(control_->freed);
  munmap(control_, sizeof(hs_control));
}

std::string PointListener::Environment() const {
  return absl::StrCat(HS_CONTROL_VARIABLE, "=", path());
}

std::string PointListener::path() const {
  return absl::StrCat("/proc/", own_process_, "/fd/", fd_.get());
}

size_t PointListener::size() const { return sizeof(hs_control); }

void PointListener::Start(pid_t process, bool children) {
  absl::MutexLock lock(&active_);
  process_ = process;
  named_process_ = NamespaceId(process);
  children_ = children;
  control_->process = named_process_;
  control_->children = children;
  Store(control_->active, 1);
}

void PointListener::Stop() {
  absl::MutexLock lock(&active_);
  Store(control_->active, 0);
}

absl::Status PointListener::SetFilter(const PointFilter& filter) {
  RETURN_IF_ERROR(FilterFits(filter));
  absl::MutexLock lock(&active_);
  const uint32_t active = __atomic_exchange_n(&control_->active, 0, __ATOMIC_ACQ_REL);
  WriteFilter(filter, *control_);
  Store(control_->active, active != 0);
  return absl::OkStatus();
}

void PointListener::Interrupt() {
  __atomic_store_n(&interrupted_, true, __ATOMIC_RELEASE);
  __atomic_fetch_add(&control_->bell, 1, __ATOMIC_RELEASE);
  Wake(control_->bell);
}

std::optional<Point> PointListener::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const uint32_t bell = Load(control_->bell);
    if (std::optional<Point> point = Next()) return point;
    if (__atomic_exchange_n(&interrupted_, false, __ATOMIC_ACQ_REL)) return std::nullopt;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    const timespec span = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (syscall(SYS_futex, &control_->bell, FUTEX_WAIT, bell, &span, nullptr, 0) != 0 &&
        errno == EINTR) {
      return std::nullopt;
    }
  }
}

// Posted slots in the order of their arrival. What no thread of the program stands behind goes on
// unheard.
std::optional<Point> PointListener::Next() {
  while (true) {
    int oldest = -1;
    hs_slot copy = {};
    for (int i = 0; i < HS_SLOTS; ++i) {
      const uint32_t word = Load(control_->slots[i].word);
      if (StateOf(word) != HS_SLOT_POSTED || heard_[i] == word) continue;
      const uint32_t arrival = Load(control_->slots[i].arrival);
      if (oldest >= 0 && static_cast<int32_t>(arrival - copy.arrival) >= 0) continue;
      oldest = i;
      memcpy(&copy, &control_->slots[i], sizeof(copy));
      copy.word = word;
      copy.arrival = arrival;
    }
    if (oldest < 0) return std::nullopt;
    Point point = PointOf(copy);
    point.slot = static_cast<uint32_t>(oldest);
    point.ticket = copy.word;
    heard_[oldest] = copy.word;
    if (Identify(point)) return point;
    Answer(point);
  }
}

// Finds the ids by which this process knows the thread. False: there is no such thread.
bool PointListener::Identify(Point& point) const {
  if (!children_) {
    if (point.process != named_process_) return false;
    point.process = process_;
  }
  point.thread = ThreadOfNamespaceId(point.process, point.thread);
  return point.thread != 0;
}

void PointListener::Answer(const Point& point) {
  if (point.slot >= HS_SLOTS || heard_[point.slot] != point.ticket) return;
  heard_[point.slot] = 0;
  Free(control_->slots[point.slot], point.ticket);
  __atomic_fetch_add(&control_->freed, 1, __ATOMIC_RELEASE);
  Wake(control_->freed);
}

void PointListener::Free(hs_slot& slot, uint32_t word) {
  Store(slot.word, (word / HS_SLOT_STATES + 1) * HS_SLOT_STATES + HS_SLOT_FREE);
  Wake(slot.word);
}

}  // namespace hindsight
