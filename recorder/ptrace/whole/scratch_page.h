// A page that system calls made in a stopped process can write to: mapped for that, and gone again.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_SCRATCH_PAGE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_SCRATCH_PAGE_H_

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <cstdint>

#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/injected_call.h"

namespace hindsight {

// Not copyable. The host thread that traces.
class ScratchPage {
 public:
  ScratchPage(pid_t thread, const CallSite& site) : thread_(thread), site_(site) {
    const auto made = InjectCall(
        thread, site, SYS_mmap,
        {0, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
    if (made.ok() && made->value > 0) address_ = static_cast<uint64_t>(made->value);
  }
  ~ScratchPage() {
    if (address_ == 0) return;
    InjectCall(thread_, site_, SYS_munmap, {address_, kBytes}).IgnoreError();
  }
  ScratchPage(const ScratchPage&) = delete;
  ScratchPage& operator=(const ScratchPage&) = delete;

  uint64_t address() const { return address_; }  // 0: there is none

  template <typename Value>
  bool Read(uint64_t offset, Value* value) const {
    return ProcessVmMemory(thread_).Read(address_ + offset,
                                         {reinterpret_cast<uint8_t*>(value), sizeof(*value)});
  }

 private:
  static constexpr uint64_t kBytes = 4096;
  const pid_t thread_;
  const CallSite site_;
  uint64_t address_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_SCRATCH_PAGE_H_
