// Unicorn's library, loaded when its first function is called: most processes that are linked with
// the emulator never use it, and it takes several milliseconds to load.
//
// unicorn_library.cc defines the functions of <unicorn/unicorn.h> that are used here, each of which
// calls the library's own; others do not link. Whatever the library calls by a name that the
// program exports (float_helpers.h, fast_stores.h) is the program's.
//
// Any thread. Ends the process with a line on stderr if there is no such library.

#ifndef HINDSIGHT_EMULATOR_UNICORN_UNICORN_LIBRARY_H_
#define HINDSIGHT_EMULATOR_UNICORN_UNICORN_LIBRARY_H_

namespace hindsight {

// Now, if it is not loaded: who gives up the right to open files does so before.
void LoadUnicorn();
// The library's own `name`. Null: it has none.
void* FindInUnicorn(const char* name);
// The same; it must have one.
void* NeedInUnicorn(const char* name);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_UNICORN_LIBRARY_H_
