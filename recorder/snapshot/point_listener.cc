#include "recorder/snapshot/point_listener.h"

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
#include "recorder/snapshot/namespace_ids.h"

namespace hindsight {
namespace {

uint32_t Load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void Store(uint32_t& word, uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }
void Wake(uint32_t& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

uint32_t StateOf(uint32_t word) { return word % HS_SLOT_STATES; }

absl::Status Fits(const std::string& text, absl::string_view what) {
  if (text.size() < HS_NAME_SIZE && text.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is longer than ", HS_NAME_SIZE - 1, " bytes: ", text));
}

absl::Status FilterFits(const PointFilter& filter) {
  const auto fits = [](size_t count, size_t most, absl::string_view what) {
    if (count <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("more than ", most, " ", what));
  };
  RETURN_IF_ERROR(fits(filter.classes.size(), HS_RANGES, "ranges of classes"));
  RETURN_IF_ERROR(fits(filter.ids.size(), HS_RANGES, "ranges of ids"));
  RETURN_IF_ERROR(fits(filter.attributes.size(), HS_ATTRIBUTES, "attributes"));
  RETURN_IF_ERROR(fits(filter.exceptions.size(), HS_TYPES, "types of exceptions"));
  for (const WantedAttribute& attribute : filter.attributes) {
    RETURN_IF_ERROR(Fits(attribute.key, "a key"));
    RETURN_IF_ERROR(Fits(attribute.value, "a value"));
  }
  for (const std::string& type : filter.exceptions) RETURN_IF_ERROR(Fits(type, "a type"));
  return absl::OkStatus();
}

uint32_t WriteRanges(const std::vector<NumberRange>& ranges, hs_range* to) {
  for (size_t i = 0; i < ranges.size(); ++i) to[i] = {ranges[i].first, ranges[i].last};
  return static_cast<uint32_t>(ranges.size());
}

uint32_t TriggerBits(const PointFilter& filter) {
  return (filter.calls ? 1u << HS_TRIGGER_CALL : 0) | (filter.points ? 1u << HS_TRIGGER_POINT : 0) |
         (filter.conditions ? 1u << HS_TRIGGER_CONDITION : 0) |
         (filter.assertions ? 1u << HS_TRIGGER_ASSERTION : 0) |
         (filter.exceptions.empty() ? 0 : 1u << HS_TRIGGER_EXCEPTION);
}

// The library looks for the values of a key side by side.
void WriteAttributes(std::vector<WantedAttribute> wanted, hs_control& control) {
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  for (size_t i = 0; i < wanted.size(); ++i) {
    hs_wanted& to = control.attributes[i];
    strncpy(to.key, wanted[i].key.c_str(), sizeof(to.key));
    strncpy(to.value, wanted[i].value.c_str(), sizeof(to.value));
    to.any_value = wanted[i].value.empty();
  }
  control.attribute_count = static_cast<uint32_t>(wanted.size());
}

// Requires: FilterFits, and that nothing is active.
void WriteFilter(const PointFilter& filter, hs_control& control) {
  control.triggers = TriggerBits(filter);
  control.level = filter.minimum_level;
  control.class_count = WriteRanges(filter.classes, control.classes);
  control.id_count = WriteRanges(filter.ids, control.ids);
  WriteAttributes(filter.attributes, control);
  for (size_t i = 0; i < filter.exceptions.size(); ++i) {
    strncpy(control.types[i], filter.exceptions[i].c_str(), sizeof(control.types[i]));
  }
  control.type_count = static_cast<uint32_t>(filter.exceptions.size());
  control.skip = filter.skip;
  control.stride = std::max<uint64_t>(1, filter.stride);
  control.interval_ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(filter.interval));
}

// The text up to the first NUL, which is skipped.
std::string TakeText(absl::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  std::string text(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

// `slot` is a copy: nobody changes it while it is looked at.
Point PointOf(const hs_slot& slot) {
  Point point;
  point.process = slot.process;
  point.thread = slot.thread;
  point.trigger = static_cast<Trigger>(
      std::clamp<uint32_t>(slot.trigger, HS_TRIGGER_CALL, HS_TRIGGER_EXCEPTION));
  point.level = slot.level;
  point.class_number = slot.class_number;
  point.id = slot.id;
  point.is_cut = slot.is_cut != 0;
  const size_t label_size = std::min<size_t>(slot.label_size, HS_TEXT_SIZE);
  absl::string_view label(slot.text, label_size);
  point.label = TakeText(label);
  const size_t size = std::min<size_t>(slot.attributes_size, HS_TEXT_SIZE - label_size);
  absl::string_view rest(slot.text + label_size, size);
  while (!rest.empty()) {
    std::string key = TakeText(rest);
    std::string value = TakeText(rest);
    point.attributes.emplace_back(std::move(key), std::move(value));
  }
  return point;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PointListener>> PointListener::Make(const PointFilter& filter) {
  UniqueFd fd(memfd_create("hindsight-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
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
