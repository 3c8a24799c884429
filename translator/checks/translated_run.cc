#include "translator/checks/translated_run.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "isa/host_features.h"
#include "isa/operand_address.h"
#include "translator/runtime/operation.h"

namespace hindsight {
namespace {

constexpr uint64_t kArenaBytes = 1 << 20;
// Below GS: the table and the thread block.
constexpr uint64_t kGapBytes = 4 << 20;
constexpr uint64_t kLongestBlock = 1 << 16;
constexpr uint16_t kStatusFlags = 0x8d5;
// Before the entries of a ring.
constexpr uint64_t kRingHead = 64;
// Of one run; more are one again and again.
constexpr uint64_t kMostMisses = 10'000;

void MapFixed(uint64_t address, uint64_t bytes, int protection) {
  void* const wanted = reinterpret_cast<void*>(address);
  CHECK(mmap(wanted, bytes, protection,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

}  // namespace

TranslatedRun::TranslatedRun(Machine* machine, Options options)
    : machine_(machine), options_(std::move(options)) {
  MapFixed(options_.arena, kArenaBytes, PROT_READ | PROT_WRITE | PROT_EXEC);
  MapFixed(options_.distance - kGapBytes, kGapBytes, PROT_READ | PROT_WRITE);
  table()[0].pc = HS_TABLE_EMPTY;
  Flush();
}

TranslatedRun::~TranslatedRun() {
  munmap(reinterpret_cast<void*>(options_.arena), kArenaBytes);
  munmap(reinterpret_cast<void*>(options_.distance - kGapBytes), kGapBytes);
}

void TranslatedRun::Flush() {
  ++flushed_;
  translated_.clear();
  host_blocks_.clear();
  branches_.clear();
  const Stubs stubs = EmitStubs(options_.arena, options_.exclusive);
  std::memcpy(reinterpret_cast<void*>(options_.arena), stubs.code.data(), stubs.code.size());
  stubs_ = stubs.addresses;
  trap_ = options_.arena + kStubBytes;
  *reinterpret_cast<uint8_t*>(trap_) = 0xcc;
  next_host_ = trap_ + kHostAlignment;
  for (HsTableEntry* entry : table_used_) *entry = {};
  table_used_.clear();
  HsForgetPlaces(block(), options_.arena);
}

HsThreadBlock* TranslatedRun::block() const {
  return reinterpret_cast<HsThreadBlock*>(options_.distance + HS_BLOCK_OFFSET);
}

HsTableEntry* TranslatedRun::table() const {
  return reinterpret_cast<HsTableEntry*>(options_.distance + HS_TABLE_OFFSET);
}

std::vector<uint64_t> TranslatedRun::LockedCounts() const {
  std::vector<uint64_t> counts;
  const auto* bytes = reinterpret_cast<const uint8_t*>(ring_.data());
  for (uint64_t at = 0; at < ring_[HS_LOCKED_HEAD / 8]; at += sizeof(HsLockedEntry)) {
    HsLockedEntry entry;
    std::memcpy(&entry, bytes + kRingHead + at, sizeof(entry));
    CHECK(entry.size == sizeof(entry) && entry.kind == HS_LOCKED_KIND && entry.time != 0);
    counts.push_back(entry.count);
  }
  counts.insert(counts.end(), ordered_left_.begin(), ordered_left_.end());
  std::sort(counts.begin(), counts.end());
  return counts;
}

// 0: it cannot be translated.
uint64_t TranslatedRun::HostOf(uint64_t guest_pc) {
  const auto known = translated_.find(guest_pc);
  if (known != translated_.end()) return known->second;
  const uint64_t host = TranslateAt(guest_pc, false);
  if (host != 0) translated_[guest_pc] = host;
  return host;
}

uint64_t TranslatedRun::TranslateAt(uint64_t guest_pc, bool trust_view) {
  next_guest_ = guest_pc;
  if (next_host_ + kLongestBlock > options_.arena + kArenaBytes) return 0;
  TranslateRequest request = {.guest_pc = guest_pc,
                              .bytes = options_.code_at(guest_pc),
                              .host_address = next_host_,
                              .flavour = options_.flavour,
                              .stubs = stubs_,
                              .max_instructions = trust_view ? 1 : options_.max_instructions,
                              .code_at = options_.code_at,
                              .operations = options_.operations,
                              .order = options_.order,
                              .masks = HostHasMasks(),
                              .left_to_agent = options_.left_to_agent,
                              .may_change = options_.by_any_store,
                              .by_any_store = options_.by_any_store,
                              .trust_view = trust_view,
                              .exclusive = options_.exclusive,
                              .watches_loads = options_.watches_loads,
                              .failing_checks = options_.failing_checks};
  const absl::StatusOr<TranslatedBlock> made = Translate(request);
  if (!made.ok()) return 0;
  ++blocks_;
  return Place(guest_pc, *made);
}

uint64_t TranslatedRun::Place(uint64_t guest_pc, const TranslatedBlock& made) {
  CHECK(made.code.size() < kLongestBlock);
  const uint64_t host = next_host_;
  std::memcpy(reinterpret_cast<void*>(host), made.code.data(), made.code.size());
  const auto bytes = static_cast<uint32_t>(made.code.size());
  next_host_ = (host + bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  host_blocks_[host] = {guest_pc, bytes, made.side};
  for (const Link& link : made.links) {
    branches_.emplace(link.guest_target, host + link.rel32_offset);
  }
  return host;
}

// What the table of indirect branches says of `guest_pc`, which was translated to `host`.
uint64_t TranslatedRun::HostOfIndirect(uint64_t guest_pc, uint64_t host) {
  const auto block = host_blocks_.find(host);
  if (block == host_blocks_.end() || block->second.side.front().flags_exact == 0) return host;
  if (next_host_ + kLongestBlock > options_.arena + kArenaBytes) return 0;
  const auto made =
      TranslateIndirectTo({.guest_pc = guest_pc, .host_address = next_host_, .stubs = stubs_});
  CHECK(made.ok());
  return Place(guest_pc, *made);
}

void TranslatedRun::EnterInTable(uint64_t guest_pc, uint64_t host) {
  HsTableEntry& entry = table()[guest_pc % HS_TABLE_ENTRIES];
  if (host == 0 || entry.pc != 0) return;
  entry = {guest_pc, host};
  table_used_.push_back(&entry);
}

// Where to go on once memory and view agree; 0: they do not.
uint64_t TranslatedRun::HostAfterMiss(RegisterFile* registers) {
  const HsThreadBlock& at = *block();
  ++misses_;
  CHECK(++misses_here_ < kMostMisses);
  if (!on_miss_ || !on_miss_(at.exit_address, at.exit_size)) return 0;
  if (!begin_trust_ && options_.failing_checks == 0) return at.exit_host_pc;
  if (begin_trust_) begin_trust_(at.exit_address, at.exit_size);
  registers->gpr[kR10] -= static_cast<uint64_t>(int64_t{at.exit_adjust});
  entry_flags_ = at.exit_flags_exact;
  return TranslateAt(at.exit_guest_pc, true);
}

void TranslatedRun::Reserve(RegisterFile* registers) {
  block()->guest_r10 = registers->gpr[kR10];
  block()->guest_r11 = registers->gpr[kR11];
  block()->fs_base = registers->fs_base;
  block()->gs_base = registers->gs_base;
  registers->gs_base = HsGsBase(options_.distance);
  registers->gpr[kR11] = 0xdeaddead;
}

void TranslatedRun::Restore(RegisterFile* registers) const {
  registers->gpr[kR10] = block()->guest_r10;
  registers->gpr[kR11] = block()->guest_r11;
  registers->gs_base = block()->gs_base;
}

GuestStop TranslatedRun::Run(const RegisterFile& registers, uint64_t limit) {
  std::memset(block(), 0xa5, sizeof(*block()));
  block()->zero = 0;
  RegisterFile host = registers;
  entry_flags_ = kStatusFlags;
  misses_here_ = 0;
  told_.clear();
  ordered_left_.clear();
  Reserve(&host);
  ring_.fill(0);
  block()->locked_ring = reinterpret_cast<uint64_t>(ring_.data());
  block()->locked_bias = block()->locked_ring + kRingHead;
  block()->locked_limit = sizeof(ring_) - kRingHead - sizeof(HsLockedEntry) + 1;
  block()->agent_exit = trap_;
  block()->count_end = limit;
  host.gpr[kR10] = limit;
  host.rip = HostOf(registers.rip);
  while (host.rip != 0) {
    const MachineStop stop = machine_->Run(host);
    if (end_trust_) end_trust_();
    host = stop.registers;
    if (stop.signal != SIGTRAP || stop.registers.rip != trap_ + 1) return AtFault(stop);
    host.gs_base = HsGsBase(options_.distance);
    if (!GoOn(&host)) return AtExit(host);
  }
  // Natively the fetch faults.
  GuestStop result = {.kind = GuestStop::kSignal, .signal = SIGSEGV, .registers = host};
  Restore(&result.registers);
  result.registers.rip = next_guest_;
  result.fault_address = next_guest_ + options_.code_at(next_guest_).size();
  result.count = limit - host.gpr[kR10];
  result.flags_exact = block()->exit_flags_exact;
  return result;
}

uint64_t TranslatedRun::HostAfterBranch() {
  if (options_.flush_every != 0 && ++looked_for_ % options_.flush_every == 0) Flush();
  return HostOf(block()->exit_guest_pc);
}

void TranslatedRun::Tell(const RegisterFile& registers) {
  HsThreadBlock& at = *block();
  ToldState& told = told_.emplace_back();
  told.registers = registers;
  Restore(&told.registers);
  told.registers.rip = at.exit_guest_pc;
  at.float_code = static_cast<uint32_t>(registers.fip);
  at.float_opcode = static_cast<uint32_t>(registers.fop) << 16;
  at.float_data = static_cast<uint32_t>(registers.fdp);
  told.flags_exact = at.exit_flags_exact & entry_flags_;
  told.count = at.count_end - registers.gpr[kR10] + static_cast<int64_t>(at.exit_adjust);
}

// Has all branches to the guest's pc lead there.
void TranslatedRun::LinkTo(uint64_t guest_pc, uint64_t host) {
  const auto [first, last] = branches_.equal_range(guest_pc);
  for (auto branch = first; branch != last; ++branch) {
    const uint64_t site = branch->second;
    CHECK(site % 4 == 0);
    const auto rel = static_cast<int32_t>(host - (site + 4));
    std::memcpy(reinterpret_cast<void*>(site), &rel, sizeof(rel));
  }
  branches_.erase(first, last);
}

// At an exit after which the guest just goes on: prepares that.
bool TranslatedRun::GoOn(RegisterFile* registers) {
  const HsThreadBlock& at = *block();
  registers->gpr[kR11] = 0xdeaddead;
  entry_flags_ = kStatusFlags;
  switch (at.exit_kind) {
    case kHsExitLink: {
      const uint64_t flushed = flushed_;
      registers->rip = HostAfterBranch();
      if (flushed_ == flushed && registers->rip != 0) LinkTo(at.exit_guest_pc, registers->rip);
      return true;
    }
    case kHsExitIndirect: {
      if (!IsCanonical(at.exit_guest_pc)) return false;
      const uint64_t pc = at.exit_guest_pc;
      if (at.exit_orderable != 0) ordered_left_.push_back(at.count_end - registers->gpr[kR10] - 1);
      registers->rip = HostAfterBranch();
      // What a block that trusts the view goes on to is not looked up: it is to leave.
      if (registers->rip == 0 || begin_trust_) return true;
      EnterInTable(pc, HostOfIndirect(pc, registers->rip));
      return true;
    }
    case kHsExitMiss:
      registers->gpr[kR11] = at.guest_r11;
      registers->rip = HostAfterMiss(registers);
      return true;
    case kHsExitOperation:
      ++operations_;
      registers->rip = at.exit_host_pc;
      return RunOperation(registers);
    default:
      return false;
  }
}

// False: it faulted; the registers say how far it came.
bool TranslatedRun::RunOperation(RegisterFile* registers) {
  HsThreadBlock& at = *block();
  const auto* operation = reinterpret_cast<const HsOperation*>(at.exit_operation);
  if (operation->kind == kHsOrder) {
    const uint64_t count = at.count_end - registers->gpr[kR10];
    ordered_left_.push_back(count + static_cast<uint64_t>(int64_t{at.exit_adjust}));
    registers->gpr[kR11] = at.guest_r11;
    return true;
  }
  HsOperationRegisters guest;
  std::copy_n(registers->gpr, 16, guest.gpr);
  guest.gpr[kR10] = at.guest_r10;
  guest.gpr[kR11] = at.guest_r11;
  guest.rflags = registers->rflags;
  const HsOperationHooks hooks = {
      .context = this,
      .distance = options_.exclusive ? 0 : options_.distance,
      .fs_base = at.fs_base,
      .import = [](void* self, uint64_t address,
                   uint64_t bytes) { static_cast<TranslatedRun*>(self)->on_miss_(address, bytes); },
      .import_old = [](void*, uint64_t, uint64_t, const void*) {},
      .locked = nullptr};
  if (operation->kind == kHsCorrection) Tell(*registers);
  if (operation->done != 0) ++locked_left_;
  uint64_t fault_address = 0;
  const int signal = machine_->Try(
      [&] {
        if (operation->done != 0) {
          HsFinishOperation(operation, at.exit_address, at.locked_old, &guest, &hooks);
        } else {
          HsRunOperation(operation, at.exit_address, &guest, &hooks);
        }
      },
      &fault_address);
  at.guest_r10 = guest.gpr[kR10];
  at.guest_r11 = guest.gpr[kR11];
  const uint64_t counter = registers->gpr[kR10];
  std::copy_n(guest.gpr, 16, registers->gpr);
  registers->gpr[kR10] = counter;
  registers->rflags = guest.rflags;
  operation_signal_ = signal;
  operation_fault_ = fault_address;
  return signal == 0;
}

GuestStop TranslatedRun::AtExit(const RegisterFile& registers) {
  const HsThreadBlock& at = *block();
  GuestStop result;
  result.registers = registers;
  result.count = at.count_end - registers.gpr[kR10] + static_cast<int64_t>(at.exit_adjust);
  result.registers.rip = at.exit_guest_pc;
  result.flags_exact = at.exit_flags_exact & entry_flags_;
  Restore(&result.registers);
  switch (at.exit_kind) {
    case kHsExitIndirect:  // not canonical
      result.kind = GuestStop::kSignal;
      result.signal = SIGSEGV;
      result.registers.rip = at.exit_branch_pc;
      result.registers.gpr[kRsp] += at.exit_rsp_before;
      result.pushed = static_cast<int64_t>(at.exit_rsp_before) > 0;
      --result.count;
      break;
    case kHsExitOperation:
      result.kind = GuestStop::kSignal;
      result.signal = operation_signal_;
      result.fault_address = operation_fault_;
      break;
    case kHsExitSyscall:
      result.kind = GuestStop::kSyscall;
      break;
    case kHsExitCounter:
      result.kind = GuestStop::kCounter;
      break;
    case kHsExitInstruction:
      result.kind = GuestStop::kInstruction;
      break;
    default:
      result.what = absl::StrCat("exit of kind ", at.exit_kind);
      break;
  }
  return result;
}

GuestStop TranslatedRun::AtFault(const MachineStop& stop) {
  GuestStop result = {.kind = GuestStop::kSignal,
                      .signal = stop.signal,
                      .fault_address = stop.fault_address,
                      .registers = stop.registers};
  auto found = host_blocks_.upper_bound(stop.registers.rip);
  if (found != host_blocks_.begin()) --found;
  if (found == host_blocks_.end() || stop.registers.rip < found->first ||
      stop.registers.rip >= found->first + found->second.bytes) {
    result.kind = GuestStop::kBroken;
    result.what = absl::StrCat("a signal at ", absl::Hex(stop.registers.rip));
    return result;
  }
  const auto offset = static_cast<uint32_t>(stop.registers.rip - found->first);
  const std::vector<SideEntry>& side = found->second.side;
  auto entry = std::upper_bound(
      side.begin(), side.end(), offset,
      [](uint32_t wanted, const SideEntry& other) { return wanted < other.host_offset; });
  CHECK(entry != side.begin());
  --entry;
  result.flags_exact = entry->flags_exact & entry_flags_;
  for (size_t i = 0; i < entry->saved.size(); ++i) {
    if (entry->saved[i] < 16) result.registers.gpr[entry->saved[i]] = block()->save[i];
    if (entry->saved[i] == HS_FLAGS_ASIDE) {
      const uint64_t aside = block()->flags_aside;
      result.registers.rflags = (result.registers.rflags & ~uint64_t{kStatusFlags}) |
                                (aside >> 8 & 0xd5) | (aside & 1) << 11;
      result.flags_exact = kStatusFlags;
    }
    if (entry->saved[i] == HS_POPPED) result.registers.gpr[kRsp] -= 8;
    if (entry->saved[i] == HS_CARRY_SAVED) {
      result.registers.rflags = (result.registers.rflags & ~uint64_t{1}) | (block()->save[i] & 1);
    }
  }
  result.registers.rip = found->second.guest_pc + entry->guest_offset;
  result.count =
      block()->count_end - stop.registers.gpr[kR10] + static_cast<int64_t>(entry->adjust);
  Restore(&result.registers);
  return result;
}

}  // namespace hindsight
