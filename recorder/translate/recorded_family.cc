#include "recorder/translate/recorded_family.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"

namespace hindsight {
namespace {

// What is a process's own in its manifest; of a process that is gone, what its parent had.
void Describe(pid_t process, bool with_environment, Manifest* manifest) {
  manifest->pid = process;
  if (auto arguments = CommandLine(process); !arguments.empty()) {
    manifest->arguments = std::move(arguments);
  }
  if (with_environment) manifest->environment = Environment(process);
  manifest->working_directory = WorkingDirectory(process);
}

}  // namespace

void RecordedFamily::Announce(RecordedBirth birth) {
  const std::lock_guard<std::mutex> lock(mutex_);
  births_.push_back(std::move(birth));
  merger_.ExpectWaiting();
}

TranslatedRecording* RecordedFamily::Add(ProcessLog* log) {
  const auto self = std::make_shared<TranslatedRecording*>(nullptr);
  recordings_.emplace_back(session_, log, &merger_, places_,
                           [this, self](MadeProcess* made) { return OnMade(*self, made); });
  *self = &recordings_.back();
  return *self;
}

absl::Status RecordedFamily::Begin(ProcessLog* log, RecordedMemory memory, uint64_t ring) {
  return Add(log)->Attach(std::move(memory), ring);
}

TranslatedRecording* RecordedFamily::Find(pid_t process) {
  // The last one: ids are used again.
  for (auto it = recordings_.rbegin(); it != recordings_.rend(); ++it) {
    if (it->pid() == process) return &*it;
  }
  return nullptr;
}

absl::StatusOr<TranslatedRecording*> RecordedFamily::Open(TranslatedRecording* parent,
                                                          const MadeProcess& made) {
  Manifest manifest = parent->log()->manifest();
  Describe(made.process, session_->options().store_environment, &manifest);
  manifest.program = parent->program();
  manifest.parent_pid = parent->pid();
  manifest.parent_thread = made.maker;
  manifest.parent_count = made.maker_count;
  manifest.parent_sequence = made.sequence != 0 ? made.sequence : session_->sequence()->last;
  manifest.start_kind = "fork";
  ASSIGN_OR_RETURN(ProcessLog * log, session_->Open(std::move(manifest), parent->log(),
                                                    absl::StrCat("/proc/", made.process, "/root")));
  return Add(log);
}

// 0: it is gone, and was never announced.
pid_t RecordedFamily::NumberOf(const TranslatedRecording& parent, const MadeProcess& made) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const RecordedBirth& birth : births_) {
      if (birth.parent == parent.pid() && birth.maker == made.maker &&
          parent.CountOf(birth.maker, birth.maker_count) == made.maker_count) {
        return birth.process;
      }
    }
  }
  return parent.FindChild(made.process);
}

// The call by which `parent` has made a process is being logged.
bool RecordedFamily::OnMade(TranslatedRecording* parent, MadeProcess* made) {
  const auto born = born_.find({made->maker, made->maker_count});
  if (born != born_.end()) {
    made->process = born->second;
    born_.erase(born);
    return true;
  }
  const pid_t process = NumberOf(*parent, *made);
  if (process != 0) made->process = process;
  // One that shares its memory has told of itself before the call that makes it returns.
  const bool to_come = with_children_ && made->kind != ForkKind::kVfork;
  if (!to_come || process == 0 || session_->end_wanted()) return false;
  const auto opened = Open(parent, *made);
  session_->Keep(opened.status());
  return opened.ok();
}

void RecordedFamily::TakeBirths() {
  std::vector<RecordedBirth> births;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    births.swap(births_);
  }
  for (RecordedBirth& birth : births) OnBirth(std::move(birth));
}

void RecordedFamily::OnBirth(RecordedBirth birth) {
  switch (birth.kind) {
    case RecordedBirth::Kind::kForked:
    case RecordedBirth::Kind::kSharing:
    case RecordedBirth::Kind::kNative:
      OnMadeProcess(std::move(birth));
      break;
    case RecordedBirth::Kind::kExecuted:
      OnExecuted(std::move(birth));
      break;
    case RecordedBirth::Kind::kLost:
      if (TranslatedRecording* const recording = Find(birth.process)) {
        recording->Abandon("executes a program that engine translate cannot record");
        Report(*recording, "executes a program that engine translate cannot record");
      }
      break;
  }
}

// Readers of rings that others use as well are theirs.
RecordedMemory RecordedFamily::MemoryOf(const RecordedBirth& birth,
                                        const TranslatedRecording& parent) const {
  if (parent.memory().file != birth.file) return MakeRecordedMemory(birth.file, birth.code);
  RecordedMemory memory = parent.memory();
  memory.borrowed = true;
  return memory;
}

void RecordedFamily::OnMadeProcess(RecordedBirth birth) {
  TranslatedRecording* const parent = Find(birth.parent);
  // It counts from where its maker's program began.
  const uint64_t count =
      parent == nullptr ? birth.maker_count : parent->CountOf(birth.maker, birth.maker_count);
  MadeProcess made = {.process = birth.process, .maker = birth.maker, .maker_count = count};
  if (parent != nullptr) made.sequence = parent->SequenceOfCall(made.maker, count);
  const bool ended = ended_unborn_.erase({made.maker, made.maker_count}) != 0;
  const bool follows =
      parent != nullptr && !ended && !parent->abandoned() && !session_->end_wanted();
  if (!follows) {
    const bool shares = birth.kind == RecordedBirth::Kind::kSharing && parent != nullptr;
    if (!shares && birth.file != nullptr) LetGo(MakeRecordedMemory(birth.file, birth.code));
    return;
  }
  TranslatedRecording* child = Find(birth.process);
  if (child == nullptr || child->attached()) {
    const auto opened = Open(parent, made);
    session_->Keep(opened.status());
    if (!opened.ok()) return;
    child = *opened;
    born_[{made.maker, made.maker_count}] = birth.process;
  }
  if (birth.kind == RecordedBirth::Kind::kNative) {
    // The call that has made it may have been logged, as one whose child is recorded.
    constexpr char kReason[] = "has nothing left that engine translate could record it with";
    child->AttachNothing();
    child->Abandon(kReason);
    Report(*child, kReason);
    return;
  }
  session_->Keep(child->Attach(MemoryOf(birth, *parent), birth.ring));
}

void RecordedFamily::OnExecuted(RecordedBirth birth) {
  RecordedMemory memory = MakeRecordedMemory(birth.file, birth.code);
  TranslatedRecording* const recording = Find(birth.process);
  if (recording == nullptr || recording->closed() || !recording->attached()) {
    LetGo(std::move(memory));
    return;
  }
  session_->Keep(recording->Replace(std::move(memory), birth.ring));
}

// It runs on unrecorded.
void RecordedFamily::LetGo(RecordedMemory memory) {
  memory.LetGo();
  unread_.push_back(std::move(memory));
}

void RecordedFamily::Listen(Attention* attention) const {
  for (const TranslatedRecording& recording : recordings_) {
    const MemoryFile* const file = recording.memory().file.get();
    if (file != nullptr && !recording.closed()) attention->Note(&file->control()->attention);
  }
}

bool RecordedFamily::Advance() {
  TakeBirths();
  const absl::StatusOr<bool> some = merger_.Drain();
  session_->Keep(some.status());
  const bool more = some.ok() && *some;
  // It takes long where there are a thousand.
  const uint64_t began = session_->NowNs();
  if (more && began < settle_ns_) return true;
  SettleAll();
  FinishChildren();
  const uint64_t ended = session_->NowNs();
  settle_ns_ = ended + 2 * (ended - began);
  return more;
}

void RecordedFamily::SettleAll() {
  for (TranslatedRecording& recording : recordings_) {
    recording.Settle();
    recording.AskForSnapshots();
    EndWhoLeft(&recording);
    ReportChildren(recording);
  }
  for (const RecordedMemory& memory : unread_) memory.rings->SkipOthers();
}

void RecordedFamily::EndWhoLeft(TranslatedRecording* recording) {
  const std::string reason = recording->ReasonLeft();
  if (reason.empty() || recording->closed()) return;
  recording->Abandon(reason);
  Report(*recording, reason);
}

void RecordedFamily::FinishChildren() {
  for (TranslatedRecording& recording : recordings_) {
    if (&recording == &recordings_.front() || recording.closed() || !recording.IsGone()) continue;
    session_->Keep(recording.Finish(std::nullopt));
    EndWhoLeft(&recording);
  }
  CloseFinished();
}

// The trace is needed as long as children of the process may be born.
void RecordedFamily::CloseFinished() {
  std::vector<TranslatedRecording*> finished;
  for (TranslatedRecording& recording : recordings_) {
    const bool first = &recording == &recordings_.front();
    if (!first && recording.closed() && recording.IsGone() && !recording.HasChildrenToCome()) {
      finished.push_back(&recording);
    }
  }
  if (finished.empty()) return;
  TakeBirths();  // who was announced until then
  for (TranslatedRecording* const recording : finished) {
    ProcessLog* const log = recording->log();
    if (!recording->attached()) {
      const Manifest& manifest = log->manifest();
      ended_unborn_.insert({manifest.parent_thread, manifest.parent_count});
    }
    recordings_.remove_if([=](const TranslatedRecording& open) { return &open == recording; });
    session_->Close(log);
  }
}

void RecordedFamily::FinishProgram(int wait_status) {
  TranslatedRecording& program = recordings_.front();
  const bool told = program.closed();
  if (told) program.log()->NoteUnrecordedExit(wait_status);
  session_->Keep(program.Finish(wait_status));
  const std::string reason = program.ReasonLeft();
  if (!reason.empty() && !told) Report(program, reason);
}

void RecordedFamily::Abandon(const std::string& reason) {
  if (!recordings_.front().closed()) Report(recordings_.front(), reason);
  for (TranslatedRecording& recording : recordings_) {
    recording.Abandon(reason);
    recording.LetGo();
  }
}

uint64_t RecordedFamily::instructions() const {
  uint64_t sum = 0;
  for (const TranslatedRecording& recording : recordings_) sum += recording.instructions();
  return sum;
}

uint64_t RecordedFamily::living() const {
  uint64_t count = 0;
  for (const TranslatedRecording& recording : recordings_) count += !recording.IsGone();
  return count;
}

void RecordedFamily::Report(const TranslatedRecording& recording, const std::string& reason) const {
  std::fprintf(stderr, "hindsight: %s (process %d) %s: its recording ends here, it runs on\n",
               Printable(recording.program()).c_str(), recording.pid(), Printable(reason).c_str());
}

// Who wants children to be recorded must know that they are not.
void RecordedFamily::ReportChildren(const TranslatedRecording& recording) {
  if (!recording.has_children() || session_->options().children == ChildPolicy::kNone ||
      std::exchange(reported_children_, true)) {
    return;
  }
  std::fprintf(
      stderr,
      "hindsight: a process that %s (process %d) has made is not recorded: engine translate "
      "cannot\n",
      Printable(recording.program()).c_str(), recording.pid());
}

}  // namespace hindsight
