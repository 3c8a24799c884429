// What a recording shows of memory is what was there, or nothing: a program changes memory in all
// the ways there are, somebody who is not recorded looks at it each time, and a timeline of the
// recording is asked at the same moments and in between, to and fro.

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/verify/verify.h"
#include "recorder/memory_observer.h"
#include "recorder/record.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

using Look = MemoryObserver::Look;

// Failures reported before a test gives up.
constexpr int kMaxFailures = 8;

// One process of the recording.
struct Process {
  std::unique_ptr<TraceReader> trace;
  std::unique_ptr<Timeline> timeline;
  std::vector<const Look*> looks;
  std::vector<uint64_t> moments;  // of looks
};

struct Tally {
  uint64_t pages = 0, unavailable = 0;
  double share() const { return pages == 0 ? 0 : static_cast<double>(unavailable) / pages; }
};

// A recording of the program, made once for all tests, and what was seen of it meanwhile.
class Recorded {
 public:
  explicit Recorded(uint32_t seed) {
    directory_ = testing::TempDir() + "/memory_truth." + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    observer_ = std::make_unique<MemoryObserver>(directory_ + "/requests", directory_ + "/answers");
    // Threads' restartable sequences have a word that the kernel changes whenever it likes.
    setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
    Record(seed);
    if (!testing::Test::HasFatalFailure()) OpenProcesses();
  }
  ~Recorded() {
    processes_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::vector<Process>& processes() { return processes_; }
  size_t looks() const { return observer_->looks().size(); }

 private:
  static constexpr int kRounds = 1500;

  void Record(uint32_t seed) {
    // A sanitizer of the program's own would look for leaks at its end, which it cannot do while
    // the program is traced.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    const std::string file = directory_ + "/file";
    std::ofstream(file) << std::string(4 * kPageBytes + 100, 'f');
    RecordOptions options;
    options.directory = directory_ + "/trace";
    options.arguments = {
        "recorder/testdata/memory_truth", absl::StrCat(seed),      absl::StrCat(kRounds),
        directory_ + "/requests",         directory_ + "/answers", file};
    options.light_keyframe_interval = 300'000;
    options.full_keyframe_interval = 1'500'000;
    std::thread observer([this] { observer_->Observe(); });
    auto result = RecordProgram(options);
    observer_->Stop();
    observer.join();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->wait_status, 0);
  }

  void OpenProcesses() {
    auto list = ListProcesses(directory_ + "/trace", nullptr);
    ASSERT_TRUE(list.ok()) << list.status();
    for (const ProcessInfo& info : *list) {
      Process process;
      process.trace = *TraceReader::Open(info.directory);
      process.timeline = *Timeline::Open(process.trace.get());
      for (const Look& look : observer_->looks()) {
        if (look.request.process == info.manifest.pid) process.looks.push_back(&look);
      }
      FindMoments(&process);
      if (!process.looks.empty()) processes_.push_back(std::move(process));
    }
    ASSERT_GT(processes_.size(), 1);
  }

  // A look was taken before the read of its answer.
  void FindMoments(Process* process) {
    if (process->looks.empty()) return;
    const auto& calls = process->timeline->process().syscalls();
    const auto reads = calls.find(SYS_read);
    ASSERT_NE(reads, calls.end());
    for (const TimelineEvent& call : reads->second) {
      if (static_cast<int>(call.event->arguments[0]) != process->looks[0]->request.answers) {
        continue;
      }
      process->moments.push_back(call.moment - 1);
    }
    ASSERT_EQ(process->moments.size(), process->looks.size());
  }

  std::string directory_;
  std::unique_ptr<MemoryObserver> observer_;
  std::vector<Process> processes_;
};

class MemoryTruthTest : public testing::Test {
 protected:
  MemoryTruthTest() : random_(TestSeed()) {}
  static void SetUpTestSuite() { recorded_ = new Recorded(TestSeed()); }
  static void TearDownTestSuite() { delete recorded_; }
  void SetUp() override { ASSERT_FALSE(recorded_->processes().empty()); }

  // The page as the timeline shows it; nullopt: it does not.
  static std::optional<MemoryObserver::Bytes> Read(Process& process, int32_t thread,
                                                   uint64_t page) {
    MemoryObserver::Bytes bytes;
    auto size = process.timeline->ReadMemory(thread, page, absl::MakeSpan(bytes));
    if (absl::IsNotFound(size.status())) return std::nullopt;
    EXPECT_TRUE(size.ok()) << size.status();
    if (!size.ok() || *size != kPageBytes) return std::nullopt;
    return bytes;
  }

  // Whether a page is shown, and shown as it was; `kind` counts it.
  bool Expect(Process& process, size_t index, int32_t thread, uint64_t page,
              const MemoryObserver::Bytes& truth) {
    const auto shown = Read(process, thread, page);
    const MapRegion* region = process.looks[index]->map.Find(page);
    Tally& tally = region->shared ? shared_ : private_;
    ++tally.pages;
    if (!shown.has_value()) {
      ++tally.unavailable;
      ++unavailable_of_[region->name];
      return true;
    }
    if (*shown == truth) return true;
    Report(process, index, thread, page, *shown, truth);
    return false;
  }

  // All of memory at the time of look `index`, as `thread` sees it.
  void ExpectTruth(Process& process, size_t index, int32_t thread) {
    const Look& look = *process.looks[index];
    for (const auto& [page, truth] : look.pages) {
      if (!Expect(process, index, thread, page, *truth) && ++failures_ >= kMaxFailures) return;
    }
    for (const uint64_t page : look.faulting) {
      if (Read(process, thread, page).has_value()) {
        ADD_FAILURE() << "look " << index << ": page " << std::hex << page << " cannot be read";
      }
    }
  }

  static void Report(Process& process, size_t index, int32_t thread, uint64_t page,
                     const MemoryObserver::Bytes& shown, const MemoryObserver::Bytes& truth) {
    const Look& look = *process.looks[index];
    size_t at = 0, differing = 0;
    for (size_t i = kPageBytes; i-- > 0;) {
      if (shown[i] == truth[i]) continue;
      at = i;
      ++differing;
    }
    ADD_FAILURE() << absl::StreamFormat(
        "process %d, look %d at moment %d, in situation %d; asked at %d of thread %d: %s at 0x%x: "
        "shown %02x, was %02x; %d bytes of the page differ; %s",
        look.request.process, index, process.moments[index], look.request.situation,
        process.timeline->moment(), thread, look.map.Find(page)->name, page + at, shown[at],
        truth[at], differing, SinceWhen(process, index, page, at));
  }

  // Which byte was there since when, and what the kernel did then.
  static std::string SinceWhen(const Process& process, size_t index, uint64_t page, size_t at) {
    const auto byte = [&](size_t look) -> int {
      const auto it = process.looks[look]->pages.find(page);
      return it == process.looks[look]->pages.end() ? -1 : (*it->second)[at];
    };
    size_t since = index;
    while (since > 0 && byte(since - 1) == byte(index)) --since;
    std::string text = absl::StrFormat("so since look %d", since);
    if (since == 0) return text;
    absl::StrAppend(&text, ", was ", byte(since - 1), "; calls there:");
    for (const auto& [number, calls] : process.timeline->process().syscalls()) {
      for (const TimelineEvent& call : calls) {
        if (call.moment <= process.moments[since - 1] || call.moment > process.moments[since]) {
          continue;
        }
        absl::StrAppend(&text, " ", number, "(");
        for (const uint64_t argument : call.event->arguments) {
          absl::StrAppend(&text, absl::Hex(argument), ",");
        }
        absl::StrAppend(&text, ")=", call.event->result);
      }
    }
    return text;
  }

  size_t Below(size_t bound) { return random_() % bound; }
  // Mostly the first one: it has most of the looks.
  Process& RandomProcess() {
    return recorded_->processes()[Below(2) == 0 ? 0 : Below(recorded_->processes().size())];
  }
  int32_t RandomThread(const Process& process) {
    const std::vector<int32_t> threads = process.timeline->threads();
    return threads[Below(threads.size())];
  }

  void Print(const char* what) const {
    std::printf("%s, of %d looks: private pages asked for %d, unavailable %d; shared %d, %d\n",
                what, static_cast<int>(recorded_->looks()), static_cast<int>(private_.pages),
                static_cast<int>(private_.unavailable), static_cast<int>(shared_.pages),
                static_cast<int>(shared_.unavailable));
    for (const auto& [name, count] : unavailable_of_) {
      std::printf("  unavailable of %s: %d\n", name.c_str(), static_cast<int>(count));
    }
  }

  static Recorded* recorded_;
  std::mt19937 random_;
  Tally private_, shared_;
  std::map<std::string, uint64_t> unavailable_of_;
  int failures_ = 0;
};

Recorded* MemoryTruthTest::recorded_ = nullptr;

TEST_F(MemoryTruthTest, AtTheMomentsLookedAt) {
  for (int i = 0; i < 150 && failures_ < kMaxFailures; ++i) {
    Process& process = RandomProcess();
    const size_t index = Below(process.looks.size());
    ASSERT_TRUE(process.timeline->SeekTo(process.moments[index]).ok());
    ExpectTruth(process, index, process.looks[index]->request.thread);
  }
  Print("at the moments");
  EXPECT_LT(private_.share(), 0.05);
}

// One that waits sees what the others have done.
TEST_F(MemoryTruthTest, WhicheverThreadIsAsked) {
  Process& process = recorded_->processes()[0];
  for (int i = 0; i < 50 && failures_ < kMaxFailures; ++i) {
    const size_t index = process.looks.size() / 3 + Below(process.looks.size() * 2 / 3);
    ASSERT_TRUE(process.timeline->SeekTo(process.moments[index]).ok());
    ExpectTruth(process, index, RandomThread(process));
  }
  Print("by any thread");
  EXPECT_LT(private_.share(), 0.05);
}

TEST_F(MemoryTruthTest, FromEachMomentToTheNextAndBack) {
  Process& process = recorded_->processes()[0];
  const size_t count = std::min<size_t>(100, process.looks.size());
  const size_t first = Below(process.looks.size() - count + 1);
  for (size_t i = 0; i < 2 * count && failures_ < kMaxFailures; ++i) {
    const size_t index = first + (i < count ? i : 2 * count - 1 - i);
    ASSERT_TRUE(process.timeline->SeekTo(process.moments[index]).ok());
    ExpectTruth(process, index, process.looks[index]->request.thread);
  }
  Print("one after the other");
  EXPECT_LT(private_.share(), 0.05);
}

// Memory to play with: other memory may change and change back between two looks.
bool IsPlayedWith(const MapRegion& region) {
  return region.inode == 0 && region.name.empty() && region.start >= 0x10000000 &&
         region.end <= 0x20000000;
}

TEST_F(MemoryTruthTest, BetweenTheMomentsWhatDidNotChange) {
  for (int i = 0; i < 300 && failures_ < kMaxFailures; ++i) {
    Process& process = RandomProcess();
    const size_t index = Below(process.looks.size());
    if (index == 0 || process.moments[index] <= process.moments[index - 1]) continue;
    const uint64_t between = process.moments[index] - process.moments[index - 1];
    ASSERT_TRUE(process.timeline->SeekTo(process.moments[index - 1] + Below(between)).ok());
    const int32_t thread = process.timeline->current_thread();
    const Look &before = *process.looks[index - 1], &after = *process.looks[index];
    for (const auto& [page, truth] : after.pages) {
      const auto earlier = before.pages.find(page);
      if (earlier == before.pages.end() || earlier->second != truth) continue;
      if (!IsPlayedWith(*after.map.Find(page))) continue;
      if (!Expect(process, index, thread, page, *truth) && ++failures_ >= kMaxFailures) break;
    }
  }
  Print("between");
  EXPECT_LT(private_.share(), 0.05);
}

TEST_F(MemoryTruthTest, ASearchBackwardFindsWhereItChanged) {
  int searched = 0, missed = 0;
  for (int i = 0; i < 400 && searched < 80 && failures_ < kMaxFailures; ++i) {
    Process& process = recorded_->processes()[0];
    const size_t index = 1 + Below(process.looks.size() - 1);
    const Look &before = *process.looks[index - 1], &after = *process.looks[index];
    // What is mapped anew changes without being written.
    if (!(before.map == after.map)) continue;
    std::vector<uint64_t> changed;
    for (const auto& [page, truth] : after.pages) {
      const auto earlier = before.pages.find(page);
      if (earlier == before.pages.end() || !IsPlayedWith(*after.map.Find(page))) continue;
      for (size_t k = 0; k < kPageBytes; ++k) {
        if ((*truth)[k] != 0 && (*truth)[k] != (*earlier->second)[k]) changed.push_back(page + k);
      }
    }
    if (changed.empty()) continue;
    const uint64_t address = changed[Below(changed.size())];
    ASSERT_TRUE(process.timeline->SeekTo(process.moments[index]).ok());
    if (!Read(process, process.timeline->current_thread(), address & ~(kPageBytes - 1))) continue;
    ++searched;
    RunRequest request{.direction = Direction::kBackward,
                       .watchpoints = {{.address = address, .length = 1}}};
    request.stop_for_signal = [](int) { return false; };
    auto stop = process.timeline->Run(request);
    ASSERT_TRUE(stop.ok()) << stop.status();
    const bool found = stop->kind == StopKind::kWatchpoint &&
                       process.timeline->moment() >= process.moments[index - 1];
    if (found) continue;
    // Or says that it was not known there.
    const auto covers = [&](const UnknownMemory& unknown) {
      return unknown.from <= process.moments[index] && unknown.to >= process.moments[index - 1];
    };
    ++missed;
    if (std::any_of(stop->unknown.begin(), stop->unknown.end(), covers)) continue;
    ADD_FAILURE() << absl::StreamFormat(
        "byte 0x%x changed between the moments %d and %d (look %d); the search ended at %d (%d)",
        address, process.moments[index - 1], process.moments[index], index,
        process.timeline->moment(), static_cast<int>(stop->kind));
    ++failures_;
  }
  std::printf("%d changes looked for, %d not found where memory was not known\n", searched, missed);
  EXPECT_GE(searched, 50);
  EXPECT_LT(missed, searched / 4);
}

}  // namespace
}  // namespace hindsight
