// The control file: what a program linked with libhindsight and whoever captures its snapshots
// share. Plain C, used by both sides.
//
// The listener makes the file (a memfd, sealed against changes of its size), writes what passes,
// and sets `active`. The program maps all of it: from the path in the environment variable
// HINDSIGHT_CONTROL before main(), or because a listener that attached stored the address of its
// mapping in the variable `hs_control`.
//
//   program, at a point                              listener
//   filters, once, how often: does it pass?
//   slot: FREE -> TAKEN, what it is, -> POSTED
//   bell += 1, wakes the bell                        wakes, copies the slot
//   waits for the slot's word to change              stops the threads, takes the snapshot
//                                                    word: next round, FREE; wakes the word
//   goes on; does not touch the slot any more        bell of free slots += 1, wakes it
//
// The slot is freed by the listener, not by the thread that waits, so that a thread that never
// comes back from its wait (ended, or out of a signal handler by longjmp) loses none.
//
// Nobody waits for a listener that is gone: `guard` holds the id of one of the listener's threads,
// and is the only entry of that thread's list of robust futexes (set_robust_list(2)). However the
// thread ends, the kernel sets FUTEX_OWNER_DIED in the word. Whoever waits looks at it every 100
// milliseconds.
//
// A program that is recorded (`hindsight record`) finds a file that is sealed against writing, with
// `recorded` set. It maps that privately, so that nothing comes in that is not in the recording:
// what it counts there is its own. A point that passes makes one system call that does nothing,
//
//   getpid(HS_RECORDED_POINT, address of a struct hs_slot, sizeof(struct hs_slot))
//
// whose arguments the kernel does not look at; the recorder does, and takes the snapshot before the
// call has returned. There are no slots, and nobody waits.
//
// The program trusts the listener, which can do to it what it likes. The listener does not trust
// the program: it copies before it checks, and reads nothing back that it wrote itself. All fields
// that both sides touch at once are read and written by atomic operations.

#ifndef HINDSIGHT_LIBHINDSIGHT_CONTROL_H_
#define HINDSIGHT_LIBHINDSIGHT_CONTROL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HS_CONTROL_VARIABLE "HINDSIGHT_CONTROL"

#define HS_CONTROL_MAGIC UINT64_C(0x6c6f72746e6f4348)  // "HControl" read as a number

enum {
  HS_CONTROL_VERSION = 1,  // any change of the layout below
  HS_SLOTS = 64,           // threads that wait at once; the next ones wait for a slot
  HS_RANGES = 32,
  HS_ATTRIBUTES = 16,
  HS_TYPES = 16,
  HS_NAME_SIZE = 128,       // of keys, values and types, with the NUL
  HS_ONCE_SIZE = 4096,      // points that are remembered as having passed; a power of 2
  HS_TEXT_SIZE = 1024 - 48  // of label and attributes of one point
};

#define HS_RECORDED_POINT UINT64_C(0x746e696f70736823)

// What made a point pass; the values of a trace's event `snapshot`. The library has the first five.
enum hs_trigger {
  HS_TRIGGER_CALL = 1,
  HS_TRIGGER_POINT = 2,
  HS_TRIGGER_CONDITION = 3,
  HS_TRIGGER_ASSERTION = 4,
  HS_TRIGGER_EXCEPTION = 5
};

// The low bits of a slot's word; the others count its rounds.
enum { HS_SLOT_FREE = 0, HS_SLOT_TAKEN = 1, HS_SLOT_POSTED = 2, HS_SLOT_STATES = 4 };

struct hs_range {
  uint32_t first;
  uint32_t last;
};

// A point passes if, of each key that is wanted, it has one of the values that are wanted of it.
struct hs_wanted {
  char key[HS_NAME_SIZE];
  char value[HS_NAME_SIZE];
  uint32_t any_value;
};

// The text is the label, then key NUL value NUL of each attribute, none of which is cut.
struct hs_slot {
  uint32_t word;  // futex: round * HS_SLOT_STATES + state
  uint32_t trigger;
  int32_t level;
  uint32_t class_number;
  uint32_t id;
  int32_t process;   // as getpid() says
  int32_t thread;    // as gettid() says
  uint32_t arrival;  // the order of points that wait at once
  uint32_t label_size;
  uint32_t attributes_size;
  uint32_t is_cut;
  uint32_t unused;
  char text[HS_TEXT_SIZE];
};

struct hs_control {
  uint64_t magic;
  uint32_t version;
  uint32_t size;  // of this struct

  uint32_t guard;     // futex of the listener's life, see above; 0: it has ended in good order
  uint32_t active;    // 0: nothing passes
  int32_t process;    // whose points pass, as its getpid() says; 0: not known yet
  uint32_t children;  // not 0: every process's points pass

  // What passes. Written while `active` is 0.
  uint32_t triggers;  // bit 1 << hs_trigger
  int32_t level;      // the least that passes
  uint32_t class_count;
  uint32_t id_count;
  uint32_t attribute_count;
  uint32_t type_count;
  struct hs_range classes[HS_RANGES];  // none: all
  struct hs_range ids[HS_RANGES];      // none: all
  struct hs_wanted attributes[HS_ATTRIBUTES];
  char types[HS_TYPES][HS_NAME_SIZE];  // of exceptions, in C++'s spelling; "*" is every type
  uint64_t skip;
  uint64_t stride;
  uint64_t interval_ns;

  // Written by the program.
  uint64_t passed;   // points that the filters let pass, where skip or stride needs the number
  uint64_t next_ns;  // CLOCK_MONOTONIC: nothing passes before
  uint32_t arrivals;
  uint32_t bell;            // futex: a slot was posted
  uint32_t freed;           // futex: a slot was freed
  uint32_t once_overflows;  // points marked `once` that found no room in the table, and passed
  uint32_t once_all_ones;   // the point whose key is all ones, which the table cannot hold
  uint32_t recorded;        // not 0: see above. Written by the listener
  // The points marked `once` that have passed: ~(class << 32 | id), 0 is a free place.
  uint64_t once[HS_ONCE_SIZE];

  struct hs_slot slots[HS_SLOTS];
};

#ifdef __cplusplus
}
static_assert(sizeof(struct hs_slot) == 1024, "a slot is part of the layout");
#else
_Static_assert(sizeof(struct hs_slot) == 1024, "a slot is part of the layout");
#endif

#endif  // HINDSIGHT_LIBHINDSIGHT_CONTROL_H_
