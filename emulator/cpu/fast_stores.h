// Lets stores take Unicorn's fast path.
//
// Unicorn looks at each store to a page it takes to be clean, for it might change translated code.
// Version 2.0.1 takes all pages to be clean, always, so each store costs some 60 ns instead of one
// or two. We need none of it: the Cpu keeps pages with translated code unwritable on the host and
// so notices itself. Therefore, when Unicorn enters a page into its TLB, we mark it as dirty, by
// putting a function of ours before Unicorn's: its library calls its own functions by name through
// the dynamic linker, which finds ours first. Where that does not happen, nothing changes but time.

#ifndef HINDSIGHT_EMULATOR_CPU_FAST_STORES_H_
#define HINDSIGHT_EMULATOR_CPU_FAST_STORES_H_

#include <cstdint>

namespace hindsight {

// TLB entries marked so far, by all instances. 0: stores are slow. Any thread.
uint64_t PagesWithFastStores();

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_FAST_STORES_H_
