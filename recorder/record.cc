#include "recorder/record.h"

#include <stdlib.h>
#include <sys/ptrace.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "isa/memory_model.h"
#include "isa/registers.h"
#include "recorder/choice/engine_choice.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/process/pid_namespace.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/session/engine.h"
#include "recorder/session/recording_session.h"
#include "recorder/session/snapshot_triggers.h"
#include "recorder/snapshot/points/recorded_points.h"
#include "recorder/translate/translate_engine.h"
#include "tracefmt/manifest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

Manifest Describe(const RecordOptions& options, pid_t pid) {
  using std::chrono::system_clock;
  Manifest manifest;
  manifest.program = ExecutablePath(pid);
  if (options.store_environment) manifest.environment = Environment(pid);
  manifest.working_directory = WorkingDirectory(pid);
  manifest.pid = pid;
  manifest.start_time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch())
          .count();
  manifest.host_cpu = CpuBrand();
  manifest.engine = NameOf(options.engine);
  manifest.memory_model = MemoryModelName(options.memory_model);
  manifest.cpu = NameOf(options.cpu);
  manifest.register_layout = kRegisterLayout;
  manifest.light_keyframe_interval = options.light_keyframe_interval;
  manifest.full_keyframe_interval = options.full_keyframe_interval;
  manifest.auxv = AuxiliaryVector(pid);
  const bool parallel = options.engine == EngineKind::kTranslate;
  manifest.schedule = options.chaos ? "chaos" : parallel ? "parallel" : "turns";
  manifest.schedule_seed = options.seed;
  return manifest;
}

// The codes by which RecordProgram says that the program cannot be run are not for its trace.
absl::StatusOr<std::unique_ptr<TraceWriter>> CreateTrace(const RecordOptions& options,
                                                         const Manifest& manifest) {
  absl::StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(
      options.directory, manifest, {.threads = options.writer_threads, .nice = options.writer_nice},
      options.ring);
  if (!writer.ok()) return absl::UnknownError(writer.status().message());
  return writer;
}

std::unique_ptr<Engine> MakeEngine(RecordingSession* session) {
  switch (session->options().engine) {
    case EngineKind::kEmulate:
      return std::make_unique<EmulateEngine>(session);
    case EngineKind::kTranslate:
      return std::make_unique<TranslateEngine>(session);
  }
  return nullptr;
}

// Launches the program, stopped before its first instruction.
absl::StatusOr<std::unique_ptr<Tracee>> Launch(const ExecCommand& command, EngineKind engine) {
  const AddressLayout layout =
      engine == EngineKind::kTranslate ? AddressLayout::kUpward : AddressLayout::kUsual;
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Tracee::Launch(command, layout));
  if (!Is64Bit(tracee->thread())) {
    return absl::InvalidArgumentError(command.path + ": is not run by an x86-64 program");
  }
  return tracee;
}

// The same for an engine that can record it.
absl::StatusOr<std::unique_ptr<Tracee>> Launch(const ExecCommand& command, RecordOptions* options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Launch(command, options->engine));
  ASSIGN_OR_RETURN(const bool suits, SuitsEngine(tracee->process(), options));
  if (suits) return tracee;
  tracee.reset();  // killed
  return Launch(command, options->engine);
}

// The program, and what it executes, finds the control file by a variable of its environment.
absl::StatusOr<std::unique_ptr<Tracee>> LaunchListened(const ExecCommand& command,
                                                       const RecordedPoints* points,
                                                       RecordOptions* options) {
  if (points == nullptr) return Launch(command, options);
  const char* const variable = RecordedPoints::variable();
  const char* const before = getenv(variable);
  const std::optional<std::string> saved =
      before == nullptr ? std::nullopt : std::optional<std::string>(before);
  setenv(variable, points->path().c_str(), 1);
  absl::StatusOr<std::unique_ptr<Tracee>> tracee = Launch(command, options);
  if (saved.has_value()) {
    setenv(variable, saved->c_str(), 1);
  } else {
    unsetenv(variable);
  }
  return tracee;
}

absl::StatusOr<RecordResult> RecordLaunched(RecordOptions options, RecordingSession::Plan plan) {
  ASSIGN_OR_RETURN(const ExecCommand command, LookUpProgram(options.arguments));
  std::unique_ptr<RecordedPoints> points;
  if (options.listens) {
    ASSIGN_OR_RETURN(points, RecordedPoints::Make(options.capture.points));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, LaunchListened(command, points.get(), &options));
  Manifest manifest = Describe(options, tracee->process());
  manifest.arguments = command.arguments;
  manifest.start_kind = options.start_at.empty() ? "launch" : "start-at";
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer, CreateTrace(options, manifest));
  RecordingSession session(options, std::move(plan), {std::move(writer), std::move(manifest)});
  const StoppedThread first = {.thread = tracee->thread()};
  RETURN_IF_ERROR(MakeEngine(&session)->Record(tracee->process(), {&first, 1}));
  tracee->Disown();
  return session.Result();
}

absl::StatusOr<std::vector<StoppedThread>> StopToRecord(pid_t process,
                                                        const std::vector<pid_t>& traced) {
  const uintptr_t options = TraceOptions() & ~PTRACE_O_EXITKILL;
  return traced.empty() ? AttachToProcess(process, options)
                        : TakeOverTraced(process, traced, options);
}

absl::StatusOr<RecordResult> RecordAttached(const RecordOptions& options,
                                            RecordingSession::Plan plan) {
  ASSIGN_OR_RETURN(const std::vector<StoppedThread> attached,
                   StopToRecord(options.attach_pid, options.traced_threads));
  std::vector<StoppedThread> threads;
  std::vector<ThreadToDetach> detach;
  for (const StoppedThread& thread : attached) {
    threads.push_back({thread.thread, thread.group_stop});
    detach.push_back({thread.thread});
  }
  Manifest manifest = Describe(options, options.attach_pid);
  manifest.arguments = CommandLine(options.attach_pid);
  manifest.start_kind = "attach";
  absl::StatusOr<std::unique_ptr<TraceWriter>> writer = CreateTrace(options, manifest);
  if (!writer.ok()) {
    (void)DetachFromProcess(options.attach_pid, detach, {});
    return writer.status();
  }
  RecordingSession session(options, std::move(plan), {*std::move(writer), std::move(manifest)});
  RETURN_IF_ERROR(MakeEngine(&session)->Record(options.attach_pid, threads));
  return session.Result();
}

}  // namespace

absl::StatusOr<RecordResult> RecordProgram(const RecordOptions& wanted) {
  if (wanted.arguments.empty() && wanted.attach_pid == 0) {
    return absl::InvalidArgumentError("no program given");
  }
  RETURN_IF_ERROR(CheckProcIsOurs());
  RecordOptions options = wanted;
  RETURN_IF_ERROR(ChooseEngine(&options));
  if (options.quantum == 0) return absl::InvalidArgumentError("the quantum must not be 0");
  RecordingSession::Plan plan;
  ASSIGN_OR_RETURN(plan.part, RecordedPart::Parse(options));
  ASSIGN_OR_RETURN(plan.triggers, SnapshotTriggers::Parse(options.capture));
  return options.attach_pid != 0 ? RecordAttached(options, std::move(plan))
                                 : RecordLaunched(options, std::move(plan));
}

}  // namespace hindsight
