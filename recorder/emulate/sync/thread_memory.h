// Keeps a thread's view up to date with what was stored in its process's memory by others than its
// own emulated instructions: by the kernel in its system calls and signals, by instructions that
// the thread executed itself, and by other threads and their calls.
//
//   this thread's call, signal, step --> Resync --> pager: pages compared or imported
//                                           |
//                                           +-----> other threads: NoteEffectsOfOther
//                                                   they look at their next turn (TakeChanges)
//
// Borrows everything it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_THREAD_MEMORY_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_THREAD_MEMORY_H_

#include <cstdint>
#include <random>
#include <vector>

#include "isa/registers.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/thread/call_in_flight.h"
#include "recorder/emulate/thread/kernel_words.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/output_trust.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// Who else stores to the process's memory: known for all its threads together.
class StoresOfOthers {
 public:
  virtual ~StoresOfOthers() = default;
  // Others than its threads may write to its memory at any time.
  virtual bool WrittenElsewhere() = 0;
  // What the kernel has stored for threads that have ended, or other processes have, since the last
  // time this was asked.
  virtual std::vector<MemoryRange> TakeWritten() = 0;
  // This thread's call had these effects: what other threads have to look at.
  virtual void ShareEffects(const SyscallOutputs& effects) = 0;
  // Whether memory is changed only by the process itself and by its calls as the table of outputs
  // says; and that it is not from now on.
  virtual bool TrustsOutputs() = 0;
  virtual void StopTrustingOutputs() = 0;
  // Whether a recorded process has written to the memory of one, itself perhaps, in a way that is
  // not tracked; and that one has.
  virtual bool UntrackedWrites() = 0;
  virtual void NoteUntrackedWrites() = 0;
};

class ThreadMemory {
 public:
  // `seed`: of the random choice of calls that are probed.
  ThreadMemory(const Tracee* tracee, ProcessPager* pager, const KernelWords* words,
               StoresOfOthers* others, uint64_t seed)
      : tracee_(tracee), pager_(pager), words_(words), others_(others), random_(seed) {}
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;

  // Reads the process's memory.
  ReadMemory Reader() const;
  // What the kernel has stored for the signal whose handler begins with these registers.
  SyscallOutputs OutputsOfFrame(const RegisterFile& handler) const;

  // After the thread has run in the process, or others have. False if memory was found changed in
  // pages that `effects` do not name.
  bool Resync(SyscallOutputs effects, ProcessPager::Compare compare = ProcessPager::Compare::kAll);
  // After `call` has returned. False as above: from then on outputs are not trusted.
  bool ResyncAfterCall(const CallInFlight& call, SyscallOutputs outputs);
  // After the thread itself has executed the instruction at before.rip, which may have stored.
  void ResyncAfterStep(const RegisterFile& before);
  // `call` has returned, or was interrupted: notes whether outputs are trusted from now on. True
  // if its own are.
  bool NoteCall(const CallInFlight& call, const SyscallOutputs& outputs);
  // After the thread has run in the process where nothing else can have changed memory: on which
  // processor that was the kernel has stored.
  void ResyncRseq();
  // At the beginning of a turn: takes what others have done since the last one.
  // `call_returned`: the call that the thread waited in has, and is not logged yet: then changes
  // are taken by the Resync after it.
  void TakeChanges(bool call_returned);

  // Another thread's call had these effects.
  void NoteEffectsOfOther(const SyscallOutputs& effects) { effects_of_others_.Add(effects); }
  // Another process may have written anywhere.
  void NoteUnknownWrites() { effects_of_others_.known = false; }

 private:
  SyscallOutputs OutputsOfStep(const RegisterFile& before) const;
  void LookAtOthers();
  FileKind KindOfFileOf(const CallInFlight& call) const;
  ProcessPager::Compare ComparedAfter(const CallInFlight& call, const SyscallOutputs& outputs);

  const Tracee* const tracee_;
  ProcessPager* const pager_;
  const KernelWords* const words_;
  StoresOfOthers* const others_;
  std::minstd_rand random_;
  SyscallOutputs effects_of_others_;  // since the last turn, for pages not in use
  bool changes_postponed_ = false;    // effects_of_others_ are to be taken by the next Resync
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_THREAD_MEMORY_H_
