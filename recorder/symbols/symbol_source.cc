#include "recorder/symbols/symbol_source.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

SymbolSource::SymbolSource(pid_t thread)
    : path_of([thread](const MapRegion& region) {
        return absl::StrCat("/proc/", thread, "/root", region.name);
      }),
      read_memory([thread](uint64_t address, absl::Span<uint8_t> out) {
        return ProcMemFile(thread).Read(address, out);
      }) {}

}  // namespace hindsight
