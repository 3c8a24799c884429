#include "recorder/ptrace/watch/code_places.h"

#include <algorithm>
#include <utility>

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;
constexpr uint8_t kSystemCalls[][2] = {{0x0f, 0x05}, {0x0f, 0x34}, {0xcd, 0x80}};

// A step over one could take for ever.
bool IsSystemCall(const ProcMemFile& memory, uint64_t address) {
  uint8_t code[2];
  if (!memory.Read(address, absl::MakeSpan(code))) return false;
  return std::any_of(std::begin(kSystemCalls), std::end(kSystemCalls),
                     [&](const auto& call) { return std::equal(code, code + 2, call); });
}

bool ReadByte(const ProcMemFile& memory, uint64_t address, uint8_t* byte) {
  return memory.Read(address, absl::MakeSpan(byte, 1));
}

// What is no int3 is not ours any more: other code was mapped there.
void Restore(ProcMemFile* memory, uint64_t address, uint8_t byte) {
  uint8_t there;
  if (ReadByte(*memory, address, &there) && there == kInt3) {
    memory->Write(address, absl::MakeConstSpan(&byte, 1));
  }
}

}  // namespace

void CodePlaces::Guard(const ProcMemFile& memory, uint64_t address, uint8_t byte) {
  if (unguarded_) return;
  if (guard_ == nullptr) {
    auto guard = BreakpointGuard::Start(memory);
    if (guard.ok()) guard_ = *std::move(guard);
  }
  unguarded_ = guard_ == nullptr || !guard_->Add(address, byte);
}

void CodePlaces::Insert(const ProcMemFile& memory, uint64_t address, Place* place) {
  uint8_t byte;
  if (!ReadByte(memory, address, &byte)) {
    place->in = false;  // not mapped, or no more
    return;
  }
  if (place->in && byte == kInt3) return;
  if (IsSystemCall(memory, address)) {
    refused_.insert(address);
    return;
  }
  place->byte = byte;
  Guard(memory, address, byte);
  // Writing whatever the rights of the page are.
  place->in = const_cast<ProcMemFile&>(memory).Write(address, absl::MakeConstSpan(&kInt3, 1));
  if (!place->in) refused_.insert(address);
}

void CodePlaces::Set(pid_t thread, const std::set<uint64_t>& addresses) {
  ProcMemFile memory(thread);
  for (auto& [address, place] : places_) {
    place.wanted = addresses.count(address) != 0;
    if (place.wanted || !place.in) continue;
    Restore(&memory, address, place.byte);
    place.in = false;
  }
  for (const uint64_t address : addresses) {
    Place& place = places_[address];
    place.wanted = true;
    Insert(memory, address, &place);
  }
}

void CodePlaces::TakeOutOne(pid_t thread, uint64_t address) {
  const auto found = places_.find(address);
  if (found == places_.end() || !found->second.in) return;
  ProcMemFile memory(thread);
  Restore(&memory, address, found->second.byte);
  found->second.in = false;
}

void CodePlaces::PutBackOne(pid_t thread, uint64_t address) {
  const auto found = places_.find(address);
  if (found == places_.end() || !found->second.wanted) return;
  Insert(ProcMemFile(thread), address, &found->second);
}

void CodePlaces::TakeOut(pid_t thread) {
  ProcMemFile memory(thread);
  for (auto& [address, place] : places_) {
    if (place.in) Restore(&memory, address, place.byte);
    place.in = false;
  }
}

void CodePlaces::PutBack(pid_t thread) {
  const ProcMemFile memory(thread);
  for (auto& [address, place] : places_) {
    if (place.wanted && !place.in) Insert(memory, address, &place);
  }
}

void CodePlaces::Forget() {
  places_.clear();
  refused_.clear();
  guard_.reset();
}

void CodePlaces::Clean(pid_t child) const {
  ProcMemFile memory(child);
  for (const auto& [address, place] : places_) Restore(&memory, address, place.byte);
}

bool CodePlaces::IsIn(uint64_t address) const {
  const auto found = places_.find(address);
  return found != places_.end() && found->second.in;
}

std::vector<uint8_t> CodePlaces::ReadCode(pid_t thread, uint64_t address, size_t size) const {
  const ProcMemFile memory(thread);
  std::vector<uint8_t> code(size);
  while (!code.empty() && !memory.Read(address, absl::MakeSpan(code))) code.pop_back();
  const uint64_t end = address + code.size();
  for (auto it = places_.lower_bound(address); it != places_.end() && it->first < end; ++it) {
    if (it->second.in) code[it->first - address] = it->second.byte;
  }
  return code;
}

bool CodePlaces::AnyIn(uint64_t begin, uint64_t end) const {
  const auto first = places_.lower_bound(begin);
  return first != places_.end() && first->first < end;
}

}  // namespace hindsight
