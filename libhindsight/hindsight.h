// Snapshots at points that a program names itself. C11 and C++; link with libhindsight.
//
// When nobody listens, a point is one load and one branch. Under `hindsight snap` a point that
// passes the capture configuration stops the whole process for some milliseconds, while its state
// is taken; the configuration changes between runs without compiling again.
//
// Everything here may be called from any thread, from signal handlers, and with any lock held; it
// allocates nothing and leaves errno alone. A child of fork does not speak for its parent.

#ifndef HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_H_
#define HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A key and a value that the configuration can ask for and that the snapshot shows. Borrowed for
// the call. Keys hold no '='.
struct hs_attribute {
  const char* key;
  const char* value;
};

// For the last parameter of hs_breakpoint: HS_ATTRIBUTES({"phase", "solve"}, {"rank", rank}).
// In C++ see hindsight.hpp.
#define HS_ATTRIBUTES(...) \
  ((const struct hs_attribute[]){__VA_ARGS__, {(const char*)0, (const char*)0}})

// Null while nobody listens. Set by the library, or by a listener that attaches to the process.
struct hs_control;
extern struct hs_control* hs_control;

// Whether somebody listens. What only prepares a point may depend on it.
static inline bool hs_listening(void) {
  return __builtin_expect(__atomic_load_n(&hs_control, __ATOMIC_RELAXED) != 0, 0);
}

// Whether a breakpoint of this kind would pass, as far as level, class and id decide: worth a
// question where its attributes are expensive to make.
bool hs_passes(int32_t level, uint32_t class_number, uint32_t id);

// The points below, once somebody listens. Call those below.
void hs_report_call(const char* label);
void hs_report_breakpoint(int32_t level, uint32_t class_number, uint32_t id, bool once,
                          const struct hs_attribute* attributes);
void hs_report_condition(const char* label);
void hs_report_assertion(const char* label);
void hs_report_exception(const char* label, const struct hs_attribute* attributes);

// A snapshot, whatever the configuration says of levels and classes. `label` may be null.
static inline void hs_snapshot(const char* label) {
  if (hs_listening()) hs_report_call(label);
}

// An offline breakpoint: a snapshot if the configuration lets it pass, by
//   level         how important it is: those below the configuration's level do not pass
//   class_number  what kind of point it is, numbers of the program's own choice
//   id            which point it is
//   attributes    a list that ends with {NULL, NULL}, or NULL
// With `once` only the first of all that pass with this class and id counts.
static inline void hs_breakpoint(int32_t level, uint32_t class_number, uint32_t id, bool once,
                                 const struct hs_attribute* attributes) {
  if (hs_listening()) hs_report_breakpoint(level, class_number, id, once, attributes);
}

#define HS_TEXT_OF_INNER(x) #x
#define HS_TEXT_OF(x) HS_TEXT_OF_INNER(x)

// A snapshot if `condition` holds. It is evaluated only while somebody listens.
#define HS_SNAPSHOT_IF(condition)                                             \
  do {                                                                        \
    if (hs_listening() && (condition))                                        \
      hs_report_condition(__FILE__ ":" HS_TEXT_OF(__LINE__) ": " #condition); \
  } while (0)

// A snapshot if `condition` does not hold; the program goes on. It is evaluated only while somebody
// listens: as with assert(3), nothing may depend on its side effects.
#define HS_ASSERT(condition)                                                  \
  do {                                                                        \
    if (hs_listening() && !(condition))                                       \
      hs_report_assertion(__FILE__ ":" HS_TEXT_OF(__LINE__) ": " #condition); \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif  // HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_H_
