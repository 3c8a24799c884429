// The code of a recorded process at a place of its recording, for those who look for functions and
// lines in it: the files that the trace has, and the memory as it is there.
//
// Borrows trace and view, which moves. Not copyable. One thread at a time.

#ifndef HINDSIGHT_CLI_STATES_RECORDED_CODE_H_
#define HINDSIGHT_CLI_STATES_RECORDED_CODE_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/unique_fd.h"
#include "keyframes/inspect/process_view.h"
#include "recorder/process/memory_map.h"
#include "recorder/symbols/symbol_source.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class RecordedCode {
 public:
  RecordedCode(const TraceReader* trace, ProcessView* view) : trace_(trace), view_(view) {}
  RecordedCode(const RecordedCode&) = delete;
  RecordedCode& operator=(const RecordedCode&) = delete;

  MemoryMap Map() const { return MemoryMap(view_->Regions()); }
  // Borrows this.
  SymbolSource Source();

 private:
  std::string PathOf(const MapRegion& region);

  const TraceReader* const trace_;
  ProcessView* const view_;
  std::map<int32_t, UniqueFd> files_;  // by module: its bytes in memory of our own
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_RECORDED_CODE_H_
