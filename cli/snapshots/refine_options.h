// What `hindsight refine` was asked for.

#ifndef HINDSIGHT_CLI_SNAPSHOTS_REFINE_OPTIONS_H_
#define HINDSIGHT_CLI_SNAPSHOTS_REFINE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/snapshot/capture_configuration.h"

namespace hindsight {

struct RefineChoice {
  std::string from;               // a snapshot's number
  std::string to;                 // likewise; empty: to the program's end
  std::string directory;          // of the new trace; empty: one is to be chosen
  std::string edits;              // a file of edits (monitor save edits); empty: none
  std::vector<std::string> keep;  // variables to compare: NAME, or ADDRESS,SIZE
  std::vector<std::string> set;   // VARIABLE=VALUE
  uint64_t tries = 1;
  uint64_t max_memory = 0;  // bytes, of copies not written yet; 0: the default
  bool keep_traces = false;
  bool record = false;  // a full recording instead of snapshots
  bool force = false;
  bool json = false;
  bool quiet = false;
  bool captures = false;  // `configuration` was asked for
  CaptureConfiguration configuration;
  // Of a recording only (cli/states/refine_recording.h).
  uint64_t count = 0;
  uint64_t every_instructions = 0;
  uint64_t max = 1000;
  std::vector<std::string> at, watch;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SNAPSHOTS_REFINE_OPTIONS_H_
