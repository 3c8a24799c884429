// Lets stores take Unicorn's fast path.
//
// Unicorn checks each store to a page it considers clean, since it might change translated code.
// Version 2.0.1 always considers all pages clean, so each store costs some 60 ns instead of one or
// two. We do not need the check: the Cpu keeps pages with translated code unwritable on the host.
// Therefore, when Unicorn enters a page into its TLB, we mark it as dirty, by interposing one of
// its functions: its library calls its own functions by name through the dynamic linker, which
// finds ours first. Where that does not happen, stores are slow, and nothing else changes.

#ifndef HINDSIGHT_EMULATOR_UNICORN_FAST_STORES_H_
#define HINDSIGHT_EMULATOR_UNICORN_FAST_STORES_H_

#include <cstdint>

namespace hindsight {

// TLB entries marked so far, by all instances. 0: stores are slow. Any thread.
uint64_t PagesWithFastStores();

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_FAST_STORES_H_
