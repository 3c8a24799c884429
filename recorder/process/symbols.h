// Places in a program's code, and variables, as a user names them, and where they are in a process.
//
//   FUNCTION          printf, std::sort, ns::Class::method (without parameters); also `method` or
//                     `Class::method`, where no function has just this name
//   FUNCTION+OFFSET   decimal, or 0x...
//   FILE:FUNCTION     only in the module of this base name (or path)
//   0xADDRESS

#ifndef HINDSIGHT_RECORDER_PROCESS_SYMBOLS_H_
#define HINDSIGHT_RECORDER_PROCESS_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

struct CodePlace {
  std::string text;      // as it was given
  std::string file;      // empty: any
  std::string function;  // empty: `offset` is an address
  uint64_t offset = 0;
};

// kInvalidArgument, with the reason in one line.
absl::StatusOr<CodePlace> ParseCodePlace(absl::string_view text);

// The functions of the files that processes map, read when first asked for and kept.
// Not copyable. One thread.
class Symbols {
 public:
  Symbols();
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Where `place` is in a process with this map, ascending: functions of one name may be in
  // several modules, and in one. Empty: nowhere, now; its module may be mapped later. `root` is put
  // before every path of the map ("/proc/PID/root"). Functions that the dynamic linker chooses at
  // run time (STT_GNU_IFUNC) have no fixed address.
  std::vector<uint64_t> Find(const CodePlace& place, const MemoryMap& map, const std::string& root);

  // What the dynamic linker of a process calls after it has mapped something; empty: there is none.
  std::vector<uint64_t> LinkerHooks(const MemoryMap& map, const std::string& root);

  // kNotFound: no module of the map has the function; the message names those that are similar.
  absl::Status NotFound(const CodePlace& place, const MemoryMap& map, const std::string& root);

 private:
  class File;
  const File& FileOf(const MapRegion& region, const std::string& root);

  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<File>> files_;  // by device and inode
};

struct VariablePlace {
  uint64_t begin = 0;
  uint64_t end = 0;  // exclusive, above `begin`
};

// Where the variable `name` of the program or one of its libraries is, of all that have this name.
// By the symbols of the files in the map; `root`: as of Symbols::Find.
std::vector<VariablePlace> FindVariables(const std::string& name, const MemoryMap& map,
                                         const std::string& root);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_SYMBOLS_H_
