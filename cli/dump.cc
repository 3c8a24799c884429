// hindsight dump: the records of a trace as text.

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/info/record_text.h"

namespace hindsight {
namespace {

struct DumpOptions {
  int32_t thread = 0;
  bool json = false;
  bool events = true;
  RecordTextOptions text;
};

bool DumpEvents(const TraceReader& trace, const DumpOptions& options) {
  if (!options.json && !Print("events\n")) return false;
  for (const ProcessEvent& event : trace.events()) {
    if (options.thread != 0 && event.thread != 0 && event.thread != options.thread) continue;
    const std::string line =
        options.json ? JsonLine(EventJson(event)) : absl::StrCat("  ", EventText(event), "\n");
    if (!Print(line)) return false;
  }
  return true;
}

bool DumpSegmentHead(const SegmentInfo& info, const DumpOptions& options) {
  if (options.json) {
    Json json;
    json["thread"] = info.thread;
    json["segment"] = info.number;
    json["count"] = info.first_count;
    json["sequence"] = info.first_sequence;
    json["bytes"] = info.file_bytes;
    return Print(JsonLine(json));
  }
  return Print(absl::StrFormat("thread %d segment %d count %d sequence %X bytes %d\n", info.thread,
                               info.number, info.first_count, info.first_sequence,
                               info.file_bytes));
}

bool DumpRecord(const Record& record, const DumpOptions& options) {
  return Print(options.json ? JsonLine(RecordJson(record, options.text))
                            : absl::StrCat("  ", RecordText(record, options.text), "\n"));
}

// A segment that cannot be read is reported on stderr, and skipped.
int DumpSegments(const TraceReader& trace, int32_t thread, const DumpOptions& options) {
  int exit_status = 0;
  for (const SegmentInfo& info : trace.segments(thread)) {
    if (!DumpSegmentHead(info, options)) return kExitFailure;
    auto segment = trace.LoadSegment(thread, info.number);
    if (!segment.ok()) {
      exit_status = Failure(segment.status());
      continue;
    }
    for (const Record& record : (*segment)->records()) {
      if (!DumpRecord(record, options)) return kExitFailure;
    }
    if (!(*segment)->damage().ok()) exit_status = Failure((*segment)->damage());
  }
  return exit_status;
}

}  // namespace

int DumpCommand(Arguments arguments) {
  DumpOptions dump;
  TraceChoice choice;
  Options options("dump [TRACE] [options]",
                  "Prints the process-level events of a recording, then the records of its "
                  "threads, segment by\nsegment. Numbers before a record are instruction counts.");
  AddTraceOptions(&options, &choice);
  options.Add("thread", &dump.thread, "T", "Only this thread; 0: all.");
  options.Add("events", &dump.events, "", "Print the events too. --noevents leaves them out.");
  options.Add("contents", &dump.text.contents, "",
              "Show the bytes of imported lines, and all of the ordered instructions.");
  options.Add("json", &dump.json, "", "One JSON object per line.");
  int exit_status = 0;
  auto parsed = ParseOrExit("dump", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  auto trace = OpenTraceOperand("dump", *parsed, choice, &exit_status);
  if (trace == nullptr) return exit_status;
  std::vector<int32_t> threads = trace->threads();
  if (dump.thread != 0) {
    if (std::find(threads.begin(), threads.end(), dump.thread) == threads.end()) {
      return Failure(absl::NotFoundError(
          absl::StrCat(trace->directory(), ": the trace has no thread ", dump.thread)));
    }
    threads = {dump.thread};
  }
  if (dump.events && !DumpEvents(*trace, dump)) return kExitFailure;
  for (int32_t thread : threads) {
    exit_status = std::max(exit_status, DumpSegments(*trace, thread, dump));
  }
  return exit_status;
}

}  // namespace hindsight
