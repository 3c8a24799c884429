// Where the places that users name (code_place.h) are in a process, and variables.

#ifndef HINDSIGHT_RECORDER_SYMBOLS_SYMBOLS_H_
#define HINDSIGHT_RECORDER_SYMBOLS_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "recorder/process/memory_map.h"
#include "recorder/symbols/code_place.h"
#include "recorder/symbols/symbol_source.h"

namespace hindsight {

// The functions and lines of the files that processes map, read when first asked for and kept.
// `source` is of the process that `map` is of; it may be one of its threads.
// Not copyable. One thread.
class Symbols {
 public:
  Symbols();
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  struct Found {
    // Ascending. Empty: nowhere, now; its module may be mapped later.
    std::vector<uint64_t> addresses;
    // Functions that the dynamic linker calls to choose between several (STT_GNU_IFUNC).
    // `addresses` has what they choose as the process is now: once one is called it may be
    // something else, since before that they may not know the processor.
    std::vector<uint64_t> choosers;
  };
  // Functions of one name may be in several modules, and in one.
  Found Find(const CodePlace& place, const MemoryMap& map, const SymbolSource& source);

  // What the dynamic linker of a process calls after it has mapped something; empty: there is none.
  std::vector<uint64_t> LinkerHooks(const MemoryMap& map, const SymbolSource& source);

  // kNotFound: no module of the map has the place; the message names those that are similar.
  absl::Status NotFound(const CodePlace& place, const MemoryMap& map, const SymbolSource& source);

 private:
  class File;
  File& FileOf(const MapRegion& region, const SymbolSource& source);
  absl::Status LineNotFound(const CodePlace& place, const MemoryMap& map,
                            const SymbolSource& source);

  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<File>> files_;  // by device and inode
};

struct VariablePlace {
  uint64_t begin = 0;
  uint64_t end = 0;  // exclusive, above `begin`
};

// Where the variable `name` of the program or one of its libraries is, of all that have this name.
// By the symbols of the files in the map; `root` is put before every path of the
// map ("/proc/PID/root").
std::vector<VariablePlace> FindVariables(const std::string& name, const MemoryMap& map,
                                         const std::string& root);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_SYMBOLS_H_
