#include "recorder/ptrace/affinity.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hindsight {
namespace {

// For as many processors as Linux can be built for.
constexpr size_t kMaxMaskBytes = 8192 / 8;

constexpr uint64_t kBoundNs = 500'000'000, kFreeNs = 20'000'000;

bool Contains(const CpuMask& mask, int cpu) {
  const auto byte = static_cast<size_t>(cpu) / 8;
  return byte < mask.size() && (mask[byte] >> (cpu % 8) & 1) != 0;
}

bool SetAffinity(pid_t thread, const CpuMask& mask) {
  return !mask.empty() && syscall(SYS_sched_setaffinity, thread, mask.size(), mask.data()) == 0;
}

bool BindTo(pid_t thread, int cpu, size_t bytes) {
  CpuMask mask(bytes);
  mask[static_cast<size_t>(cpu) / 8] = static_cast<uint8_t>(1 << (cpu % 8));
  return SetAffinity(thread, mask);
}

}  // namespace

CpuMask ReadAffinity(pid_t thread) {
  CpuMask mask(kMaxMaskBytes);
  const long bytes = syscall(SYS_sched_getaffinity, thread, mask.size(), mask.data());
  mask.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return mask;
}

void HostAffinity::Tick(uint64_t now_ns) {
  if (now_ns < next_ns_ || own_.empty()) return;
  if (bound_) {
    Unbind();
    next_ns_ = now_ns + kFreeNs;
    return;
  }
  const int cpu = sched_getcpu();
  bound_ = cpu >= 0 && Contains(own_, cpu) && BindTo(0, cpu, own_.size());
  next_ns_ = now_ns + kBoundNs;
}

void HostAffinity::Unbind() {
  if (bound_) SetAffinity(0, own_);
  bound_ = false;
}

void ThreadAffinity::Follow() {
  if (chosen_) return;
  const int cpu = sched_getcpu();
  if (cpu == bound_to_ || cpu < 0) return;
  if (bound_to_ < 0) mask_ = ReadAffinity(thread_);
  if (!Contains(mask_, cpu)) return;
  if (BindTo(thread_, cpu, mask_.size())) bound_to_ = cpu;
}

void ThreadAffinity::Release() {
  if (bound_to_ >= 0) SetAffinity(thread_, mask_);
  bound_to_ = -1;
}

void ThreadAffinity::Free(pid_t thread) const {
  if (bound_to_ >= 0) SetAffinity(thread, mask_);
}

void ThreadAffinity::NoteChange() {
  mask_ = ReadAffinity(thread_);
  chosen_ = true;
  bound_to_ = -1;
}

void ThreadAffinity::TakeOver(const ThreadAffinity& other) {
  mask_ = other.mask_;
  chosen_ = other.chosen_;
  bound_to_ = other.bound_to_;
}

}  // namespace hindsight
