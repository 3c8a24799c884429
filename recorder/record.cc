#include "recorder/record.h"

#include <sys/ptrace.h>

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "isa/memory_model.h"
#include "isa/registers.h"
#include "recorder/emulate/recording.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/tracee.h"
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
  manifest.memory_model = options.memory_model;
  manifest.cpu = NameOf(options.cpu);
  manifest.register_layout = kRegisterLayout;
  manifest.light_keyframe_interval = options.light_keyframe_interval;
  manifest.full_keyframe_interval = options.full_keyframe_interval;
  manifest.auxv = AuxiliaryVector(pid);
  manifest.schedule = options.chaos ? "chaos" : "turns";
  manifest.schedule_seed = options.seed;
  return manifest;
}

absl::StatusOr<MemoryModel> ModelNamed(absl::string_view name) {
  if (const auto model = ParseMemoryModel(name)) return *model;
  return absl::InvalidArgumentError(
      absl::StrCat("no memory model '", name, "' (there are kernel, fence, acqrel and load)"));
}

// The codes by which RecordProgram says that the program cannot be run are not for its trace.
absl::StatusOr<std::unique_ptr<TraceWriter>> CreateTrace(const RecordOptions& options,
                                                         const Manifest& manifest) {
  absl::StatusOr<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::Create(options.directory, manifest);
  if (!writer.ok()) return absl::UnknownError(writer.status().message());
  return writer;
}

// Launches the program, stopped before its first instruction.
absl::StatusOr<RecordResult> RecordLaunched(const RecordOptions& options, MemoryModel model) {
  ASSIGN_OR_RETURN(const ExecCommand command, LookUpProgram(options.arguments));
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Tracee::Launch(command));
  if (!Is64Bit(tracee->thread())) {
    return absl::InvalidArgumentError(command.path + ": is not run by an x86-64 program");
  }
  Manifest manifest = Describe(options, tracee->process());
  manifest.arguments = command.arguments;
  manifest.start_kind = options.start_at.empty() ? "launch" : "start-at";
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer, CreateTrace(options, manifest));
  Recording recording(options, model);
  RETURN_IF_ERROR(recording.SetTrace(std::move(writer), std::move(manifest)));
  const NativeThread first = {.thread = tracee->thread()};
  RETURN_IF_ERROR(recording.Begin(tracee->process(), {&first, 1}));
  tracee->Disown();
  return recording.Run();
}

absl::StatusOr<RecordResult> RecordAttached(const RecordOptions& options, MemoryModel model) {
  ASSIGN_OR_RETURN(const std::vector<AttachedThread> attached,
                   AttachToProcess(options.attach_pid, TraceOptions() & ~PTRACE_O_EXITKILL));
  std::vector<NativeThread> threads;
  std::vector<ThreadToDetach> detach;
  for (const AttachedThread& thread : attached) {
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
  Recording recording(options, model);
  absl::Status begun = recording.SetTrace(*std::move(writer), std::move(manifest));
  if (begun.ok()) begun = recording.Begin(options.attach_pid, threads);
  // From here on Run lets go of it, whatever happens.
  recording.Keep(begun);
  return recording.Run();
}

}  // namespace

absl::StatusOr<RecordResult> RecordProgram(const RecordOptions& options) {
  if (options.arguments.empty() && options.attach_pid == 0) {
    return absl::InvalidArgumentError("no program given");
  }
  if (options.quantum == 0) return absl::InvalidArgumentError("the quantum must not be 0");
  ASSIGN_OR_RETURN(const MemoryModel model, ModelNamed(options.memory_model));
  return options.attach_pid != 0 ? RecordAttached(options, model) : RecordLaunched(options, model);
}

}  // namespace hindsight
