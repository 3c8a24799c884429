#include "recorder/translate/translate_engine.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "isa/memory_model.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/injection.h"
#include "recorder/translate/memo/translation_memo.h"
#include "recorder/translate/memo/translation_store.h"

namespace hindsight {
namespace {

// A page costs some 12,000 bits: what keeps segments' beginnings well below half a bit for each
// instruction.
constexpr uint64_t kSegmentPerPage = 100'000;

// Instructions: a fraction of a millisecond.
constexpr uint64_t kLookWithTimer = 500'000;

// Between two looks at the rings, if there was nothing in them: at first, and at most once nothing
// has come for a while. A timer is kept by these looks.
constexpr int64_t kPauseNs = 200'000, kLongPauseNs = 10'000'000;

int64_t LongestPause(const RecordOptions& options) {
  return options.capture.every > absl::ZeroDuration() ? kPauseNs : kLongPauseNs;
}

bool FollowsChildren(const RecordingSession& session) {
  return session.options().children == ChildPolicy::kFollow;
}

// Null: none. Trials make translations that are no use to others.
std::unique_ptr<TranslationStore> StoreFor(const RecordOptions& options) {
  if (options.translation_cache == kNoTranslationCache || options.trials != TranslationTrials()) {
    return nullptr;
  }
  const std::string identity = RecorderIdentity();
  if (identity.empty()) return nullptr;
  return TranslationStore::Open(options.translation_cache == kUsersTranslationCache
                                    ? TranslationStore::DefaultDirectory()
                                    : options.translation_cache,
                                absl::StrCat(identity, ",", static_cast<int>(options.cpu), ",",
                                             static_cast<int>(options.memory_model)));
}

// Only who asks for them gets full keyframes while threads run: the calls that threads wait in are
// interrupted for each, and made again, so that a timeout that is longer than that never ends.
uint64_t FullKeyframeInterval(const RecordOptions& options) {
  // A ring is trimmed at full keyframes; by size or time they are asked for where they are due.
  if (options.ring.bytes != 0 || options.ring.ns != 0) return 0;
  if (options.ring.keyframes != 0) return options.full_keyframe_interval;
  const bool asked = options.full_keyframe_interval != RecordOptions().full_keyframe_interval;
  return asked ? options.full_keyframe_interval : 0;
}

// Where loads are ordered each has an entry, and what trials make fail are comparisons.
bool BeginsExclusive(const RecordOptions& options) {
  return options.memory_model <= MemoryModel::kFence && options.trials.failing_checks == 0;
}

}  // namespace

std::string TranslateEngine::ReasonNotToRecord(const RecordOptions& options) {
  if (options.attach_pid != 0) return "attach to a process";
  if (!options.start_at.empty() || !options.stop_at.empty()) return "record a part of a run";
  if (options.children == ChildPolicy::kOnly) return "choose processes by their program";
  if (options.wait_for_all && options.children == ChildPolicy::kNone) {
    return "wait for processes that it does not record (--wait)";
  }
  if (options.bulk_bytes != 0) return "leave out what large reads store (--omit-bulk)";
  if (!options.capture.functions.empty()) return "take snapshots at functions (--at)";
  if (options.self_checks_per_million != 0) return "check blocks of instructions";
  return "";
}

TranslateEngine::TranslateEngine(RecordingSession* session)
    : session_(session),
      memo_(std::make_shared<TranslationMemo>(StoreFor(session->options()))),
      family_(session, &memo_->places(), FollowsChildren(*session)) {}

absl::Status TranslateEngine::Record(pid_t process, absl::Span<const StoppedThread> threads) {
  session_->SetProgram(process);
  // What it does with the terminal is known only later.
  session_->NoteUnrecorded();
  RETURN_IF_ERROR(Begin(process, threads.front().thread));
  running_ = true;
  Loop();
  services_.StopAll();
  session_->FinishTraces();
  memo_->Save();
  return absl::OkStatus();
}

absl::Status TranslateEngine::Begin(pid_t process, pid_t thread) {
  const RecordOptions& options = session_->options();
  ASSIGN_OR_RETURN(log_, session_->Open(session_->manifest(), nullptr,
                                        absl::StrCat("/proc/", process, "/root")));
  const std::unique_ptr<Tracee> tracee = Tracee::Adopt(process, thread);
  auto recording = std::make_shared<ServiceRecording>();
  recording->injection = {.record = true,
                          .record_children = FollowsChildren(*session_),
                          .order_instructions = options.memory_model >= MemoryModel::kFence,
                          .chaos_seed = options.chaos ? options.seed | 1 : 0,
                          .segment_instructions = options.light_keyframe_interval != 0
                                                      ? options.light_keyframe_interval
                                                      : options.full_keyframe_interval,
                          .segment_per_page = options.adapt_light_keyframes ? kSegmentPerPage : 0,
                          .largest_module = options.max_module_bytes,
                          .full_keyframe_instructions = FullKeyframeInterval(options),
                          .snapshot_signals = session_->triggers().signals(),
                          .snapshot_points = options.listens};
  if (options.capture.every > absl::ZeroDuration()) {
    recording->injection.look_instructions = kLookWithTimer;
  }
  recording->on_birth = [this](RecordedBirth birth) { family_.Announce(std::move(birth)); };
  recording->modules = session_->modules();
  recording->on_traced = [this](pid_t traced) { services_.LetGo(traced); };
  ASSIGN_OR_RETURN(MemoryFile file, Inject(recording->injection, tracee.get()));
  const auto page_pool = std::make_shared<ExecutedPagePool>();
  const TranslationOptions translation = {
      .cpu = options.cpu,
      .flavour = Flavour::kRecord,
      .trials = options.trials,
      .order = options.memory_model,
      .seed = options.seed,
      .memo = memo_,
      .page_pool = page_pool,
      .recording = std::move(recording),
      .executed_pages = std::make_shared<ExecutedPages>(page_pool),
      .exclusive_memory = BeginsExclusive(options)};
  auto service = std::make_unique<ProcessService>(
      process, std::move(file), translation,
      [this](std::unique_ptr<ProcessService> child) { services_.Start(std::move(child)); });
  service->ShareMemoryIfUsual();
  file_ = service->file();
  RETURN_IF_ERROR(
      family_.Begin(log_, MakeRecordedMemory(file_, translation.executed_pages), kFirstThread));
  services_.Start(std::move(service));
  return absl::OkStatus();
}

// Until the program has ended, and what it made if that is recorded.
void TranslateEngine::Loop() {
  IdlePause pause(kPauseNs, LongestPause(session_->options()));
  while (running_ || (!session_->end_wanted() && family_.living() > 0)) {
    attention_.Clear();
    family_.Listen(&attention_);
    const bool some = family_.Advance();
    CheckProgram();
    session_->Tick(*this);
    EndIfWanted();
    services_.Reap();
    if (some) {
      pause.Reset();
    } else {
      attention_.Await(attention_.HearsAll() ? pause.Next() : kPauseNs);
    }
  }
  while (!session_->end_wanted() && family_.Advance()) {  // the last ends
  }
  family_.Abandon(session_->end_reason());
}

void TranslateEngine::CheckProgram() {
  if (!running_ || !family_.ProgramIsGone()) return;
  int status = 0;
  while (waitpid(session_->program(), &status, 0) < 0 && errno == EINTR) {
  }
  running_ = false;
  CheckBoot(status);
  family_.FinishProgram(status);
  session_->NoteProgramExit(status);
  session_->Close(log_);
}

void TranslateEngine::EndIfWanted() {
  if (!session_->end_wanted() || std::exchange(ended_, true)) return;
  if (running_ && session_->timed_out()) kill(session_->program(), SIGKILL);
  const int signal = session_->signal_for_program();
  if (running_ && signal != 0) kill(session_->program(), signal);
  family_.Abandon(session_->failed() ? "the trace could not be written" : session_->end_reason());
}

void TranslateEngine::CheckBoot(int wait_status) {
  const ControlBlock& control = *file_->control();
  if (control.boot_state == static_cast<uint32_t>(BootState::kRunning)) return;
  session_->Keep(absl::UnavailableError(absl::StrCat(
      "the program could not be started by engine translate: ", strerror(control.boot_error),
      " (status ", wait_status, ")")));
}

}  // namespace hindsight
