// How the files and the memory of a process are read in which places are looked for.
//
// A value. What its functions borrow must outlive it.

#ifndef HINDSIGHT_RECORDER_SYMBOLS_SYMBOL_SOURCE_H_
#define HINDSIGHT_RECORDER_SYMBOLS_SYMBOL_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

struct SymbolSource {
  using PathOf = std::function<std::string(const MapRegion& region)>;
  using ReadMemory = std::function<bool(uint64_t address, absl::Span<uint8_t> out)>;

  SymbolSource(PathOf path, ReadMemory memory)
      : path_of(std::move(path)), read_memory(std::move(memory)) {}
  // A live process, by one of its threads.
  SymbolSource(pid_t thread);  // NOLINT(google-explicit-constructor): the thread is what is meant

  // By what path the file that a region maps can be opened here; it need not exist.
  PathOf path_of;
  // False: not all of it is there.
  ReadMemory read_memory;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_SYMBOL_SOURCE_H_
