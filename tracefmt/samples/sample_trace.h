// A small recording with something of everything, always the same: for the golden file, the
// fuzzer's seeds and the hex dump in docs/trace-format.md.

#ifndef HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_TRACE_H_
#define HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_TRACE_H_

#include <string>

#include "tracefmt/manifest.h"
#include "tracefmt/records.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

Manifest SampleManifest();
RegisterWords SampleRegisters(uint64_t seed = 0);

// Writes it to `directory`, which must be empty or absent. Aborts on error.
void WriteSampleTrace(const std::string& directory);

// Everything a reader has to tell about a trace, as text, but for sizes of files: they depend on
// the version of zstd.
std::string Describe(const TraceReader& trace);
// The same of all processes of a recording; of those that cannot be opened, only how many.
std::string DescribeRecording(const std::string& directory);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_TRACE_H_
