// hindsight record: records one run of a program, and exits with its status.

#include "recorder/record.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/capture/capture_options.h"
#include "cli/command.h"
#include "cli/option_values.h"
#include "cli/progress_line.h"
#include "cli/running/exit_status.h"
#include "cli/running/run_choice.h"
#include "cli/until_failure.h"
#include "isa/memory_model.h"
#include "recorder/session/engine_kind.h"
#include "recorder/session/seed.h"

namespace hindsight {
namespace {

std::string SummaryText(const std::string& directory, const RecordResult& result) {
  std::string out = absl::StrCat(directory, ": ");
  if (result.processes > 1) absl::StrAppend(&out, result.processes, " processes, ");
  if (result.threads > 1) absl::StrAppend(&out, result.threads, " threads, ");
  if (result.snapshots != 0) {
    absl::StrAppend(&out, result.snapshots, result.snapshots == 1 ? " snapshot, " : " snapshots, ");
  }
  if (result.blocks_checked != 0) {
    absl::StrAppend(&out, result.blocks_checked, " blocks checked, ");
  }
  return absl::StrCat(
      out, absl::StrFormat("%.1f M instructions, %d events, %s, %.1f s", result.instructions / 1e6,
                           result.events, SizeText(result.trace_bytes), result.seconds));
}

// The summary of a finished recording.
void Report(const RecordOptions& record, const RecordResult& result, ProgressLine* progress) {
  if (result.processes_left != 0) {
    const bool one = result.processes_left == 1;
    progress->Finish(absl::StrCat(
        one ? "a process" : absl::StrCat(result.processes_left, " processes"), " made by ",
        record.attach_pid != 0 ? "it" : record.arguments[0], one ? " runs" : " run",
        " on unrecorded (--wait records until the last has ended)"));
  }
  if (result.snapshots_missed != 0) {
    progress->Finish(absl::StrCat(result.snapshots_missed,
                                  " snapshots were not taken: a thread could not be stopped"));
  }
  progress->Finish(SummaryText(record.directory, result));
}

// Null `progress`: only errors are shown, and the progress that `base` asks for.
RunOutcome RecordRunOnce(const RecordOptions& base, ProgressLine* progress) {
  RecordOptions record = base;
  if (progress != nullptr && progress->may_show_beside_program()) {
    record.progress = [progress](const RecordProgress& now) {
      // Short runs show no progress.
      if (now.seconds < 1) return;
      progress->Show(absl::StrFormat("recording: %.1f s, %.1f M instructions, %s", now.seconds,
                                     now.instructions / 1e6, SizeText(now.trace_bytes)));
    };
    record.hide_progress = [progress] { progress->Clear(); };
  }
  if (progress != nullptr) {
    record.remark = [progress](const std::string& text) { progress->Finish(text); };
  }
  absl::StatusOr<RecordResult> result = RecordProgram(record);
  if (record.hide_progress) record.hide_progress();
  if (!result.ok()) {
    const int exit_status = FailureStatus(result.status());
    return {.recorder_exit = record.attach_pid != 0 ? kExitRecorder : exit_status};
  }
  if (progress != nullptr) Report(record, *result, progress);
  RunOutcome outcome = {.wait_status = result->wait_status,
                        .timed_out = result->timed_out,
                        .ended = result->end_reason.empty(),
                        .at_line_start = result->at_line_start};
  if (result->blocks_differing != 0) {
    PrintError(
        absl::StrCat("self-check: ", result->blocks_differing, " of ", result->blocks_checked,
                     " blocks differ from the processor, first: ", result->first_difference));
    outcome.recorder_exit = kExitRecorder;
  }
  return outcome;
}

// The exit status, or does not return.
int EndLike(const RunOutcome& outcome) {
  if (outcome.recorder_exit != 0) return outcome.recorder_exit;
  return outcome.timed_out ? kExitTimeout : ExitLike(outcome.wait_status);
}

int RunRecording(const RecordOptions& record, const SaveValue& save, bool quiet) {
  ProgressLine progress;
  const RunOutcome outcome = RecordRunOnce(record, quiet ? nullptr : &progress);
  if (outcome.recorder_exit == 0 && outcome.ended) {
    RemoveUnlessWanted(save, record.directory, outcome.wait_status, quiet);
  }
  // An attached process ran before: its exit status is not this one's.
  if (record.attach_pid != 0) return outcome.recorder_exit;
  if (outcome.recorder_exit == 0 && outcome.failed() && record.chaos) {
    PrintError(absl::StrCat(record.directory, ": ", FailureText(outcome, record.seed)));
  }
  return EndLike(outcome);
}

constexpr char kAuto[] = "auto";
constexpr int32_t kMostWriterThreads = 64;

// Options whose values are not yet in the recorder's types.
struct RecordValues {
  std::string engine = kAuto;
  std::string cpu = kAuto;
  std::string memory_model = MemoryModelName(RecordOptions().memory_model);
  ChildrenValue children;
  EnvironmentValue environment;
  bool quiet = false;
  SecondsValue duration;
  SecondsValue timeout;
  SeedValue chaos;
  RunsValue until_failure;
  SizeValue max_size;
  RunChoice run;
  SizeValue omit_bulk;
  bool snapshots = false;
  CaptureOptions capture;
};

// In the order of the help, in groups: the run, its part to record, the contents of the trace, and
// how to record it.
void AddRunOptions(Options* options, RecordValues* values) {
  AddOutputOption(options, &values->run.directory);
  options->Add(
      "attach", &values->run.attach_pid, "PID",
      "Record this running process from now on, until it ends, --duration is over or Ctrl-C; "
      "then it continues as before.");
  options->Add("duration", &values->duration, "TIME",
               "End the recording after this time (10, 2.5s, 500ms); the program continues.");
  options->Add("timeout", &values->timeout, "TIME",
               "Kill PROG and the processes it created if it has not ended after this time; the "
               "trace ends there, and the exit status is 124.");
  options->Add("chaos", &values->chaos, "SEED",
               "Schedule threads and processes so as to find bugs: turns of few and of many "
               "instructions, threads that starve for a while, delays at system calls, locks and "
               "signals. All at random from SEED, a number, by default a new one each time. `info` "
               "shows it.");
  options->ValueIfNoneGiven("random");
  options->Add(
      "until-failure", &values->until_failure, "N",
      "Record repeatedly, at most N times, each with the next seed, until PROG exits with a "
      "status other than 0, is killed by a signal or exceeds --timeout; keep the trace "
      "of that run only. The exit status is that run's, or 0 if none failed. Best with "
      "--chaos.");
  options->ValueIfNoneGiven("forever");
}

void AddPartOptions(Options* options, RecordOptions* record, RecordValues* values) {
  options->Add("start-at", &record->start_at, "WHERE",
               "Record from here on, each time any thread gets here: FUNCTION, FILE:FUNCTION or an "
               "address (0x...). Before that, the program runs natively.");
  options->Add("stop-at", &record->stop_at, "WHERE",
               "Record up to here. After it the program runs natively, until it reaches --start-at "
               "again.");
  options->Add("max-size", &values->max_size, "SIZE",
               "End the recording when the trace has about this size (64M, 2G); the program "
               "continues.");
  options->Add(
      "ring", &values->run.ring, "SIZE|TIME|COUNT",
      "Keep the newest part only: so much on disk (500M, 2G), so far back (30s, 10min, 2h), "
      "or from the newest COUNT full keyframes on. The trace then begins at its oldest "
      "full keyframe; they are made as often as it takes.");
  options->Add(
      "ring-pool", &values->run.ring_pool, "process|thread",
      "With --ring=SIZE: drop the oldest part of the whole process (the default), or of the thread "
      "that has most, so that one that records much does not push out the history of a quiet one. "
      "Where only some threads are left, memory is what each of these has seen itself.");
  AddSaveOption(options, &values->run.save, "A trace that ends before PROG does is kept.");
  options->Add(
      "omit-bulk", &values->omit_bulk, "SIZE",
      "Do not record the data that a system call stores in one place if it is more than this "
      "(4K, 1M) and the program does not use it: gdb shows it as unavailable. By default "
      "all is recorded.");
  options->Add("children", &values->children, "WHICH",
               "Which of the processes that the program creates are recorded: follow (all, and "
               "theirs), none, or only=NAME: only processes that run the program NAME.");
  options->Add(
      "wait", &record->wait_for_all, "",
      "Record until the last process that the program created has ended, such as a daemon; "
      "Ctrl-C ends it earlier. Otherwise recording ends with the program, and processes "
      "that outlive it continue unrecorded.");
}

// Snapshots on the way.
void AddSnapshotOptions(Options* options, RecordValues* values) {
  options->Add(
      "snapshots", &values->snapshots, "",
      "Take snapshots where PROG says so, if it is linked with libhindsight; which of these "
      "points count, and when snapshots are taken besides, say the next options, each of "
      "which includes this one. SIGUSR1 to hindsight takes one in any case.");
  values->capture.AddTo(options, {"level", "class", "id", "attr", "trigger", "on-exception", "skip",
                                  "stride", "interval", "every", "on-signal", "at", "max"});
}

void AddTraceContentOptions(Options* options, RecordOptions* record, RecordValues* values) {
  options->Add(
      "quiet", &values->quiet, "",
      "Print only errors: no progress, and not where the trace is, except what --until-failure "
      "found. (Progress is shown on a terminal while the program neither writes nor reads there, "
      "and not if standard output is a pipe.)");
  options->Add("env", &values->environment, "WHICH",
               "Whether the trace lists the environment of the processes: all or none. With none, "
               "the copy in their memory is still recorded.");
  options->Add(
      "memory-model", &values->memory_model, "NAME",
      "Which events are ordered across threads: kernel (system calls, signals and the like), "
      "fence (also locked instructions and fences), acqrel (also stores) or load (also "
      "loads). For the last two --engine=auto takes the emulator, which knows the order of "
      "accesses for certain.");
  options->Add(
      "cpu", &values->cpu, "NAME",
      "What CPUID reports to the program: host (this machine's features, so that it computes "
      "the same as natively), portable (only features that are emulated: often "
      "faster, and the trace needs no particular processor) or auto (host; with engine translate "
      "portable, unless the program's file says that it needs AVX).");
}

void AddEngineOptions(Options* options, RecordOptions* record, RecordValues* values) {
  options->Add(
      "engine", &values->engine, "NAME",
      "How to record: translate, which rewrites the program so that it runs natively with all "
      "its threads at once; emulate, which is slower and has threads take turns; or auto: "
      "translate, but emulate where the options or the program need it, which is said.");
  options->Add("translation-cache", &record->translation_cache, "DIR",
               "Where engine translate keeps what it has translated, so that later recordings of "
               "the same programs start faster, 2 GB at most; none: nowhere. The default is "
               "$XDG_CACHE_HOME/hindsight, or ~/.cache/hindsight.");
  options->Add("light-keyframe-interval", &record->light_keyframe_interval, "N",
               "Begin a segment every N instructions; 0: only at the start. Shorter ones make "
               "going back faster and the trace larger. The default is raised, up to 16 times, "
               "while a thread uses much memory.");
  options->Add("full-keyframe-interval", &record->full_keyframe_interval, "N",
               "Save all memory every N instructions; 0: only at the start. With engine translate "
               "only if this is given: calls that threads wait in are then interrupted and made "
               "again, with the whole of their timeouts.");
  options->Add(
      "quantum", &record->quantum, "N",
      "Threads take turns of at most N instructions (at random, and shorter while they take "
      "more time than usual); signals and keyframes are handled between turns. Small values "
      "make races likelier and recording slower.");
  options->Add(
      "self-check", &record->self_checks_per_million, "RATE",
      "Also execute RATE blocks of each million instructions natively, in the program's own "
      "thread, and compare (not where memory is shared). The first instruction that "
      "differs is reported, and the exit status is then 125.");
  options->ValueIfNoneGiven("10");
  options->Add("writer-threads", &record->writer_threads, "N",
               "Compress and write the trace with N threads, where N processors are to spare; by "
               "default one.");
  options->Add("nice", &record->writer_nice, "N",
               "These threads leave the processor to others, as of nice(1): N from 0 to 19.");
  options->Add("max-module-bytes", &record->max_module_bytes, "N",
               "Mapped files larger than this are listed in the trace, but not stored.");
}

// Empty, or what is wrong.
std::string Check(const RecordOptions& record, const RecordValues& values) {
  if (std::string wrong = CheckRun(values.run); !wrong.empty()) return wrong;
  if (values.engine != kAuto && !EngineNamed(values.engine)) {
    return absl::StrCat("unknown engine ", values.engine);
  }
  if (values.cpu != kAuto && !CpuModelNamed(values.cpu)) {
    return absl::StrCat("unknown cpu ", values.cpu);
  }
  if (!ParseMemoryModel(values.memory_model)) {
    return absl::StrCat("unknown memory model ", values.memory_model);
  }
  if (record.writer_threads < 1 || record.writer_threads > kMostWriterThreads) {
    return absl::StrCat("--writer-threads must be from 1 to ", kMostWriterThreads);
  }
  if (record.writer_nice < 0 || record.writer_nice > 19) return "--nice must be from 0 to 19";
  if (record.quantum == 0) return "--quantum must not be 0";
  const bool attaches = values.run.attach_pid != 0;
  if (attaches && values.until_failure.given) {
    return "--until-failure needs a program to run, not --attach";
  }
  if (values.run.save.on != SaveValue::On::kAll && values.until_failure.given) {
    return "--until-failure removes traces itself: not with --save-on";
  }
  if (attaches && values.timeout.seconds != 0) {
    return "--timeout would kill the program that --attach leaves running; use --duration";
  }
  return "";
}

void Fill(const RecordValues& values, RecordOptions* record) {
  record->directory = values.run.directory;
  record->attach_pid = values.run.attach_pid;
  record->arguments = values.run.arguments;
  record->any_engine = values.engine == kAuto;
  if (!record->any_engine) record->engine = *EngineNamed(values.engine);
  record->any_cpu = values.cpu == kAuto;
  if (!record->any_cpu) record->cpu = *CpuModelNamed(values.cpu);
  record->memory_model = *ParseMemoryModel(values.memory_model);
  record->adapt_light_keyframes =
      record->light_keyframe_interval == RecordOptions().light_keyframe_interval;
  record->max_seconds = values.duration.seconds;
  record->timeout_seconds = values.timeout.seconds;
  record->chaos = values.chaos.given;
  record->seed = values.chaos.seed.has_value() ? *values.chaos.seed : NewSeed();
  record->bulk_bytes = values.omit_bulk.bytes;
  record->max_trace_bytes = values.max_size.bytes;
  record->ring = LimitsOf(values.run.ring, values.run.ring_pool);
  record->only_program = values.children.program;
  record->store_environment = values.environment.all;
  switch (values.children.policy) {
    case ChildrenValue::kFollow:
      record->children = ChildPolicy::kFollow;
      break;
    case ChildrenValue::kNone:
      record->children = ChildPolicy::kNone;
      break;
    case ChildrenValue::kOnly:
      record->children = ChildPolicy::kOnly;
      break;
  }
}

}  // namespace

int RecordCommand(Arguments arguments) {
  RecordOptions record;
  record.translation_cache = kUsersTranslationCache;
  RecordValues values;
  Options options(
      "record [options] [--] PROG ARGS...",
      "Runs PROG and records it and the processes it creates. Input, output, environment and exit "
      "status are\nPROG's own; if PROG dies of a signal, so does this. Exits with 127 if PROG is "
      "not found, 126 if it\ncannot be executed, 125 if recording itself fails, 124 after "
      "--timeout. With "
      "--attach: 0, or 125 if\nthat fails.");
  AddRunOptions(&options, &values);
  AddPartOptions(&options, &record, &values);
  AddSnapshotOptions(&options, &values);
  AddTraceContentOptions(&options, &record, &values);
  AddEngineOptions(&options, &record, &values);
  int exit_status = 0;
  auto parsed = ParseOrExit("record", options, arguments, true, &exit_status);
  if (!parsed) return exit_status;
  values.run.arguments = parsed->rest;
  const std::string wrong = Check(record, values);
  if (!wrong.empty()) return UsageError("record", wrong);
  absl::StatusOr<CaptureConfiguration> capture = values.capture.Read();
  if (!capture.ok()) return UsageError("record", std::string(capture.status().message()));
  record.capture = *std::move(capture);
  record.listens = values.run.attach_pid == 0 && (values.snapshots || values.capture.given());
  if (!ChooseDirectory(&values.run)) return kExitRecorder;
  Fill(values, &record);
  if (!values.until_failure.given) return RunRecording(record, values.run.save, values.quiet);
  const bool quiet = values.quiet;
  const auto record_once = [quiet](RecordOptions run) {
    if (quiet) run.progress = nullptr;
    return RecordRunOnce(run, /*progress=*/nullptr);
  };
  return EndLike(RecordUntilFailure(record, values.until_failure.most, record_once));
}

}  // namespace hindsight
