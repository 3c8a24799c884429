// What was written is read back.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/unique_fd.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

std::string Text(absl::Span<const uint8_t> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(RoundTrip, Manifest) {
  TestTrace trace;
  trace.Finish();
  const OpenTrace read = trace.Read();
  const Manifest& manifest = read->manifest();
  const Manifest sample = SampleManifest();
  EXPECT_EQ(manifest.uuid, sample.uuid);
  EXPECT_EQ(manifest.program, sample.program);
  EXPECT_EQ(manifest.arguments, sample.arguments);
  EXPECT_EQ(manifest.environment, sample.environment);
  EXPECT_EQ(manifest.working_directory, sample.working_directory);
  EXPECT_EQ(manifest.pid, sample.pid);
  EXPECT_EQ(manifest.start_time_ns, sample.start_time_ns);
  EXPECT_EQ(manifest.host_cpu, sample.host_cpu);
  EXPECT_EQ(manifest.required_features, sample.required_features);
  EXPECT_EQ(manifest.engine, sample.engine);
  EXPECT_EQ(manifest.memory_model, sample.memory_model);
  EXPECT_EQ(manifest.register_layout, sample.register_layout);
  EXPECT_EQ(manifest.light_keyframe_interval, sample.light_keyframe_interval);
  EXPECT_EQ(manifest.full_keyframe_interval, sample.full_keyframe_interval);
  EXPECT_EQ(manifest.auxv, sample.auxv);
  EXPECT_EQ(manifest.state, TraceState::kComplete);
  EXPECT_EQ(manifest.exit_status, 256);
  EXPECT_EQ(manifest.end_sequence, 99);
  EXPECT_EQ(manifest.end_time_ns, 1000);
  EXPECT_TRUE(read->warnings().empty());
}

TEST(RoundTrip, EveryRecordKind) {
  const Record module_page = {
      1, PageImport{0x5000, false, 0, 0x2000, 0x8000000000000001, Lines(2, 3)}};
  Record cut_short = Effect(6);
  std::get<SideEffect>(cut_short.body).retired = false;
  std::get<SideEffect>(cut_short.body).kind = SideEffectKind::kSyscall;
  Record code = Line(8, 0x7fc0);
  std::get<LineImport>(code.body).code = true;

  TestTrace trace;
  ASSERT_EQ(*trace.writer()->AddModule("/proc/self/exe", -1, 1 << 30), 0);
  trace.Begin(0, 0, 5);
  for (const Record& record :
       {Page(0, 0x1000, 0b101), module_page, Line(2, 0x40), Effect(3, 9), Jump(5, 10), cut_short,
        Record{7, UncachedRead{0xabc, 4, 0x1234}}, code, StateHash(9, 0xfeed)}) {
    trace.Add(record);
  }
  trace.End(uint64_t{1} << 40);  // more than a difference of counts can hold
  trace.Finish();

  const OpenTrace read = trace.Read();
  const auto segment = read.Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  const std::vector<Record>& records = segment->records();
  ASSERT_EQ(records.size(), 10);
  const std::vector<uint64_t> counts = {0, 1, 2, 3, 5, 6, 7, 8, 9, uint64_t{1} << 40};
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(records[i].count, counts[i]);

  const auto& page = std::get<PageImport>(records[0].body);
  EXPECT_EQ(page.address, 0x1000);
  EXPECT_TRUE(page.first);
  EXPECT_EQ(page.module, -1);
  EXPECT_EQ(page.line_mask, 0b101);
  EXPECT_EQ(Text(page.lines), std::string(128, 7));
  const auto& of_module = std::get<PageImport>(records[1].body);
  EXPECT_FALSE(of_module.first);
  EXPECT_EQ(of_module.module, 0);
  EXPECT_EQ(of_module.module_offset, 0x2000);
  EXPECT_EQ(Text(of_module.lines), std::string(128, 3));
  const auto& line = std::get<LineImport>(records[2].body);
  EXPECT_EQ(line.address, 0x40);
  EXPECT_FALSE(line.code);
  EXPECT_EQ(Text(line.bytes), std::string(64, 9));
  const auto& effect = std::get<SideEffect>(records[3].body);
  EXPECT_EQ(effect.kind, SideEffectKind::kInstruction);
  EXPECT_EQ(effect.sequence, 9);
  EXPECT_TRUE(effect.retired);
  EXPECT_EQ(effect.register_hash, 3 * 77 + 1);
  EXPECT_EQ(effect.registers.index, (std::vector<uint16_t>{0, 2}));
  EXPECT_EQ(effect.registers.value, (std::vector<uint64_t>{3, 5}));
  const auto& jump = std::get<Discontinuity>(records[4].body);
  EXPECT_EQ(jump.kind, DiscontinuityKind::kSignal);
  EXPECT_EQ(jump.sequence, 10);
  EXPECT_EQ(jump.signal, 11);
  EXPECT_EQ(jump.siginfo, std::string(128, 's'));
  EXPECT_EQ(jump.registers.value, (std::vector<uint64_t>{5}));
  EXPECT_FALSE(std::get<SideEffect>(records[5].body).retired);
  EXPECT_EQ(std::get<SideEffect>(records[5].body).kind, SideEffectKind::kSyscall);
  const auto& uncached = std::get<UncachedRead>(records[6].body);
  EXPECT_EQ(uncached.address, 0xabc);
  EXPECT_EQ(uncached.size, 4);
  EXPECT_EQ(uncached.value, 0x1234);
  EXPECT_TRUE(std::get<LineImport>(records[7].body).code);
  EXPECT_EQ(std::get<RegisterHash>(records[8].body).hash, 0xfeed);
  ASSERT_NE(segment->end_registers(), nullptr);
  EXPECT_EQ(*segment->end_registers(), SampleRegisters(uint64_t{1} << 40));
  EXPECT_EQ(segment->end_count(), uint64_t{1} << 40);
}

TEST(RoundTrip, KnownLines) {
  Record page = Page(0, 0x1000, 0b111);
  std::get<PageImport>(page.body).known_mask = 0b010;
  TestTrace trace;
  trace.Begin(0).Add(Page(0, 0x2000)).Add(page).Add(Page(0, 0x3000)).End(1);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  EXPECT_EQ(std::get<PageImport>(segment->records()[0].body).known_mask, 0);
  EXPECT_EQ(std::get<PageImport>(segment->records()[1].body).known_mask, 0b010);
  EXPECT_EQ(std::get<PageImport>(segment->records()[2].body).known_mask, 0);
}

TEST(RoundTrip, InWhichTurnAPageCame) {
  TestTrace trace;
  trace.Begin(0);
  const std::vector<int> turns = {1, 0, 2, 1, 255};
  for (size_t i = 0; i < turns.size(); ++i) {
    Record page = Page(0, 0x1000 * (i + 1));
    std::get<PageImport>(page.body).turn = static_cast<uint8_t>(turns[i]);
    trace.Add(page);
  }
  trace.End(1);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  std::vector<int> found;
  for (const Record& record : segment->records()) {
    if (const auto* page = std::get_if<PageImport>(&record.body)) found.push_back(page->turn);
  }
  EXPECT_EQ(found, turns);
}

TEST(RoundTrip, WhoShowedLines) {
  Record two = Page(0, 0x1000, 0b111), one = Page(0, 0x4000, 0b10);
  using Shown = std::vector<PageImport::Shown>;
  const Shown by_two = {{7, 0b100}, {-1, 0b101}}, by_one = {{8, 0b10}};
  std::get<PageImport>(two.body).shown = by_two;
  std::get<PageImport>(one.body).shown = by_one;
  TestTrace trace;
  trace.Begin(0).Add(Page(0, 0x2000)).Add(two).Add(Page(0, 0x3000)).Add(one).End(1);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  const std::vector<Shown> expected = {{}, by_two, {}, by_one};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::get<PageImport>(segment->records()[i].body).shown, expected[i]);
  }
}

// What a trace claims of lines that it does not bring.
TEST(RoundTrip, ShownLinesThatAreNotThereAreDamage) {
  Record page = Page(0, 0x1000, 0b111);
  std::get<PageImport>(page.body).shown = {{7, 0b1000}};
  TestTrace trace;
  trace.Begin(0).Add(page).End(1);
  trace.Finish();
  EXPECT_FALSE(trace.Read().Load(0)->damage().ok());
}

TEST(RoundTrip, OrderRuns) {
  const uint64_t far = uint64_t{1} << 40;
  const std::vector<uint64_t> few = {5}, more = {10, 11, 12, 500}, distant = {600, far - 1};
  TestTrace trace;
  trace.Begin(0, 5).Add({6, OrderRun{1, few}}).Add(Effect(9)).Add({501, OrderRun{2, more}});
  trace.Add({far, OrderRun{6, distant}}).Add({far, OrderRun{8, {}}}).End(far);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  ASSERT_EQ(segment->records().size(), 5);  // an empty run is none
  const auto run = [&](size_t i) { return std::get<OrderRun>(segment->records()[i].body); };
  EXPECT_EQ(run(0).first_sequence, 1);
  EXPECT_EQ(run(0).counts, few);
  EXPECT_EQ(segment->records()[2].count, 501);
  EXPECT_EQ(run(2).first_sequence, 2);
  EXPECT_EQ(run(2).counts, more);
  EXPECT_EQ(run(3).counts, distant);
}

TEST(RoundTrip, AnOrderRunTellsHowFarACutSegmentGoes) {
  const std::vector<uint64_t> counts = {5, 9};
  TestTrace trace;
  trace.Begin(0).Add(Effect(2)).Add({20, OrderRun{1, counts}}).Add(Page(20, 0x1000)).Flush();
  EXPECT_EQ(trace.Read().Load(0)->end_count(), 10);
}

TEST(RoundTrip, LongOrderRunsAreSplit) {
  std::vector<uint64_t> counts(1000000);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = 3 * i + (i % 7 == 0 ? 1 : 0);
  TestTrace trace;
  trace.Begin(0).Add({3000000, OrderRun{100, counts}}).Flush();
  EXPECT_GT(trace.BlockOffsets("threads/1/0.seg").size(), 4);
  trace.End(3000000);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  uint64_t next = 0, at_most = 0;
  for (const Record& record : segment->records()) {
    const auto* run = std::get_if<OrderRun>(&record.body);
    if (run == nullptr) continue;
    EXPECT_EQ(run->first_sequence, 100 + next);
    EXPECT_GE(run->counts.front(), at_most);
    EXPECT_LT(run->counts.back(), record.count);
    at_most = record.count;
    for (const uint64_t count : run->counts) ASSERT_EQ(count, counts[next++]);
  }
  EXPECT_EQ(next, counts.size());
  EXPECT_LT(segment->info().file_bytes, counts.size() / 2);
}

TEST(RoundTrip, SegmentsAfterAGapAndOfAClosedThread) {
  TestTrace trace;
  trace.Begin(0, 0).Add({5, Gap{"detached"}});
  trace.writer()->CloseThread(kThread);
  trace.Begin(1, 1000).End(1005).Begin(2, 1005).Add(Effect(1006));
  trace.writer()->CloseThread(kThread);  // what it has is kept
  EXPECT_FALSE(trace.writer()->Append(kThread, Effect(1007)).ok());
  trace.Begin(3, 1007).End(1010);
  trace.Finish();
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->segments(kThread).size(), 4);
  EXPECT_EQ(read.Load(1)->info().first_count, 1000);
  EXPECT_EQ(read.Load(2)->records().size(), 1);
}

TEST(RoundTrip, SegmentsOfThreads) {
  TestTrace trace;
  trace.Begin(0, 0, 1).End(10).Begin(1, 10, 7).Add({12, Gap{"lost"}});
  ASSERT_TRUE(trace.writer()->BeginSegment(2, 0, 3, 4, SampleRegisters(3)).ok());
  ASSERT_TRUE(trace.writer()->Append(2, {4, SegmentEnd{SampleRegisters(4)}}).ok());
  trace.Finish();
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->threads(), (std::vector<int32_t>{1, 2}));
  ASSERT_EQ(read->segments(1).size(), 2);
  EXPECT_EQ(read->segments(1)[1].number, 1);
  EXPECT_EQ(read->segments(1)[1].first_count, 10);
  EXPECT_EQ(read->segments(1)[1].first_sequence, 7);
  EXPECT_GT(read->segments(1)[1].file_bytes, 0);
  EXPECT_EQ(read.Load(1)->registers(), SampleRegisters(10));
  EXPECT_EQ(read.Load(1)->end_count(), 12);
  EXPECT_EQ(read.Load(1)->end_registers(), nullptr);
  EXPECT_EQ(std::get<Gap>(read.Load(1)->records()[0].body).reason, "lost");
  EXPECT_EQ(read.Load(0, 2)->info().first_count, 3);
  EXPECT_TRUE(read->segments(77).empty());
  EXPECT_TRUE(absl::IsNotFound(read->LoadSegment(1, 2).status()));
}

TEST(RoundTrip, Events) {
  MapRegion region;
  region.start = 0x1000;
  region.end = 0x3000;
  region.protection = 5;
  region.shared = true;
  region.file_offset = 0x7000;
  region.device_major = 8;
  region.device_minor = 2;
  region.inode = 77;
  region.name = "/lib/x.so";
  region.module = 3;
  ProcessEvent event;
  event.kind = EventKind::kSyscall;
  event.sequence = 4;
  event.thread = kThread;
  event.count = 1000;
  event.number = 59;
  event.arguments = {1, 2, 3, 4, 5, 6};
  event.result = -2;
  event.text = "text";
  event.maps = {region, MapRegion()};
  TestTrace trace;
  trace.Event(event).Event(ProcessEvent()).Flush().Event(event);
  trace.Finish();
  const OpenTrace read = trace.Read();
  ASSERT_EQ(read->events().size(), 3);
  for (const size_t i : {0, 2}) {
    const ProcessEvent& back = read->events()[i];
    EXPECT_EQ(back.kind, event.kind);
    EXPECT_EQ(back.sequence, event.sequence);
    EXPECT_EQ(back.thread, event.thread);
    EXPECT_EQ(back.count, event.count);
    EXPECT_EQ(back.number, event.number);
    EXPECT_EQ(back.arguments, event.arguments);
    EXPECT_EQ(back.result, event.result);
    EXPECT_EQ(back.text, event.text);
    EXPECT_EQ(back.maps, event.maps);
  }
  EXPECT_EQ(read->events()[1].kind, EventKind::kNote);
  EXPECT_TRUE(read->events()[1].maps.empty());
}

TEST(RoundTrip, PartsOfTheMapComeBack) {
  const ProcessEvent part = {.kind = EventKind::kMapPart,
                             .count = 7,
                             .arguments = {0x1000, 0x4000, 0x4000, 0x5000, 0x9000, 0xa000},
                             .maps = {{.start = 0x1000, .end = 0x2000, .name = "[heap]"},
                                      {.start = 0x3000, .end = 0x4000},
                                      {.start = 0x9000, .end = 0xa000}}};
  const ProcessEvent none = {.kind = EventKind::kMapPart, .arguments = {0x1000, 0x2000}};
  TestTrace trace;
  trace.Event(part).Event(none);
  trace.Finish();
  const OpenTrace read = trace.Read();
  ASSERT_EQ(read->events().size(), 2);
  EXPECT_EQ(read->events()[0].arguments, part.arguments);
  EXPECT_EQ(read->events()[0].maps, part.maps);
  EXPECT_TRUE(read->events()[1].maps.empty());
  EXPECT_TRUE(read->damage().empty());
}

TEST(RoundTrip, KeyframesShareThePagesTheyHaveInCommon) {
  std::vector<std::pair<uint64_t, uint8_t>> pages;
  for (int i = 0; i < 100; ++i) pages.emplace_back(i * kPageBytes, static_cast<uint8_t>(i));
  TestTrace trace;
  trace.Keyframe(1, pages);
  pages[50].second = 200;
  trace.Keyframe(2, pages);
  trace.Finish();
  // Every group but the one of page 50 is shared, and page 0 is zero.
  const OpenTrace read = trace.Read();
  ASSERT_EQ(read->full_keyframes().size(), 2);
  EXPECT_EQ(trace.BlockOffsets("full/1").size() - 1, 1 + 7 + 1 + 1);
  EXPECT_EQ(trace.BlockOffsets("full/2").size() - 1, 1 + 1 + 1 + 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read.FirstByte(0, i * kPageBytes), i);
    EXPECT_EQ(read.FirstByte(1, i * kPageBytes), i == 50 ? 200 : i);
  }
  const FullKeyframe& second = *read->full_keyframes()[1];
  EXPECT_EQ(second.number(), 2);
  EXPECT_EQ(second.sequence(), 3);
  EXPECT_EQ(second.page_count(), 100);
  EXPECT_EQ(second.page_addresses().size(), 100);
  ASSERT_EQ(second.threads().size(), 1);
  EXPECT_EQ(second.threads()[0].count, 5);
  EXPECT_EQ(second.threads()[0].registers, SampleRegisters(5));
  std::vector<uint8_t> page(kPageBytes);
  EXPECT_TRUE(absl::IsNotFound(second.ReadPage(100 * kPageBytes, absl::MakeSpan(page))));
}

TEST(RoundTrip, ManyThreadsReadAtOnce) {
  // More groups than are kept decoded, so that the threads push out each other's.
  constexpr uint64_t kPages = 100 * 16;
  TestTrace trace;
  ASSERT_TRUE(trace.writer()->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  std::vector<uint8_t> page(kPageBytes, 1);
  for (uint64_t i = 0; i < kPages; ++i) {
    std::memcpy(page.data(), &i, sizeof(i));
    ASSERT_TRUE(trace.writer()->AddPage(i * kPageBytes, page).ok());
  }
  ASSERT_TRUE(trace.writer()->FinishFullKeyframe().ok());
  trace.Begin(0).Add(Effect(1)).End(2);
  trace.Finish();
  const OpenTrace read = trace.Read();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (uint64_t stride : {1, 3, 7, 11}) {
    threads.emplace_back([&, stride] {
      uint8_t bytes[kPageBytes];
      for (uint64_t i = 0; i < kPages; ++i) {
        const uint64_t wanted = i * stride % kPages;
        uint64_t found = 0;
        if (!read->full_keyframes()[0]->ReadPage(wanted * kPageBytes, absl::MakeSpan(bytes)).ok()) {
          continue;
        }
        std::memcpy(&found, bytes, sizeof(found));
        if (found == wanted) ++right;
      }
      if (read.Load(0)->records().size() == 2) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * (kPages + 1));
}

TEST(RoundTrip, ModulePagesAreByReference) {
  TestTrace trace;
  std::string file(3 * kPageBytes - 100, '\0');
  std::iota(file.begin(), file.end(), 1);
  for (size_t i = 0; i < file.size(); i += kPageBytes)
    file[i] = static_cast<char>('A' + i / kPageBytes);
  const std::string path = trace.Path("program");
  trace.SetBytes("program", file);
  const auto module = trace.writer()->AddModule(path, -1, 1 << 20);
  ASSERT_TRUE(module.ok()) << module.status();
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  EXPECT_EQ(*trace.writer()->AddModule(path, fd.get(), 1 << 20), *module);  // there already
  EXPECT_EQ(*trace.writer()->AddModule(path, -1, 10), *module + 1);         // too large: listed
  EXPECT_TRUE(absl::IsNotFound(trace.writer()->AddModule("/no/such", -1, 10).status()));

  ASSERT_TRUE(trace.writer()->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  ASSERT_TRUE(trace.writer()->AddModulePage(0x1000, *module, 2 * kPageBytes).ok());
  std::vector<uint8_t> page(file.begin(), file.begin() + kPageBytes);
  ASSERT_TRUE(trace.writer()->AddPage(0x2000, page).ok());  // found by its bytes
  EXPECT_FALSE(trace.writer()->AddModulePage(0x3000, *module + 1, 0).ok());
  ASSERT_TRUE(trace.writer()->FinishFullKeyframe().ok());
  trace.Finish();

  const OpenTrace read = trace.Read();
  EXPECT_EQ(trace.BlockOffsets("full/1").size() - 1, 3);  // no group of pages
  EXPECT_EQ(read.FirstByte(0, 0x1000), 'C');
  EXPECT_EQ(read.FirstByte(0, 0x2000), 'A');
  ASSERT_TRUE(read->full_keyframes()[0]->ReadPage(0x1000, absl::MakeSpan(page)).ok());
  EXPECT_EQ(page[kPageBytes - 1], 0);  // after the end of the file
  ASSERT_EQ(read->modules().size(), 2);
  EXPECT_EQ(read->modules().at(0).path, path);
  EXPECT_EQ(read->modules().at(0).size_bytes, file.size());
  EXPECT_TRUE(read->modules().at(0).stored);
  EXPECT_FALSE(read->modules().at(1).stored);
  EXPECT_EQ(Text(*read->ModuleBytes(0)), file);
  EXPECT_TRUE(absl::IsNotFound(read->ModuleBytes(1).status()));
  EXPECT_TRUE(absl::IsNotFound(read->ModuleBytes(2).status()));
  EXPECT_GT(read->sizes().modules, file.size());
}

TEST(RoundTrip, BuildIdOfARealProgram) {
  TestTrace trace;
  ASSERT_TRUE(trace.writer()->AddModule("/bin/sh", -1, 1 << 30).ok());
  trace.Finish();
  EXPECT_EQ(trace.Read()->modules().at(0).build_id.size(), 20);
}

TEST(RoundTrip, TotalsAreWhatWasWritten) {
  TestTrace trace;
  trace.Begin(0).Add(Page(0, 0x1000)).Add(Effect(3)).End(10);
  std::vector<uint64_t> ordered(40000);
  for (size_t i = 0; i < ordered.size(); ++i) ordered[i] = 10 + i;
  trace.Begin(1, 10).Add({50010, OrderRun{1, ordered}}).Add({50010, Gap{"a pause"}});
  trace.Event({.kind = EventKind::kSyscall, .count = 4}).Event({.kind = EventKind::kNote});
  trace.Keyframe(1, {{0x1000, 7}}).Keyframe(2, {{0x1000, 7}});
  trace.writer()->CloseThread(kThread);
  trace.Finish();
  const OpenTrace read = trace.Read();
  ASSERT_TRUE(read->manifest().totals.has_value());
  const size_t records = read.Load(0)->records().size() + read.Load(1)->records().size();
  EXPECT_EQ(records, 3 + 3);  // the long run is split
  EXPECT_EQ(
      *read->manifest().totals,
      (TraceTotals{.threads = {{kThread, 2, 50010, records}}, .events = 2, .full_keyframes = 2}));
}

TEST(RoundTrip, AnInterruptedTraceHasNoTotals) {
  TestTrace trace;
  trace.Begin(0).Add(Effect(3));
  trace.Abandon();
  EXPECT_FALSE(trace.Read()->manifest().totals.has_value());
}

TEST(RoundTrip, AMillionRecordsInManyBlocks) {
  constexpr uint64_t kRecords = 1000000;
  using Clock = std::chrono::steady_clock;
  TestTrace trace;
  trace.Begin(0);
  const Record effect = Effect(0);
  const Record line = Line(0, 0x1000);
  const auto start = Clock::now();
  for (uint64_t i = 0; i < kRecords; ++i) {
    Record record = i % 2 == 0 ? effect : line;
    record.count = i * 3;
    ASSERT_TRUE(trace.writer()->Append(kThread, record).ok());
  }
  const auto appended = Clock::now();
  trace.End(kRecords * 3);
  trace.Finish();
  const OpenTrace read = trace.Read();
  const auto opened = Clock::now();
  const auto segment = read.Load(0);
  const auto loaded = Clock::now();
  ASSERT_EQ(segment->records().size(), kRecords + 1);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_EQ(segment->records()[i].count, i * 3);
  EXPECT_TRUE(segment->damage().ok());
  const auto ms = [](auto d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::printf("append %d ms, load %d ms, %d bytes\n", static_cast<int>(ms(appended - start)),
              static_cast<int>(ms(loaded - opened)), static_cast<int>(segment->info().file_bytes));
}

}  // namespace
}  // namespace hindsight
