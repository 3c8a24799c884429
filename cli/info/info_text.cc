#include <algorithm>
#include <cctype>
#include <ctime>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/info/info.h"
#include "cli/info/record_text.h"
#include "isa/host_features.h"
#include "keyframes/state/snapshot_list.h"

namespace hindsight {
namespace {

constexpr size_t kGapsShown = 10;
constexpr int kEndWidth = 40;

std::string TimeText(int64_t time_ns) {
  time_t seconds = time_ns / 1'000'000'000;
  tm broken;
  char text[64] = "";
  if (gmtime_r(&seconds, &broken) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &broken);
  }
  return text;
}

std::string Quoted(const std::vector<std::string>& arguments) {
  return absl::StrJoin(arguments, " ", [](std::string* out, const std::string& argument) {
    bool plain =
        !argument.empty() && std::all_of(argument.begin(), argument.end(), [](unsigned char c) {
          return std::isalnum(c) ||
                 std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
        });
    absl::StrAppend(out, plain ? argument
                               : absl::StrCat("\"",
                                              Printable(absl::StrReplaceAll(
                                                  argument, {{"\\", "\\\\"}, {"\"", "\\\""}})),
                                              "\""));
  });
}

std::string StartText(const Manifest& manifest) {
  if (manifest.parent_pid != 0) {
    return absl::StrFormat("%s by process %d, thread %d, at event %X", manifest.start_kind,
                           manifest.parent_pid, manifest.parent_thread, manifest.parent_sequence);
  }
  return manifest.start_kind;
}

std::string OrderText(const TraceSummary& summary) {
  return absl::StrCat(summary.kernel_events, " of the kernel",
                      summary.ordered_instructions
                          ? absl::StrCat(", ", *summary.ordered_instructions, " instructions")
                          : "");
}

std::string FeaturesText(const std::vector<std::string>& required) {
  const std::vector<std::string> missing = MissingFeatures(required, HostFeatures::OfThisHost());
  return absl::StrCat(
      absl::StrJoin(required, " "),
      missing.empty() ? "" : absl::StrCat("; this host lacks ", absl::StrJoin(missing, " ")));
}

std::string SizesText(const TraceReader::Sizes& sizes) {
  return absl::StrCat(SizeText(sizes.total), " (segments ", SizeText(sizes.segments), ", modules ",
                      SizeText(sizes.modules), ", full keyframes ", SizeText(sizes.full_keyframes),
                      ", events ", SizeText(sizes.events), ")");
}

void AppendModules(const TraceReader& trace, std::string* out) {
  for (const auto& [index, module] : trace.modules()) {
    absl::StrAppend(out, "  ", Printable(module.path), "  ", SizeText(module.size_bytes),
                    module.stored ? "" : ", not stored");
    if (!module.build_id.empty()) {
      absl::StrAppend(out, "  build-id ", absl::BytesToHexString(module.build_id));
    }
    absl::StrAppend(out, "\n");
  }
}

void AppendGaps(const std::vector<GapSummary>& gaps, std::string* out) {
  for (size_t i = 0; i < gaps.size() && i < kGapsShown; ++i) {
    absl::StrAppend(out, "  thread ", gaps[i].thread, " at ", gaps[i].count, ": ",
                    Printable(gaps[i].reason), "\n");
  }
  if (gaps.size() > kGapsShown) absl::StrAppend(out, "  ...\n");
}

void AppendProcesses(const RecordingInfo& info, std::string* out) {
  absl::StrAppendFormat(out, "  %-9s %8s %15s  %-*s %s\n", "PID", "THREADS", "INSTRUCTIONS",
                        kEndWidth, "END", "PROGRAM");
  for (const ProcessEntry& entry : info.processes) {
    std::string end = entry.status.ok() ? EndText(entry.process.manifest) : "lost";
    end = Printable(end);
    if (end.size() > size_t{kEndWidth}) end = end.substr(0, kEndWidth - 3) + "...";
    const std::string& program =
        entry.status.ok() ? entry.summary.program : entry.process.manifest.program;
    absl::StrAppendFormat(out, "  %-9s %8d %15d  %-*s %s%s\n", entry.id,
                          entry.summary.threads.size(), entry.summary.instructions, kEndWidth, end,
                          std::string(2 * entry.depth, ' '), Printable(program));
  }
}

std::string SecondsText(uint64_t ns) { return ns == 0 ? "-" : absl::StrFormat("%.3f s", ns / 1e9); }

void AppendThreads(const ProcessEntry& entry, std::string* out) {
  absl::StrAppend(out, "threads of ", entry.id, ":\n");
  absl::StrAppendFormat(out, "  %-9s %-16s %12s %12s %15s %8s %11s %6s  %s\n", "TID", "NAME",
                        "START", "END", "INSTRUCTIONS", "SLICES", "RUNNING", "MOVES", "CPUS");
  for (const ThreadSummary& thread : entry.summary.threads) {
    absl::StrAppendFormat(out, "  %-9d %-16s %12s %12s %15d %8d %11s %6d  %s\n", thread.thread,
                          thread.name.empty() ? "-" : Printable(thread.name),
                          ToString(thread.start), ToString(thread.end), thread.instructions,
                          thread.slices, SecondsText(thread.running_ns), thread.moves,
                          thread.cpus.empty() ? "-" : absl::StrJoin(thread.cpus, ","));
  }
}

void AppendSnapshots(const TraceReader& trace, std::string* out) {
  const std::vector<SnapshotInfo> snapshots = ListSnapshots(trace);
  absl::StrAppendFormat(out, "%-13s %d\n", "snapshots:", snapshots.size());
  for (const SnapshotInfo& snapshot : snapshots) {
    absl::StrAppendFormat(out, "  %s; skew %.1f us, stopped %.2f ms, %s\n", SnapshotText(snapshot),
                          snapshot.skew_ns / 1e3, snapshot.stop_ns / 1e6,
                          SizeText(snapshot.stored_bytes));
  }
}

// How long the process stood still for full keyframes; empty: it did not, or that is not known.
std::string StopsText(const TraceReader& trace) {
  std::vector<uint64_t> stops;
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind == EventKind::kFullKeyframe && !event.arguments.empty()) {
      stops.push_back(event.arguments[0]);
    }
  }
  if (stops.empty()) return "";
  std::sort(stops.begin(), stops.end());
  return absl::StrFormat("%d for full keyframes, median %.1f ms, worst %.1f ms", stops.size(),
                         stops[stops.size() / 2] / 1e6, stops.back() / 1e6);
}

// What the recording was to keep, and what has gone; empty: it keeps all.
std::string RingText(const TraceReader& trace) {
  const std::string& text = trace.manifest().ring;
  if (text.empty()) return "";
  const TrimmedEvent* const trimmed = trace.trimmed();
  if (trimmed == nullptr) return absl::StrCat(text, ": nothing was dropped yet");
  std::string out = absl::StrFormat(
      "%s: begins at full keyframe %d, %.3f s after the recording; dropped were "
      "%d segments, %d full keyframes, %d events",
      text, trimmed->oldest_keyframe, trimmed->time_ns / 1e9, trimmed->segments, trimmed->keyframes,
      trimmed->events);
  if (trimmed->thinned()) {
    absl::StrAppendFormat(&out, "; has all threads from full keyframe %d on",
                          trimmed->whole_keyframe);
  }
  return out;
}

}  // namespace

const char* StateName(TraceState state) {
  switch (state) {
    case TraceState::kRecording:
      return "recording";
    case TraceState::kComplete:
      return "complete";
    case TraceState::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

std::string EndText(const Manifest& manifest) {
  if (manifest.state == TraceState::kRecording) return "still recording";
  if (!manifest.end_reason.empty()) return manifest.end_reason;
  if (manifest.state == TraceState::kInterrupted) return "the recorder was interrupted";
  if (manifest.exit_status < 0) return "recording stopped before the program's end";
  return WaitStatusText(manifest.exit_status);
}

double BitsPerInstruction(const TraceReader::Sizes& sizes, uint64_t instructions) {
  if (instructions == 0) return 0;
  return 8.0 * static_cast<double>(sizes.segments + sizes.events) / instructions;
}

std::string InfoText(const RecordingInfo& info, bool threads) {
  const TraceReader& trace = *info.first;
  const Manifest& manifest = trace.manifest();
  const TraceSummary& summary = info.processes[0].summary;
  const TraceReader::Sizes sizes = trace.sizes();
  std::string out;
  auto line = [&out](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&out, "%-14s%s\n", absl::StrCat(name, ":"), Printable(value));
  };
  line("trace", trace.directory());
  line("program", manifest.program);
  if (summary.program != manifest.program) line("last program", summary.program);
  line("arguments", Quoted(manifest.arguments));
  line("directory", manifest.working_directory);
  line("process", absl::StrCat(manifest.pid));
  line("recorded", TimeText(manifest.start_time_ns));
  if (!manifest.start_kind.empty() && manifest.start_kind != "launch") {
    line("start", StartText(manifest));
  }
  if (manifest.state == TraceState::kComplete) {
    line("duration", absl::StrFormat("%.3f s", manifest.end_time_ns / 1e9));
  }
  line("state", StateName(manifest.state));
  line("end", EndText(manifest));
  if (const std::string ring = RingText(trace); !ring.empty()) line("ring", ring);
  line("engine",
       absl::StrCat(manifest.engine, manifest.memory_model.empty() ? "" : ", memory model ",
                    manifest.memory_model));
  if (manifest.schedule == "parallel") {
    line("schedule", "parallel: threads run at once");
  } else if (!manifest.schedule.empty()) {
    line("schedule", absl::StrCat(manifest.schedule, ", seed ", manifest.schedule_seed));
  }
  line("host", manifest.host_cpu);
  line("cpu", manifest.cpu.empty() ? "portable" : manifest.cpu);
  if (!manifest.required_features.empty()) {
    line("replay needs", FeaturesText(manifest.required_features));
  }
  line("threads", absl::StrCat(summary.threads.size()));
  line("instructions", absl::StrCat(summary.instructions));
  line("events", absl::StrCat(summary.syscalls, " system calls, ", summary.signals, " signals"));
  line("orderable", OrderText(summary));
  line("keyframes",
       absl::StrCat(summary.segments, " light, ", trace.full_keyframes().size(), " full"));
  if (const std::string stops = StopsText(trace); !stops.empty()) line("stops", stops);
  if (HasSnapshots(trace)) AppendSnapshots(trace, &out);
  line("size", SizesText(sizes));
  line("bits/instr.", absl::StrFormat("%.3f", BitsPerInstruction(sizes, summary.instructions)));
  if (!summary.gaps.empty()) line("gaps", absl::StrCat(summary.gaps.size()));
  AppendGaps(summary.gaps, &out);
  line("modules", absl::StrCat(trace.modules().size()));
  AppendModules(trace, &out);
  if (info.processes.size() > 1) {
    line("processes",
         absl::StrFormat("%d, with %d threads, %d instructions, %s", info.processes.size(),
                         info.threads(), info.instructions(), SizeText(info.bytes())));
    AppendProcesses(info, &out);
  }
  if (!threads) return out;
  for (const ProcessEntry& entry : info.processes) AppendThreads(entry, &out);
  return out;
}

}  // namespace hindsight
