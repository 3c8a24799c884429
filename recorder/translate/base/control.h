// What the agent in a program and the recorder tell each other: one block of shared memory for each
// process.
//
// A thread that wants something fills its slot and waits for the answer:
//
//   kIdle --agent--> kPosted --agent, before it sleeps--> kAwaited
//     ^                 |                                    |
//     +----agent----- kAnswered <--------recorder------------+   (wakes the agent from kAwaited)
//
// The agent rings `doorbell` after it has posted, and wakes the recorder if that sleeps. Nothing
// the program could do here harms the recorder: it checks what it reads.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_BASE_CONTROL_H_
#define HINDSIGHT_RECORDER_TRANSLATE_BASE_CONTROL_H_

#include <stdint.h>

#include "recorder/translate/base/layout.h"

namespace hindsight {

enum class RequestKind : uint32_t {
  // Translate guest pc [0]. Result: [0] host address, 0 if there is no code that can be executed.
  kTranslate = 1,
  // Whatever was translated from [0] .. [1] is no longer so. No thread executes translated code
  // that begins there when the answer is there: the caller has seen to it.
  kInvalidate = 2,
  // What is the guest's state at host address [0]? Results: [0] 1 if known, [1] guest pc, [2]
  // adjust of the count, [3] the saved[] of SideEntry, 4 bytes.
  kRecover = 3,
  // cpuid with eax [0], ecx [1]. Results: eax, ebx, ecx, edx.
  kCpuid = 4,
  // A child of fork: process [0], as it knows itself, has memory file [1], inode [6], which is to
  // be its own. Its thread has ring [2], and was made by thread [3], in state [4], of process [5],
  // both as the recorder numbers them: not always the process whose memory file this is, but maybe
  // one that uses it (vfork). The upper half of [5] is `epoch` of the ControlBlock before it was
  // made. Results: [0] ForkAnswer, [1] the recorder's number of the child, 0 if that is not known,
  // [2] 1 if it is in a PID namespace below the recorder's.
  kFork = 5,
  // The thread is about to end, having executed [0] instructions; [1] is 1 if all its process does.
  kExit = 6,
  // The thread is about to execute a program: the recorder takes hold of it until it has.
  // Result: [0] 1 if it has. [1] of the request: 1 to let go again.
  kExec = 7,
  // Translate the one instruction at guest pc [0] apart from all others, with what it reads taken
  // from the view. Result: [0] host address, 0 if it cannot be.
  kTranslateOne = 8,
  // Result: what the table of indirect branches may say of guest pc [0] if flags are read from
  // there on (IndirectTo in layout.h); 0: nothing.
  kTranslateIndirect = 9,
  // What is the recorder's number of thread [0], as that knows itself, of process [1], as the
  // recorder numbers it? Result: [0], 0 if it is not known.
  kNumber = 10,
  // Others may store to the process's memory from now on. No thread executes translated code when
  // the answer is there: none of it is valid any more.
  kShareMemory = 11,
  // The thread is about to trace task [0], as it knows that: if it is recorded, the answer comes
  // when that has gone on without the agent, or could not within some seconds.
  kTraces = 12,
  // Descriptor [0] is a userfaultfd of the process, new, which the agent closes when the answer is
  // there. Result: [0] 1 if code is guarded by it.
  kGuard = 13,
  // The thread has opened a process's memory as a file: what it writes to it must not be guarded.
  kEndGuards = 14,
  // The thread has changed what is mapped in [0] .. [1], or somewhere, if [1] is 0. Result: [0] a
  // number for what is mapped there now, as HsCall has it; 0: nobody reads it. [1] 1 if some of it
  // may be executed.
  kReadMap = 15,
};

// What kFork has in the place of a descriptor if the memory is the parent's, for a while. Other
// negative numbers are errors: it could not be made.
inline constexpr int32_t kParentsMemory = -4096;

// Answers to kFork.
enum ForkAnswer : uint64_t { kForkNative = 0, kForkTranslated = 1, kForkRecorded = 2 };

// Of a process that another recorded one is about to trace:
//
//   kNo --recorder--> kWanted --agent--> kLeaving --recorder--> kAlone --agent--> kLeft
//    |                   +--recorder, which waits no longer--> kAlone
//    +--agent: it goes on without the agent for another reason--> kLeft
//
// The recorder wakes threads that wait in system calls by the agent's signal for orders only while
// kWanted: the agent's handlers are there at least until kAlone.
enum class Tracing : uint32_t { kNo = 0, kWanted = 1, kLeaving = 2, kAlone = 3, kLeft = 4 };

// Whether stores to the process's code can be noticed (guard/code_guard.h). The recorder says
// kWanted, the agent the rest.
enum class GuardState : uint32_t {
  kNone = 0,
  kWanted = 1,
  kOpening = 2,
  kOpen = 3,
  kImpossible = 4
};

// Of orders (orders.h): the si_code of their SIGILL. The kernel's own are above SI_ASYNCNL (-60).
inline constexpr int32_t kOrderCode = -0x4853;

enum class SlotState : uint32_t { kIdle = 0, kPosted = 1, kAwaited = 2, kAnswered = 3 };

inline constexpr int kRequestWords = 7;

struct alignas(128) RequestSlot {
  SlotState state;  // a futex
  RequestKind kind;
  int32_t thread_id;  // as the recorder numbers it
  uint32_t taken;     // of a slot that is no thread's: by this task; 0: by nobody
  uint64_t arguments[kRequestWords];
  uint64_t results[kRequestWords];
};
static_assert(sizeof(RequestSlot) == 128);

// A robust mutex of glibc's, which the recorder holds as long as it answers. If it ends otherwise
// than by giving it back, the kernel says so in the first word (FUTEX_OWNER_DIED), which a process
// finds in whatever PID namespace it is.
struct alignas(8) Lifeline {
  uint32_t word;
  uint8_t rest[36];
};

// A range of the program's memory that code was translated from.
struct ExecutedRange {
  uint64_t start, end;
};

// What cpuid answers to eax `leaf` and, unless it is kAnySubleaf, ecx `subleaf`.
struct CpuidEntry {
  uint32_t leaf, subleaf;
  uint32_t eax, ebx, ecx, edx;
};
inline constexpr uint32_t kAnySubleaf = ~uint32_t{0}, kMaxCpuidEntries = 32;

// Slots that are no thread's come after those of threads.
inline constexpr uint32_t kFirstStranger = kLastThread + 1, kSlotCount = kFirstStranger + 23;
inline constexpr uint32_t kMaxExecutedRanges = 1024;

struct ControlBlock {
  // The agent -> recorder.
  uint32_t boot_state;  // BootState
  int32_t boot_error;   // errno
  uint32_t doorbell;    // a futex
  // The recorder -> agent.
  uint32_t service_sleeps;
  uint32_t epoch;            // changes with what is known of the code
  int32_t recorder_process;  // 0: it is in a PID namespace above the program's
  uint32_t executed_range_count;
  uint32_t leave;  // 1: recording is over, and nobody answers any more: threads go on natively
  // 1: memory is exclusive: only the process's one thread stores to it, and the calls that it makes
  // (exclusive_memory.h). It is used directly then, without a view. Never again once it is 0.
  uint32_t exclusive;
  // The agent -> recorder: children that have been made and are still to ask for their memory file.
  uint32_t unborn;
  uint32_t attention;  // a futex: changes when a thread waits until its ring has been read
  // The recorder -> agent: a snapshot by this trigger is wanted; the thread that takes it says 0.
  uint32_t snapshot_wanted;
  uint32_t snapshots_over;  // 1: no more are
  // The agent -> recorder: those for which not all threads could be stopped.
  uint32_t snapshots_missed;
  // The agent -> recorder: 1: a child has found no slot free.
  uint32_t strangers_wait;
  // The recorder -> agent: changes whenever a full keyframe is wanted; each time is one try.
  uint32_t keyframe_wanted;
  Tracing tracing;
  GuardState guard;
  Lifeline lifeline;
  // The recorder -> agent: what programs ask when they start. All else is asked for (kCpuid).
  CpuidEntry cpuid[kMaxCpuidEntries];
  uint32_t cpuid_count;
  ExecutedRange executed_ranges[kMaxExecutedRanges];
  RequestSlot slots[kSlotCount];  // by the thread's number
};
static_assert(sizeof(ControlBlock) <= kControlBytes);

enum class BootState : uint32_t { kNotYet = 0, kRunning = 1, kFailed = 2 };

// Where in the boot an error was met is told by boot_error alone: it is for messages.

// Where the kernel has put the parts of the program, as /proc/PID/stat has them.
struct ImagePlaces {
  uint64_t start_code, end_code, start_data, end_data, start_brk;
  uint64_t arg_start, arg_end, env_start, env_end;
};

// What the recorder writes into the agent's image before it runs.
struct BootParameters {
  int32_t memory_file;            // descriptor, closed by the agent
  uint32_t translate;             // 0: run natively once all is in place
  uint32_t record;                // 1: and record
  uint32_t record_children;       // 1: and the processes that it makes
  int32_t process;                // as the recorder numbers it
  uint32_t order_instructions;    // 1: with what memory model `fence` orders (HS_ENTRY_LOCKED)
  uint64_t chaos_seed;            // 0: threads are not disturbed (chaos.h)
  uint64_t segment_instructions;  // of a recording; 0: it has one segment
  uint64_t segment_per_page;      // at least so many more for each page that the view holds
  uint64_t full_keyframe_instructions;  // of all threads, from one full keyframe to the next; 0:
                                        // there is one
  uint64_t look_instructions;           // a thread looks at least so often what is wanted
  uint64_t snapshot_signals;            // bit N - 1: before signal N is delivered
  uint32_t snapshot_points;             // 1: at points (libhindsight/control.h)
  uint64_t largest_module;              // of larger files the trace does not have the bytes
  uint64_t guest_pc;                    // the first instruction
  uint64_t guest_sp;
  uint64_t stack_end;  // of the initial stack's mapping
  uint64_t stack_protection;
  // Where XSAVE stores the parts of the extended registers, as the register file orders them; 0:
  // the processor does not have it. The second is the size of all that XSAVE stores.
  uint32_t extended_offsets[4];
  uint32_t xsave_bytes;
  ImagePlaces places;
};

// The image begins with it.
struct AgentImageHeader {
  uint64_t magic;
  uint64_t entry;  // address; expects nothing but a stack
  uint64_t data;   // address from which the image is written to; before it is code
  uint64_t end;    // address
  BootParameters* boot;
};
// Of what XSAVE stores, as far as it is the extended registers.
inline constexpr uint64_t kLargestExtendedArea = 4096;
inline constexpr uint64_t kAgentMagic = 0x31746e6567617368;

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_BASE_CONTROL_H_
