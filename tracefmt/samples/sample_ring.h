// Small recordings that have lost their oldest parts: for golden files.

#ifndef HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_RING_H_
#define HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_RING_H_

#include <string>

#include "tracefmt/trace_reader.h"

namespace hindsight {

// A ring of the whole process, of three full keyframes. Writes it to `directory`, which must be
// empty or absent, as the next one does.
void WriteSampleRing(const std::string& directory);
// A ring by threads: in its older part a busy thread is missing, and a quiet one is there.
void WriteSampleRingByThread(const std::string& directory);

// What was dropped, what is there and what all of it contains, as text.
std::string DescribeRing(const TraceReader& trace);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SAMPLES_SAMPLE_RING_H_
