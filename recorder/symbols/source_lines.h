// Which code belongs to a line of the source, by the line table (DWARF) of an ELF file or of its
// debug file.

#ifndef HINDSIGHT_RECORDER_SYMBOLS_SOURCE_LINES_H_
#define HINDSIGHT_RECORDER_SYMBOLS_SOURCE_LINES_H_

#include <cstdint>
#include <set>
#include <string>

namespace hindsight {

struct LineCode {
  // Addresses as linked: where the line's code begins, once for each function that has it and for
  // each place where such a function is inlined.
  std::set<uint64_t> addresses;
  bool known_source = false;       // some code is of this file
  uint32_t before = 0, after = 0;  // the nearest lines that have code; 0: there is none
};

// `source`: the name of the file, or the last parts of its path ("solver.c", "src/solver.c").
// `elf_path` need not be readable. Any thread.
LineCode FindLine(const std::string& elf_path, const std::string& source, uint32_t line);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_SOURCE_LINES_H_
