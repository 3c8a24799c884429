#include "recorder/record.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "base/status_macros.h"
#include "emulator/registers.h"
#include "recorder/engine.h"
#include "recorder/host_signals.h"
#include "recorder/process_facts.h"
#include "recorder/program_lookup.h"
#include "recorder/tracee.h"
#include "tracefmt/manifest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

Manifest Describe(const RecordOptions& options, const ExecCommand& command, pid_t pid) {
  using std::chrono::system_clock;
  Manifest manifest;
  manifest.program = ExecutablePath(pid);
  manifest.arguments = command.arguments;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    manifest.environment.push_back(*variable);
  }
  char directory[PATH_MAX];
  if (getcwd(directory, sizeof(directory)) != nullptr) manifest.working_directory = directory;
  manifest.pid = pid;
  manifest.start_time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch())
          .count();
  manifest.host_cpu = CpuBrand();
  manifest.engine = "emulate";
  manifest.memory_model = options.memory_model;
  manifest.register_layout = kRegisterLayout;
  manifest.light_keyframe_interval = options.light_keyframe_interval;
  manifest.full_keyframe_interval = options.full_keyframe_interval;
  manifest.auxv = AuxiliaryVector(pid);
  return manifest;
}

}  // namespace

absl::StatusOr<RecordResult> RecordProgram(const RecordOptions& options) {
  if (options.arguments.empty()) return absl::InvalidArgumentError("no program given");
  if (options.quantum == 0) return absl::InvalidArgumentError("the quantum must not be 0");
  ASSIGN_OR_RETURN(const ExecCommand command, LookUpProgram(options.arguments));
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Tracee::Launch(command));
  if (!tracee->Is64Bit()) {
    return absl::InvalidArgumentError(command.path + ": is not run by an x86-64 program");
  }
  Manifest manifest = Describe(options, command, tracee->pid());
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                   TraceWriter::Create(options.directory, manifest));
  HostSignals host_signals(tracee->pid());
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                   Engine::Create(options, manifest.program, tracee.get(), writer.get()));
  ASSIGN_OR_RETURN(RecordResult result, engine->Run());

  manifest.state = TraceState::kComplete;
  manifest.exit_status = result.end_reason.empty() ? result.wait_status : -1;
  manifest.end_reason = result.end_reason;
  manifest.end_sequence = result.events;
  manifest.end_time_ns = static_cast<uint64_t>(result.seconds * 1e9);
  RETURN_IF_ERROR(writer->Finish(manifest));
  result.trace_bytes = writer->bytes_written();
  return result;
}

}  // namespace hindsight
