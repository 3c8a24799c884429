#include "keyframes/verify/verify_totals.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

absl::Status Compare(const std::string& where, const char* what, uint64_t found,
                     uint64_t recorded) {
  if (found == recorded) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(where, ": has ", found, " ", what, ", recorded were ", recorded));
}

absl::Status CheckThread(const TraceReader& trace, const ThreadTotals& totals,
                         const std::map<int32_t, ThreadContents>& threads) {
  const std::string where = absl::StrCat(trace.directory(), "/threads/", totals.thread);
  RETURN_IF_ERROR(
      Compare(where, "segments", trace.segments(totals.thread).size(), totals.segments));
  const auto contents = threads.find(totals.thread);
  const ThreadContents found = contents == threads.end() ? ThreadContents() : contents->second;
  RETURN_IF_ERROR(Compare(where, "records", found.records, totals.records));
  if (found.end_count == totals.end_count) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(where, ": ends at count ", found.end_count,
                                          ", recorded was ", totals.end_count));
}

}  // namespace

std::string ReasonForNoTotals(const Manifest& manifest) {
  switch (manifest.state) {
    case TraceState::kRecording:
      return "it is being recorded: what comes next is not known";
    case TraceState::kInterrupted:
      return "the recording was interrupted: whether something is missing at its end is not known";
    case TraceState::kComplete:
      break;
  }
  if (manifest.totals.has_value()) return "";
  return "an older version recorded it: whether something is missing is not known";
}

absl::Status CheckTotals(const TraceReader& trace,
                         const std::map<int32_t, ThreadContents>& threads) {
  const TraceTotals& totals = *trace.manifest().totals;
  RETURN_IF_ERROR(
      Compare(trace.directory(), "threads", trace.threads().size(), totals.threads.size()));
  for (const ThreadTotals& thread : totals.threads) {
    RETURN_IF_ERROR(CheckThread(trace, thread, threads));
  }
  RETURN_IF_ERROR(Compare(trace.directory() + "/full", "full keyframes",
                          trace.full_keyframes().size(), totals.full_keyframes));
  RETURN_IF_ERROR(
      Compare(trace.directory() + "/events", "events", trace.events().size(), totals.events));
  return Compare(trace.directory() + "/modules", "modules", trace.modules().size(), totals.modules);
}

}  // namespace hindsight
