// Writes the entries of one thread into its ring, and waits where there is no room.
//
// Runs inside the program: no library, no allocation, general registers only. The owner of the ring
// alone, one call at a time.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_ENTRY_WRITER_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_ENTRY_WRITER_H_

#include <stdint.h>

#include "recorder/translate/stream/record_ring.h"

namespace hindsight {

// The general registers of a state, by hardware encoding number, and what else no FXSAVE has.
struct GuestState {
  uint64_t gpr[16];
  uint64_t rip, rflags;
  uint64_t fs_base, gs_base;
  uint64_t selectors[6];  // cs, ss, ds, es, fs, gs
  alignas(16) uint8_t fxsave[512];
  // Whether the extended registers are told; they are, once any has been other than zero.
  bool has_extended;
  uint64_t extended[HS_EXTENDED_WORDS];
};

// A system call that was made.
struct GuestCall {
  uint64_t number;
  uint64_t arguments[6];
  uint64_t result;
  uint64_t next_rip;
  uint64_t rflags;
  // Of a call that makes a task: the flags, and the ring of a thread that is recorded.
  uint64_t clone_flags;
  uint16_t ring;
  uint64_t map_read;  // as in HsCall
  uint64_t time;      // that of TakeTime; 0: now
};

class EntryWriter {
 public:
  // Nobody reads the ring any more.
  using IsAbandoned = bool (*)();

  // `is_abandoned` is asked when the recorder is waited for in vain; may be null. `attention`: a
  // futex by which the recorder is told that it is waited for; may be null.
  // Requires: the ring's capacity is set, and it has no other writer any more.
  void Init(HsRing* ring, IsAbandoned is_abandoned = nullptr, uint32_t* attention = nullptr);

  // An entry of this kind, to be filled in and committed. `size`: of all of it, in bytes; rounded
  // up to a multiple of 8.
  HsEntry* Begin(HsEntryKind kind, uint64_t count, uint64_t size);
  void Commit();
  // Of what others must be able to put in order: the time stamp is taken here.
  HsEntry* BeginTimed(HsEntryKind kind, uint64_t count, uint64_t size);
  void CommitTimed();
  // The time of what has just been read from memory. An entry that reports it must follow, or
  // CancelSeen. May be called between AnnounceTime, or TakeTime, and the entry that follows there.
  struct Seen {
    uint64_t time;
    uint32_t announced;  // HsRing::writing before
  };
  Seen TakeSeen();
  // Commits `entry`, that of Begin.
  void CommitSeen(HsEntry* entry, const Seen& seen);
  void CancelSeen(const Seen& seen);
  // The time of what has just happened; an entry that has it must follow.
  uint64_t TakeTime();
  // The same in two steps, between which an instruction with a LOCK prefix is executed: that makes
  // the first step seen. If nothing has happened, no entry follows: CancelTime.
  void AnnounceTime() { __atomic_store_n(&ring_->writing, HS_ACCESSING, __ATOMIC_RELAXED); }
  uint64_t TakeAnnouncedTime();
  void CancelTime() { __atomic_store_n(&ring_->writing, 0, __ATOMIC_RELEASE); }
  // Whether the recorder wants the segment that began in state `begun` to end, as it has much.
  bool IsLarge(uint64_t begun) const {
    return __atomic_load_n(&ring_->large_segment, __ATOMIC_RELAXED) == begun + 1;
  }
  // From here on entries are for the recorder only together, at Publish: who is killed before that
  // has done none of it. 160 KB have room for certain (an eighth of a small ring); where there is
  // no more, those that are complete are published.
  void HoldBack();
  void Publish();
  // Waits until the recorder is done with all that was committed, held back or not.
  void AwaitRecorder();

  // kBegin and kSegment.
  void State(HsEntryKind kind, uint64_t count, const GuestState& state);
  // As in HsStanding.
  struct Stand {
    uint64_t began, trigger, detail;
  };
  void Standing(uint64_t count, const GuestState& state, const Stand& stand);
  // The call has led to state count + 1. `changes`: registers beside those of each call, ascending,
  // none of them a general register.
  void Call(uint64_t count, const GuestCall& call, const HsChange* changes, uint64_t size);
  // A program is about to be executed. If it is not, another entry of this state follows.
  void Exec(uint64_t count, const GuestCall& call);
  // The same for a call that changes any register: the state it has led to.
  void CallTo(uint64_t count, const GuestCall& call, const GuestState& after);
  // A signal was delivered, which has led to this state. `siginfo`: 128 bytes.
  void Signal(uint64_t count, int32_t signal, const uint8_t* siginfo, const GuestState& after);
  // The instruction executed from this state happened at `time`, that of TakeTime.
  void Locked(uint64_t count, uint64_t time);
  // Where translated code may write more of these: the ring's head must be below `limit`, and the
  // entry's address is the head plus `bias`. Good until the recording ends: later ones say more.
  struct LockedRoom {
    uint64_t limit = 0, bias = 0;
  };
  LockedRoom RoomForLocked() const;
  // The thread is in this state, and about to make a system call. `timed`: one that stands here in
  // the order of threads.
  void Reached(uint64_t count, bool timed);
  // The thread sees bytes of this hash at [address, address + bytes), within a page.
  void Hash(uint64_t count, uint64_t address, uint64_t bytes, uint64_t hash);
  // The process ends like this, as wait(2) reports it.
  void Status(uint64_t count, uint64_t status);
  // The last entry. `reason`: enum HsEndReason.
  void End(uint64_t count, uint16_t reason, const GuestState& state);
  // kInstruction, kCorrection. `changes` are ascending.
  void Patch(HsEntryKind kind, uint64_t count, const HsChange* changes, uint64_t size);
  // An instruction that may have changed any register has led to `after`. `before`: all words
  // before it, of HS_ALL_STATE_WORDS, of which those that it has not changed need not be told;
  // null: that is not known.
  void Step(uint64_t count, const GuestState& after, const uint64_t* before = nullptr);
  // The registers that the processor may compute otherwise than a replay: the flags, and those of
  // the floating point units that stick or only say where.
  void Correction(uint64_t count, const GuestState& state);

 private:
  HsEntry* Reserve(uint64_t size);
  void AwaitTail(uint64_t position, uint32_t size);
  void AskForAttention() const;

  HsRing* ring_ = nullptr;
  IsAbandoned is_abandoned_ = nullptr;
  uint32_t* attention_ = nullptr;
};

// The words of the register file but for the extended registers, HS_STATE_WORDS of them.
void ToStateWords(const GuestState& state, uint64_t* words);
// The same with the extended registers if the state has them; how many there are. Room for
// HS_ALL_STATE_WORDS.
uint64_t ToAllStateWords(const GuestState& state, uint64_t* words);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_ENTRY_WRITER_H_
