// Random programs in a Cpu that is run, stepped, stopped, set back and recycled at random must pass
// through the states that single steps give. SOAK_SEED and SOAK_PROGRAMS (per thread) explore
// further.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "emulator/checks/random_program.h"
#include "emulator/cpu/cpu.h"

namespace hindsight {
namespace {

constexpr uint64_t kNoLimit = ~uint64_t{0};
constexpr int kMaxSteps = 20'000;
using Memory = std::map<uint64_t, std::vector<uint8_t>>;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

// A Cpu with a program in it. Only what differs from what the Cpu has already is said to change.
class Machine final : public Pager {
 public:
  Machine() : cpu_(*Cpu::Create(this)) {}
  Cpu& cpu() { return *cpu_; }

  void Load(const RandomProgram& program) {
    memory_ = program.pages;
    cpu_->Recycle(this);
    cpu_->SetRegisters(program.start);
  }
  bool OnMissing(uint64_t page, Access access) override {
    const auto found = memory_.find(page);
    if (found == memory_.end()) return false;
    Put(page, found->second);
    cpu_->SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return true; }

  // What the program sees.
  Memory Image() {
    Memory image = memory_;
    for (auto& [page, bytes] : image) {
      if (cpu_->rights(page) != PageRights::kNone) {
        std::memcpy(bytes.data(), cpu_->HostPage(page), kPageBytes);
      }
    }
    return image;
  }
  void SetImage(const Memory& image) {
    memory_ = image;
    for (const auto& [page, bytes] : image) {
      if (cpu_->rights(page) != PageRights::kNone) Put(page, bytes);
    }
  }
  // Takes pages away; they come back with what they hold.
  void Forget(const std::vector<uint64_t>& pages) {
    memory_ = Image();
    cpu_->DropRights(pages);
  }
  std::vector<uint64_t> SomePages(std::mt19937_64* random) const {
    std::vector<uint64_t> pages;
    for (const auto& [page, bytes] : memory_) {
      if ((*random)() % 3 == 0) pages.push_back(page);
    }
    return pages;
  }

 private:
  void Put(uint64_t page, const std::vector<uint8_t>& bytes) {
    uint8_t* host = cpu_->HostPage(page);
    uint64_t lines = 0;
    for (uint64_t line = 0; line < kPageBytes / kLineBytes; ++line) {
      const uint64_t at = line * kLineBytes;
      if (std::memcmp(host + at, &bytes[at], kLineBytes) != 0) lines |= uint64_t{1} << line;
    }
    if (lines == 0) return;
    std::memcpy(host, bytes.data(), kPageBytes);
    cpu_->ContentsChanged(page, lines);
  }

  std::unique_ptr<Cpu> cpu_;
  Memory memory_;
};

// What single steps make of a program.
struct Reference {
  std::vector<RegisterFile> states;  // by count
  std::vector<uint64_t> orderable;
  Stop end = Stop::kLimit;
  Memory memory;
};

Reference StepThrough(Machine* machine, const RandomProgram& program, MemoryModel model) {
  Reference reference;
  machine->Load(program);
  machine->cpu().LogOrderable(model, &reference.orderable);
  reference.states.push_back(machine->cpu().registers());
  for (int i = 0; i < kMaxSteps && reference.end == Stop::kLimit; ++i) {
    reference.end = machine->cpu().Step().stop;
    if (reference.end == Stop::kLimit) reference.states.push_back(machine->cpu().registers());
  }
  reference.memory = machine->Image();
  return reference;
}

class Soak {
 public:
  Soak(Machine* machine, const RandomProgram& program, const Reference& reference,
       MemoryModel model, std::mt19937_64* random)
      : machine_(machine),
        cpu_(machine->cpu()),
        program_(program),
        reference_(reference),
        random_(random) {
    machine_->Load(program_);
    cpu_.LogOrderable(model, &orderable_);
    TakeSnapshot();
  }

  // Empty if all was as it should be.
  std::string Run() {
    while (true) {
      switch ((*random_)() % 10) {
        case 0:
          machine_->Forget(machine_->SomePages(random_));
          break;
        case 1:
          cpu_.ProtectWrites(machine_->SomePages(random_));
          break;
        case 2:
          TakeSnapshot();
          break;
        case 3:
          GoBack();
          break;
        case 4:
          if (std::optional<std::string> end = Steps((*random_)() % 20)) return *end;
          break;
        case 5:
          SetBreakpoints();
          break;
        case 6:
          SetWatchpoint();
          break;
        default:
          if (std::optional<std::string> end = Blocks()) return *end;
      }
      if (cpu_.count() >= reference_.states.size()) return "goes on too long";
      if (cpu_.registers() != reference_.states[cpu_.count()]) {
        return absl::StrCat("registers at count ", cpu_.count());
      }
    }
  }

 private:
  struct Snapshot {
    RegisterFile registers;
    uint64_t count = 0;
    Memory memory;
  };
  void TakeSnapshot() { snapshot_ = {cpu_.registers(), cpu_.count(), machine_->Image()}; }
  void GoBack() {
    machine_->SetImage(snapshot_.memory);
    cpu_.SetRegisters(snapshot_.registers);
    cpu_.set_count(snapshot_.count);
    while (!orderable_.empty() && orderable_.back() >= snapshot_.count) orderable_.pop_back();
  }

  // Where the program comes by, or none.
  void SetBreakpoints() {
    absl::flat_hash_set<uint64_t> addresses;
    for (uint64_t i = (*random_)() % 4; i > 0; --i) {
      addresses.insert(reference_.states[(*random_)() % reference_.states.size()].rip);
    }
    cpu_.SetBreakpoints(addresses);
    breakpoints_ = addresses;
  }
  // On the stack, or none.
  void SetWatchpoint() {
    std::vector<Watchpoint> watchpoints;
    if ((*random_)() % 2 == 0) {
      watchpoints.push_back({.address = program_.start.gpr[kRsp] - 16, .length = 8});
    }
    cpu_.SetWatchpoints(watchpoints);
  }

  std::optional<std::string> Steps(uint64_t steps) {
    for (; steps > 0; --steps) {
      const Stop stop = cpu_.Step().stop;
      if (stop != Stop::kLimit && stop != Stop::kWatch) return AtEnd(stop);
    }
    return std::nullopt;
  }

  std::optional<std::string> Blocks() {
    RunOptions options;
    if ((*random_)() % 4 != 0) options.limit = cpu_.count() + (*random_)() % 300;
    options.exact_limit = (*random_)() % 4 != 0;
    HitLog log;
    if ((*random_)() % 2 == 0) options.log_hits = &log;
    RunResult result = cpu_.Run(options);
    if (result.stop == Stop::kSpecial) return AtEnd(result.stop);
    if (result.stop == Stop::kBreakpoint) {
      if (!breakpoints_.contains(cpu_.pc())) return "no breakpoint there";
      return Steps(1);
    }
    if (result.stop != Stop::kFault) return std::nullopt;
    // What cpu.h asks of a caller.
    while (result.stop == Stop::kFault) {
      if (!orderable_.empty() && orderable_.back() >= result.block_count) return "log after kFault";
      GoBack();
      if (++faults_ > 1000) return "too many faults";
      cpu_.SetBreakpoints({});
      breakpoints_.clear();
      result = cpu_.Run({.limit = result.block_count});
    }
    return Steps(64);
  }

  std::optional<std::string> AtEnd(Stop stop) {
    if (stop != reference_.end || cpu_.count() + 1 != reference_.states.size() ||
        cpu_.registers() != reference_.states.back()) {
      return absl::StrCat("stop ", static_cast<int>(stop), " at count ", cpu_.count());
    }
    // What a faulting instruction has left in memory may differ.
    if (stop != Stop::kFault && machine_->Image() != reference_.memory) return "memory";
    if (orderable_ != reference_.orderable) return "orderable instructions";
    return "";
  }

  Machine* machine_;
  Cpu& cpu_;
  const RandomProgram& program_;
  const Reference& reference_;
  std::mt19937_64* random_;
  std::vector<uint64_t> orderable_;
  absl::flat_hash_set<uint64_t> breakpoints_;
  Snapshot snapshot_;
  int faults_ = 0;
};

void SoakOneThread(uint64_t seed, uint64_t programs) {
  Machine stepped, run;
  for (uint64_t i = 0; i < programs; ++i) {
    std::mt19937_64 random(seed + i);
    const auto patches = static_cast<unsigned>(random() % 3 == 0 ? 0 : random() % 30);
    const auto model = static_cast<MemoryModel>(random() % 4);
    const RandomProgram program = MakeRandomProgram(&random, patches);
    const Reference reference = StepThrough(&stepped, program, model);
    ASSERT_NE(reference.end, Stop::kLimit);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(Soak(&run, program, reference, model, &random).Run(), "")
          << "SOAK_SEED=" << seed + i << " round " << round;
    }
  }
}

TEST(CpuSoakTest, WhateverIsDoneTheStatesAreThoseOfSingleSteps) {
  const uint64_t seed = FromEnvironment("SOAK_SEED", 1);
  const uint64_t programs = FromEnvironment("SOAK_PROGRAMS", 12);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([=] { SoakOneThread(seed + t * 1'000'000, programs); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hindsight
