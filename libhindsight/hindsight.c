// What happens at a point while somebody listens. See control.h for the protocol.
//
// Signal handlers call this, so there are no locks, no allocation, and system calls are made
// directly: errno stays, and none of them is a cancellation point.

#define _GNU_SOURCE
#include "libhindsight/hindsight.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libhindsight/control.h"

#if !defined(__linux__) || !defined(__x86_64__) || defined(__ILP32__)
#error "libhindsight is for Linux on x86-64"
#endif

struct hs_control* hs_control;

// For a listener that attaches: the layout that this program understands.
extern const uint32_t hs_control_version;
const uint32_t hs_control_version = HS_CONTROL_VERSION;

static const long kLookNs = 100 * 1000 * 1000;  // between two looks at the listener's life

// One arrival at a point.
struct report {
  uint32_t trigger;
  int32_t level;
  uint32_t class_number;
  uint32_t id;
  bool once;
  const char* label;                      // or null
  const struct hs_attribute* attributes;  // or null
};

static long system_call(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

static void futex_wait(uint32_t* word, uint32_t seen) {
  const struct timespec timeout = {0, kLookNs};
  system_call(SYS_futex, (long)word, FUTEX_WAIT, (long)seen, (long)&timeout);
}

static void futex_wake(uint32_t* word) { system_call(SYS_futex, (long)word, FUTEX_WAKE, 1, 0); }

static uint32_t load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // in the vDSO
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool same(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

// ---- What passes
// ---------------------------------------------------------------------------------

static bool in_ranges(const struct hs_range* ranges, uint32_t count, uint32_t number) {
  if (count == 0) return true;
  for (uint32_t i = 0; i < count && i < HS_RANGES; ++i) {
    if (ranges[i].first <= number && number <= ranges[i].last) return true;
  }
  return false;
}

static bool kind_passes(const struct hs_control* c, int32_t level, uint32_t class_number,
                        uint32_t id) {
  return level >= c->level && in_ranges(c->classes, c->class_count, class_number) &&
         in_ranges(c->ids, c->id_count, id);
}

static bool has(const struct hs_attribute* attributes, const struct hs_wanted* wanted) {
  if (attributes == NULL) return false;
  for (; attributes->key != NULL; ++attributes) {
    if (!same(attributes->key, wanted->key)) continue;
    if (wanted->any_value || (attributes->value && same(attributes->value, wanted->value)))
      return true;
  }
  return false;
}

// Whether one of the values wanted of wanted[i].key is there. Equal keys stand side by side.
static bool attributes_pass(const struct hs_control* c, const struct hs_attribute* attributes) {
  uint32_t i = 0;
  while (i < c->attribute_count && i < HS_ATTRIBUTES) {
    const char* key = c->attributes[i].key;
    bool found = false;
    for (; i < c->attribute_count && i < HS_ATTRIBUTES && same(c->attributes[i].key, key); ++i) {
      found = found || has(attributes, &c->attributes[i]);
    }
    if (!found) return false;
  }
  return true;
}

static bool filters_pass(const struct hs_control* c, const struct report* r) {
  if ((c->triggers >> r->trigger & 1) == 0) return false;
  if (r->trigger != HS_TRIGGER_POINT) return true;
  return kind_passes(c, r->level, r->class_number, r->id) && attributes_pass(c, r->attributes);
}

// ---- once
// ----------------------------------------------------------------------------------------

// Whether this point has passed before; with `remember` it has from now on. A table that is full
// remembers nothing more, and the point passes.
static bool passed_before(struct hs_control* c, const struct report* r, bool remember) {
  const uint64_t key = ~((uint64_t)r->class_number << 32 | r->id);
  if (key == 0) {
    return remember ? __atomic_exchange_n(&c->once_all_ones, 1, __ATOMIC_ACQ_REL)
                    : load(&c->once_all_ones);
  }
  const uint32_t start = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
  for (uint32_t i = 0; i < HS_ONCE_SIZE; ++i) {
    uint64_t* place = &c->once[(start + i) % HS_ONCE_SIZE];
    uint64_t there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (there == 0) {
      if (!remember) return false;
      if (__atomic_compare_exchange_n(place, &there, key, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
        return false;
      }
    }
    if (there == key) return true;
  }
  if (remember) __atomic_fetch_add(&c->once_overflows, 1, __ATOMIC_RELAXED);
  return false;
}

// ---- How often
// -----------------------------------------------------------------------------------

static bool counts(struct hs_control* c) {
  if (c->skip == 0 && c->stride <= 1) return true;
  const uint64_t n = __atomic_fetch_add(&c->passed, 1, __ATOMIC_RELAXED);
  return n >= c->skip && (c->stride <= 1 || (n - c->skip) % c->stride == 0);
}

// Whether the interval since the last one is over; with `begin` the next one begins.
static bool interval_over(struct hs_control* c, bool begin) {
  if (c->interval_ns == 0) return true;
  const uint64_t now = now_ns();
  uint64_t next = __atomic_load_n(&c->next_ns, __ATOMIC_RELAXED);
  if (now < next) return false;
  return !begin || __atomic_compare_exchange_n(&c->next_ns, &next, now + c->interval_ns, false,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// ---- Telling and waiting
// -------------------------------------------------------------------------

// Whether the listener lives; after its end nothing passes any more, and a point costs one load.
static bool listener_lives(struct hs_control* c) {
  const uint32_t guard = load(&c->guard);
  if ((guard & FUTEX_TID_MASK) != 0 && (guard & FUTEX_OWNER_DIED) == 0) return true;
  __atomic_store_n(&c->active, 0, __ATOMIC_RELEASE);
  struct hs_control* mine = c;  // unless another listener has come
  __atomic_compare_exchange_n(&hs_control, &mine, NULL, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return false;
}

// A slot that is free, taken; null: the listener is gone, or stopped listening. *round is the
// slot's.
static struct hs_slot* take_slot(struct hs_control* c, uint32_t* round) {
  while (listener_lives(c) && load(&c->active)) {
    const uint32_t freed = load(&c->freed);
    for (uint32_t i = 0; i < HS_SLOTS; ++i) {
      struct hs_slot* slot = &c->slots[i];
      uint32_t word = load(&slot->word);
      if (word % HS_SLOT_STATES != HS_SLOT_FREE) continue;
      if (__atomic_compare_exchange_n(&slot->word, &word, word + HS_SLOT_TAKEN, false,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        *round = word;
        return slot;
      }
    }
    futex_wait(&c->freed, freed);
  }
  return NULL;
}

// Appends `text` with its NUL. False: it does not fit, and nothing is appended.
static bool append(struct hs_slot* slot, uint32_t* size, const char* text) {
  uint32_t at = *size;
  for (;; ++text, ++at) {
    if (at == HS_TEXT_SIZE) return false;
    slot->text[at] = *text;
    if (*text == 0) break;
  }
  *size = at + 1;
  return true;
}

static void fill(struct hs_slot* slot, const struct report* r) {
  slot->trigger = r->trigger;
  slot->level = r->level;
  slot->class_number = r->class_number;
  slot->id = r->id;
  slot->is_cut = 0;
  uint32_t size = 0;
  for (const char* label = r->label; label && *label; ++label) {
    if (size == HS_TEXT_SIZE / 2) {
      slot->is_cut = 1;
      break;
    }
    slot->text[size++] = *label;
  }
  slot->label_size = size;
  for (const struct hs_attribute* a = r->attributes; a && a->key; ++a) {
    const uint32_t before = size;
    if (append(slot, &size, a->key) && append(slot, &size, a->value ? a->value : "")) continue;
    size = before;
    slot->is_cut = 1;
  }
  slot->attributes_size = size - slot->label_size;
}

static void tell_and_wait(struct hs_control* c, int32_t process, const struct report* r) {
  uint32_t round = 0;
  struct hs_slot* slot = take_slot(c, &round);
  if (slot == NULL) return;
  fill(slot, r);
  slot->process = process;
  slot->thread = (int32_t)system_call(SYS_gettid, 0, 0, 0, 0);
  slot->arrival = __atomic_fetch_add(&c->arrivals, 1, __ATOMIC_RELAXED);
  const uint32_t posted = round + HS_SLOT_POSTED;
  __atomic_store_n(&slot->word, posted, __ATOMIC_RELEASE);
  __atomic_fetch_add(&c->bell, 1, __ATOMIC_RELEASE);
  futex_wake(&c->bell);
  while (load(&slot->word) == posted && listener_lives(c)) futex_wait(&slot->word, posted);
}

// The recorder of this process sees the call; nobody answers it.
static void tell_recorder(const struct report* r) {
  struct hs_slot slot;
  fill(&slot, r);
  slot.word = slot.arrival = slot.unused = 0;
  slot.process = slot.thread = 0;  // the recorder knows who makes the call
  system_call(SYS_getpid, (long)HS_RECORDED_POINT, (long)&slot, (long)sizeof(slot), 0);
}

static void report(const struct report* r) {
  struct hs_control* c = __atomic_load_n(&hs_control, __ATOMIC_ACQUIRE);
  if (c == NULL) return;
  if (!load(&c->active)) {
    listener_lives(c);
    return;
  }
  // From the cheapest to the dearest; nothing is a system call before all of them agree.
  if (!filters_pass(c, r)) return;
  if (r->once && passed_before(c, r, false)) return;
  if (!interval_over(c, false) || !counts(c)) return;
  if (c->recorded) {
    if (r->once && passed_before(c, r, true)) return;
    if (interval_over(c, true)) tell_recorder(r);
    return;
  }
  const int32_t process = (int32_t)system_call(SYS_getpid, 0, 0, 0, 0);
  if (process != c->process && !c->children) return;
  if (!listener_lives(c)) return;
  if (r->once && passed_before(c, r, true)) return;
  if (!interval_over(c, true)) return;
  tell_and_wait(c, process, r);
}

// ---- What programs call
// --------------------------------------------------------------------------

bool hs_passes(int32_t level, uint32_t class_number, uint32_t id) {
  const struct hs_control* c = __atomic_load_n(&hs_control, __ATOMIC_ACQUIRE);
  return c != NULL && load(&c->active) && (c->triggers >> HS_TRIGGER_POINT & 1) != 0 &&
         kind_passes(c, level, class_number, id);
}

void hs_report_call(const char* label) {
  const struct report r = {.trigger = HS_TRIGGER_CALL, .label = label};
  report(&r);
}

void hs_report_breakpoint(int32_t level, uint32_t class_number, uint32_t id, bool once,
                          const struct hs_attribute* attributes) {
  const struct report r = {HS_TRIGGER_POINT, level, class_number, id, once, NULL, attributes};
  report(&r);
}

void hs_report_condition(const char* label) {
  const struct report r = {.trigger = HS_TRIGGER_CONDITION, .label = label};
  report(&r);
}

void hs_report_assertion(const char* label) {
  const struct report r = {.trigger = HS_TRIGGER_ASSERTION, .label = label};
  report(&r);
}

void hs_report_exception(const char* label, const struct hs_attribute* attributes) {
  const struct report r = {
      .trigger = HS_TRIGGER_EXCEPTION, .label = label, .attributes = attributes};
  report(&r);
}

// ---- Before main() and in children
// ---------------------------------------------------------------

// The file at `path`, mapped; null if it is none of ours, or not meant for this process.
static struct hs_control* map_control(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  struct stat status;
  void* mapped = MAP_FAILED;
  bool shared = false;
  if (fstat(fd, &status) == 0 && (size_t)status.st_size >= sizeof(struct hs_control)) {
    const int rights = PROT_READ | PROT_WRITE;
    mapped = mmap(NULL, sizeof(struct hs_control), rights, MAP_SHARED, fd, 0);
    shared = mapped != MAP_FAILED;
    // A recorder's is sealed.
    if (!shared) mapped = mmap(NULL, sizeof(struct hs_control), rights, MAP_PRIVATE, fd, 0);
  }
  close(fd);
  if (mapped == MAP_FAILED) return NULL;
  struct hs_control* c = mapped;
  const bool ours = c->magic == HS_CONTROL_MAGIC && c->version == HS_CONTROL_VERSION &&
                    c->size == sizeof(struct hs_control) && shared == !c->recorded;
  // A listener that does not know yet whom it listens to says 0.
  if (ours && (c->children || c->process == 0 || c->process == (int32_t)getpid())) {
    madvise(mapped, sizeof(struct hs_control), MADV_DONTDUMP);
    return c;
  }
  munmap(mapped, sizeof(struct hs_control));
  return NULL;
}

static void after_fork_in_child(void) {
  struct hs_control* c = hs_control;
  if (c != NULL && !c->children) hs_control = NULL;
}

// Early among the constructors, so that those of the program find the library ready.
__attribute__((constructor(101))) static void start(void) {
  const int saved = errno;
  const char* path = secure_getenv(HS_CONTROL_VARIABLE);
  if (path != NULL) hs_control = map_control(path);
  pthread_atfork(NULL, NULL, after_fork_in_child);
  errno = saved;
}
