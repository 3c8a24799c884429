#include "tracefmt/samples/copy_trace.h"

#include <fcntl.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/unique_fd.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

void CopyModules(const TraceReader& from, TraceWriter* to) {
  for (const auto& [index, module] : from.modules()) {
    const std::string path = module.stored
                                 ? absl::StrCat(from.directory(), "/modules/", module.hash)
                                 : std::string("/dev/null");
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(to->AddModule(module.path, file.get(), ~uint64_t{0}).ok());
  }
}

void CopyThread(const TraceReader& from, int32_t thread, const Alteration& alteration,
                TraceWriter* to) {
  for (const SegmentInfo& info : from.segments(thread)) {
    if (alteration.segment && !alteration.segment(thread, info.number)) return;
    const auto segment = from.LoadSegment(thread, info.number);
    CHECK(segment.ok());
    CHECK(to->BeginSegment(thread, info.number, info.first_count, info.first_sequence,
                           (*segment)->registers())
              .ok());
    for (Record record : (*segment)->records()) {
      if (alteration.record && !alteration.record(thread, info.number, &record)) continue;
      CHECK(to->Append(thread, record).ok());
    }
  }
}

void CopyKeyframe(const FullKeyframe& from, const Alteration& alteration, TraceWriter* to) {
  std::vector<TraceWriter::ThreadState> threads;
  for (const auto& state : from.threads()) {
    threads.push_back({state.thread, state.count, state.segment, state.registers});
  }
  CHECK(to->BeginFullKeyframe(from.number(), from.sequence(), threads, from.maps(), from.auxv())
            .ok());
  for (const uint64_t page : from.page_addresses()) {
    std::vector<uint8_t> bytes(kPageBytes);
    CHECK(from.ReadPage(page, absl::MakeSpan(bytes)).ok());
    if (alteration.page) alteration.page(from.number(), page, absl::MakeSpan(bytes));
    CHECK(to->AddPage(page, bytes).ok());
  }
  CHECK(to->FinishFullKeyframe().ok());
}

}  // namespace

void CopyTrace(const std::string& from, const std::string& to, const Alteration& alteration) {
  const auto reader = TraceReader::Open(from);
  CHECK(reader.ok());
  const TraceReader& trace = **reader;
  const auto writer = TraceWriter::Create(to, trace.manifest());
  CHECK(writer.ok());
  CopyModules(trace, writer->get());
  for (const int32_t thread : trace.threads()) CopyThread(trace, thread, alteration, writer->get());
  for (const auto& keyframe : trace.full_keyframes()) {
    CopyKeyframe(*keyframe, alteration, writer->get());
  }
  for (ProcessEvent event : trace.events()) {
    if (alteration.event && !alteration.event(&event)) continue;
    CHECK((*writer)->AppendEvent(event).ok());
  }
  CHECK((*writer)->Finish(trace.manifest()).ok());
}

}  // namespace hindsight
