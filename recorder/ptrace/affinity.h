// Which processors recorded threads run on.
//
// A system call takes some switches between the recorder and the thread. Between two processors, in
// a virtual machine, each costs tens of microseconds; on one, two or three. Only one of them runs
// at a time anyway. So while it records, the recorder's host thread stays on one processor, and the
// threads are bound to the same. A thread that asks sees the processors it had before; one
// that chooses some itself gets them, and is left alone from then on.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_PTRACE_AFFINITY_H_
#define HINDSIGHT_RECORDER_PTRACE_AFFINITY_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace hindsight {

// A set of processors as the kernel reports it: one bit each, empty if it did not.
using CpuMask = std::vector<uint8_t>;

// `thread` 0: the calling one.
CpuMask ReadAffinity(pid_t thread);

// Of the calling host thread. The destructor gives it back what it had.
class HostAffinity {
 public:
  HostAffinity() : own_(ReadAffinity(0)) {}
  ~HostAffinity() { Unbind(); }
  HostAffinity(const HostAffinity&) = delete;
  HostAffinity& operator=(const HostAffinity&) = delete;

  // To be called now and then. Binds; and lets go for a moment from time to time, so that the
  // kernel can move it away from processors where others want to work.
  void Tick(uint64_t now_ns);

 private:
  void Unbind();

  const CpuMask own_;
  bool bound_ = false;
  uint64_t next_ns_ = 0;
};

// Of a recorded thread, which may end at any time.
class ThreadAffinity {
 public:
  explicit ThreadAffinity(pid_t thread) : thread_(thread) {}
  ThreadAffinity(const ThreadAffinity&) = delete;
  ThreadAffinity& operator=(const ThreadAffinity&) = delete;

  // What the thread is to see, once it has been bound.
  const CpuMask& mask() const { return mask_; }
  // Binds it to the processor that the calling host thread runs on, if it may run there.
  void Follow();
  // Gives it back what it had.
  void Release();
  // `thread`, which it made and which is not recorded, gets back what this one had.
  void Free(pid_t thread) const;
  // It has been given other processors.
  void NoteChange();
  // It has what `other` has: which made it, or whose number it has now.
  void TakeOver(const ThreadAffinity& other);

 private:
  const pid_t thread_;
  CpuMask mask_;
  bool chosen_ = false;  // by the program: to be left alone
  int bound_to_ = -1;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_AFFINITY_H_
