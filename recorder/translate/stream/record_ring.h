// What a translated thread tells the recorder: entries in a ring of shared memory, in the order in
// which they happened to the thread. C, for the agent, which writes; the recorder reads.
//
//   0                    HS_RING_HEADER_BYTES              HS_RING_HEADER_BYTES + capacity
//   | struct HsRing      | entries, each a multiple of 8   |
//
// Positions count bytes since the beginning and are never taken modulo; an entry lies at its
// position modulo the capacity and does not reach over the end: HS_ENTRY_SKIP fills what is left
// there. One writer, one reader, no lock: head and tail are stored with release and read with
// acquire.
//
// Time. Entries of several threads are put in order by their time stamps (rdtsc), taken after what
// they report; that of HS_ENTRY_REACHED before. `writing` is not 0 (HsWriting) from before a time
// stamp is taken until its entry is in the ring: a reader that reads the clock, and then finds the
// ring empty and `writing` 0, knows that whatever comes has a later stamp. (Pages and lines, and
// entries without a stamp, may come in between, while an instruction whose stamp is announced is
// executed: they leave it as it is. What such an instruction itself has seen has its stamp.)
//
// Rings are used again: when a thread's last entry (HS_ENTRY_END) is in its ring, the next one is
// the beginning of another thread, which the entry of the call that made it tells of. It is
// written after that entry is in the maker's ring. Positions go on.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_RECORD_RING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_RECORD_RING_H_

#include <stdint.h>

#define HS_RING_HEADER_BYTES 4096
// From so many bytes on the writer starts over whenever it finds the ring empty: as long as the
// reader keeps up only this much of the memory is used, and stays in the processor's caches.
#define HS_RING_RESTART_BYTES (256 * 1024)

// The registers of a state as isa/registers.h numbers their words.
#define HS_WORD_RIP 16
#define HS_WORD_RFLAGS 17
#define HS_WORD_FS_BASE 18
#define HS_WORD_GS_BASE 19
#define HS_WORD_CS 20  // then ss, ds, es, fs, gs
#define HS_WORD_MXCSR 26
#define HS_WORD_FCW 27
#define HS_WORD_FSW 28
#define HS_WORD_FTW 29
#define HS_WORD_FOP 30
#define HS_WORD_FIP 31
#define HS_WORD_FDP 32
#define HS_WORD_ST 33
#define HS_WORD_XMM 49
#define HS_STATE_WORDS 81
// What follows are the extended registers, which are zero in most threads: the order of XSAVE's
// components is another.
#define HS_WORD_YMM_HIGH 81
#define HS_WORD_ZMM_HIGH 113
#define HS_WORD_ZMM16 177
#define HS_WORD_K 305
#define HS_ALL_STATE_WORDS 313
#define HS_EXTENDED_WORDS (HS_ALL_STATE_WORDS - HS_STATE_WORDS)

enum HsEntryKind {
  HS_ENTRY_SKIP = 0,     // nothing up to the ring's end: it starts over
  HS_ENTRY_BEGIN,        // HsState: the thread's recording begins in this state
  HS_ENTRY_PAGE,         // HsPage: the page enters the view; without a time, as it was in the
                         // segment before
  HS_ENTRY_LINES,        // HsLines: lines of a page in the view have other contents
  HS_ENTRY_CALL,         // HsCall: the transition at `count` is a system call; flags: number of the
                         // ring of the thread that it has made and that is recorded, 0: none
  HS_ENTRY_INSTRUCTION,  // HsPatch: ... an instruction that the agent has computed
  HS_ENTRY_CORRECTION,   // HsPatch: ... no instruction; registers are what the processor has
  HS_ENTRY_SIGNAL,       // HsSignal: ... the delivery of a signal
  HS_ENTRY_LOCKED,    // HsEntry: the instruction executed from the state `count` was an orderable
                      // event; whatever belongs to that state comes before
  HS_ENTRY_REFRESH,   // HsEntry: from now on memory is looked at that the next segment begins with
  HS_ENTRY_SEGMENT,   // HsState: a segment ends in this state, the next one begins; the view is
                      // empty from here on
  HS_ENTRY_END,       // HsState: the thread's recording ends in this state; flags: HsEndReason
  HS_ENTRY_REACHED,   // HsEntry: the thread is in the state `count`, and may stay there. With a
                      // time: the call that is next stands here in the order, if it succeeds
  HS_ENTRY_STATUS,    // HsStatus: its process is about to end like this
  HS_ENTRY_STANDING,  // HsStanding: as HS_ENTRY_SEGMENT, while all threads of the process stand
                      // still in such a state
  HS_ENTRY_EXEC,      // HsCall, without changes: the thread is about to execute a program. An
                      // HS_ENTRY_CALL of the same count: it has not
  HS_ENTRY_MAPPED,    // HsMapped: from the state `count` on the process uses this memory without
                      // telling: it holds what the map says, until something else is told.
                      // flags: HsMappedFlags
  HS_ENTRY_USED,      // HsUsed: of that memory, what it may have used in this segment. flags:
                      // HsUsedFlags
  HS_ENTRY_SHARED,    // HsEntry: from now on the thread tells what it sees of memory
  HS_ENTRY_HASH,      // HsHash: what the thread sees in the state `count`
};

enum HsMappedFlags {
  HS_MAPPED_BEGINS = 1,  // the segment begins; pages told before are as they were told
};

enum HsUsedFlags {
  HS_USED_ALL = 1,  // that and the entries before are all
};

// Why a thread's recording ends.
enum HsEndReason {
  HS_END_EXIT = 0,     // the thread ends
  HS_END_THREAD,       // it starts a thread, and has as many as can be recorded
  HS_END_EXEC,         // it executes another program
  HS_END_INSTRUCTION,  // it executes an instruction that cannot be recorded
  HS_END_CODE,         // it executes code that it has made itself
  HS_END_CALL,         // it makes a system call that cannot be recorded
  HS_END_MEMORY,       // there is no more room for what it uses
  HS_END_TRAP_FLAG,    // it is about to set the trap flag
  HS_END_ADDRESS,      // it maps memory at an address that has no view
  HS_END_TASK,         // it makes a process that shares its memory and its signal handlers
  HS_END_TRACED,       // another process is about to trace it
};

enum HsWriting {
  // An instruction is executed that changes memory before the view of its thread has it.
  HS_ACCESSING = 1,
  HS_WRITING,
};

struct HsRing {
  uint64_t head;  // position after the last entry; written by the agent
  uint64_t capacity;
  uint32_t writing;      // see Time; of HsWriting
  uint32_t holds_back;   // 1: entries that are committed stay after the head, for the agent alone
  uint64_t held_back;    // bytes of such entries
  uint32_t reserved[8];  // another line of the cache begins: that both write
  uint64_t tail;  // position of the first entry that is not done with; written by the recorder
  uint32_t tail_waiters;   // futex word of the agent that waits for the tail: 1 while it does
  uint64_t large_segment;  // 1 + the state that it begins in: it is to end soon; by the recorder
  int32_t thread;    // the recorder's number of who writes here; 0: that of the call that made it
  uint32_t awaited;  // 1: the agent waits until all is done with, not for room
  uint64_t most_behind;  // bytes that the tail may be behind by; 0: any; by the recorder
};

// Every entry begins with it. `size` is of all of it.
struct HsEntry {
  uint32_t size;
  uint16_t kind;
  uint16_t flags;
  uint64_t count;  // the state that it belongs to
  uint64_t time;   // rdtsc; 0 where the order among threads does not matter
};

// If the entry has room for HS_ALL_STATE_WORDS, the extended registers follow; otherwise they are
// zero.
struct HsState {
  struct HsEntry entry;
  uint64_t words[HS_STATE_WORDS];
};

struct HsStanding {
  struct HsEntry entry;
  uint64_t began;    // rdtsc: since when the first does; 0: others are to write theirs. When this
                     // entry is done with they go on
  uint64_t trigger;  // of a snapshot: HS_STAND_POINT, or as in the trace's event. 0: it is none
  uint64_t detail;   // of a point the address of its struct hs_slot, of a signal its number
  uint64_t words[HS_STATE_WORDS];  // as in HsState
};

// Snapshots' triggers: 1 is all that libhindsight's points say of themselves.
enum HsStandTrigger { HS_STAND_POINT = 1, HS_STAND_SIGNAL = 6 };

struct HsPage {
  struct HsEntry entry;
  uint64_t host;  // 0; or translated code at this address is about to use the page: the state is
                  // entry.count plus the `adjust` of that place (SideEntry)
  uint64_t address;
  uint8_t bytes[4096];
};

// Lines that the thread of ring `ring` sees in whole just as they are; 0: there is no such thread.
struct HsShown {
  uint64_t ring;
  uint64_t lines;
};
#define HS_MOST_SHOWN 3

struct HsLines {
  struct HsEntry entry;
  uint64_t host;     // as in HsPage
  uint64_t address;  // of the page
  uint64_t mask;     // bit i: line i follows in `bytes`, 64 bytes each
  uint64_t known;    // bit i: that is what another recorded thread sees there: no change of memory
  struct HsShown shown[HS_MOST_SHOWN];  // some of these threads
  uint8_t bytes[];
};

// Who is killed while it tells what a segment begins with has not told anything false: pages that
// are not as the map says come first. An empty range announces them.
struct HsMapped {
  struct HsEntry entry;
  uint64_t start, end;  // whole pages
};

struct HsPageRun {
  uint64_t start, end;  // whole pages
};

struct HsUsed {
  struct HsEntry entry;
  uint64_t size;  // runs, ascending
  struct HsPageRun runs[];
};

// Of memory within a page.
struct HsHash {
  struct HsEntry entry;
  uint64_t address;
  uint64_t bytes;
  uint64_t hash;  // XXH3-64
};

// Registers that get other values: words of the register file, ascending.
struct HsChange {
  uint64_t word;
  uint64_t value;
};

struct HsPatch {
  struct HsEntry entry;
  uint64_t size;  // changes
  struct HsChange changes[];
};

struct HsCall {
  struct HsEntry entry;
  uint64_t number;  // rax; the kernel looks at its lower half
  uint64_t arguments[6];
  uint64_t clone_flags;  // of one that makes a task, as clone(2) would have them; else 0
  uint64_t map_read;     // of one that may change the memory map: answer to kReadMap; 0: the thread
                         // waits until the recorder has read it
  uint64_t size;         // changes
  struct HsChange changes[];
};

struct HsSignal {
  struct HsEntry entry;
  uint64_t signal;
  uint8_t siginfo[128];
  uint64_t size;  // changes
  struct HsChange changes[];
};

struct HsStatus {
  struct HsEntry entry;
  uint64_t status;  // as wait(2) reports it
};

static inline uint8_t* HsRingAt(struct HsRing* ring, uint64_t position) {
  return (uint8_t*)ring + HS_RING_HEADER_BYTES + position % ring->capacity;
}

static inline void HsRingAdvance(struct HsRing* ring, uint64_t bytes) {
  if (ring->holds_back) {
    ring->held_back += bytes;
  } else {
    __atomic_store_n(&ring->head, ring->head + bytes, __ATOMIC_RELEASE);
  }
}

// What is held back is there for the reader, all at once.
static inline void HsRingPublish(struct HsRing* ring) {
  const uint64_t head = ring->head + ring->held_back;
  ring->held_back = 0;
  __atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
}

// Where the next entry of `size` bytes (a multiple of 8, at most an eighth of the capacity) is to
// be written; 0 while there is no room. What is held back has room already.
static inline struct HsEntry* HsRingReserve(struct HsRing* ring, uint32_t size) {
  uint64_t head = ring->head + ring->held_back;
  const uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
  const uint64_t offset = head % ring->capacity;
  const uint64_t to_end = ring->capacity - offset;
  // With size <= offset there is room at the beginning, however far away the end is.
  const int restart = head == tail && offset >= HS_RING_RESTART_BYTES && size <= offset;
  const int skips = to_end < size || restart;
  const uint64_t needed = skips ? to_end + size : size;
  if (head + needed - tail > ring->capacity) return 0;
  const uint64_t most = __atomic_load_n(&ring->most_behind, __ATOMIC_RELAXED);
  if (most != 0 && head != tail && head + size - tail > most && !ring->holds_back) return 0;
  if (skips) {
    // Only its first 8 bytes are there for certain.
    struct HsEntry* const skip = (struct HsEntry*)HsRingAt(ring, head);
    skip->size = (uint32_t)to_end;
    skip->kind = HS_ENTRY_SKIP;
    skip->flags = 0;
    HsRingAdvance(ring, to_end);
    head += to_end;
  }
  struct HsEntry* const entry = (struct HsEntry*)HsRingAt(ring, head);
  entry->size = size;
  entry->flags = 0;
  return entry;
}

// The entry that was reserved is complete. Returns the position after it: done with once the tail
// is there.
static inline uint64_t HsRingCommit(struct HsRing* ring) {
  const uint64_t position = ring->head + ring->held_back;
  const uint32_t size = ((const struct HsEntry*)HsRingAt(ring, position))->size;
  HsRingAdvance(ring, size);
  return position + size;
}

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_RECORD_RING_H_
