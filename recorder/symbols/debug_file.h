// Where a distribution keeps the symbols and line tables that it has taken out of an ELF file.

#ifndef HINDSIGHT_RECORDER_SYMBOLS_DEBUG_FILE_H_
#define HINDSIGHT_RECORDER_SYMBOLS_DEBUG_FILE_H_

#include <libelf.h>

#include <string>

namespace hindsight {

// By its build-id; empty: it has none. The file need not exist. Stateless; any thread.
std::string DebugFileOf(Elf* elf);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_DEBUG_FILE_H_
