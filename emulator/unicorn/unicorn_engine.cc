#include "emulator/unicorn/unicorn_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "emulator/unicorn/fast_stores.h"

namespace hindsight {
namespace {

// Where no program can be: Unicorn treats reaching `until` as a stop.
constexpr uint64_t kNever = 0xffff'8000'dead'0000;

constexpr int kGprIds[16] = {UC_X86_REG_RAX, UC_X86_REG_RCX, UC_X86_REG_RDX, UC_X86_REG_RBX,
                             UC_X86_REG_RSP, UC_X86_REG_RBP, UC_X86_REG_RSI, UC_X86_REG_RDI,
                             UC_X86_REG_R8,  UC_X86_REG_R9,  UC_X86_REG_R10, UC_X86_REG_R11,
                             UC_X86_REG_R12, UC_X86_REG_R13, UC_X86_REG_R14, UC_X86_REG_R15};

// Debug exception: what TF raises after an instruction.
constexpr uint32_t kDebugException = 1;

absl::Status ToStatus(uc_err error, const char* what) {
  if (error == UC_ERR_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": unicorn: ", uc_strerror(error)));
}

// The x87's words of the register file, from the control word to the last register.
constexpr size_t kX87Begin = offsetof(RegisterFile, fcw), kX87End = offsetof(RegisterFile, xmm);

bool SameX87(const RegisterFile& a, const RegisterFile& b) {
  return std::memcmp(&a.fcw, &b.fcw, kX87End - kX87Begin) == 0;
}

void CopyX87(const RegisterFile& from, RegisterFile* to) {
  std::memcpy(&to->fcw, &from.fcw, kX87End - kX87Begin);
}

}  // namespace

UnicornEngine::UnicornEngine(View* view, EngineClient* client) : view_(view), client_(client) {}

UnicornEngine::~UnicornEngine() {
  if (saved_.context != nullptr) uc_context_free(saved_.context);
  if (new_ != nullptr) uc_context_free(new_);
  if (now_ != nullptr) uc_context_free(now_);
  if (uc_ != nullptr) uc_close(uc_);
}

absl::StatusOr<std::unique_ptr<UnicornEngine>> UnicornEngine::Create(View* view,
                                                                     EngineClient* client,
                                                                     BlockHook block_hook,
                                                                     bool watch) {
  static_cast<void>(PagesWithFastStores());  // has it linked
  auto engine = std::unique_ptr<UnicornEngine>(new UnicornEngine(view, client));
  RETURN_IF_ERROR(ToStatus(uc_open(UC_ARCH_X86, UC_MODE_64, &engine->uc_), "uc_open"));
  RETURN_IF_ERROR(engine->AddHooks(block_hook, watch));
  RETURN_IF_ERROR(
      ToStatus(uc_context_alloc(engine->uc_, &engine->saved_.context), "uc_context_alloc"));
  RETURN_IF_ERROR(ToStatus(uc_context_alloc(engine->uc_, &engine->new_), "uc_context_alloc"));
  RETURN_IF_ERROR(ToStatus(uc_context_alloc(engine->uc_, &engine->now_), "uc_context_alloc"));
  RETURN_IF_ERROR(ToStatus(uc_context_save(engine->uc_, engine->new_), "uc_context_save"));
  ASSIGN_OR_RETURN(engine->layout_, FindContextLayout());
  return engine;
}

absl::Status UnicornEngine::AddHooks(BlockHook block_hook, bool watch) {
  uc_hook hook;
  auto add_for = [&](int type, void* callback, void* who) {
    // begin > end: everywhere.
    return ToStatus(uc_hook_add(uc_, &hook, type, callback, who, uint64_t{1}, uint64_t{0}),
                    "uc_hook_add");
  };
  auto add = [&](int type, void* callback) { return add_for(type, callback, this); };
  RETURN_IF_ERROR(add_for(UC_HOOK_BLOCK, reinterpret_cast<void*>(block_hook), client_));
  RETURN_IF_ERROR(add(UC_HOOK_INTR, reinterpret_cast<void*>(InterruptHook)));
  RETURN_IF_ERROR(add(UC_HOOK_MEM_UNMAPPED, reinterpret_cast<void*>(UnmappedHook)));
  if (watch) {
    RETURN_IF_ERROR(add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, reinterpret_cast<void*>(MemoryHook)));
  }
  return absl::OkStatus();
}

void UnicornEngine::InterruptHook(uc_engine* uc, uint32_t number, void* self) {
  auto* engine = static_cast<UnicornEngine*>(self);
  (number == kDebugException ? engine->events_.trapped : engine->events_.exception) = true;
  uc_emu_stop(uc);
}

// Tells Unicorn of the region of `address`.
bool UnicornEngine::Map(uint64_t address) {
  if (address - last_mapped_.base < last_mapped_.bytes) return true;
  if (view_->RegionOf(address) == nullptr) view_->FindOrCreate(address);
  const View::Region* const region = view_->RegionOf(address);
  if (region == nullptr) return false;
  if (!mapped_.contains(region->base)) {
    if (uc_mem_map_ptr(uc_, region->base, region->bytes, UC_PROT_ALL, region->guest) != UC_ERR_OK) {
      return false;
    }
    mapped_.insert(region->base);
  }
  last_mapped_ = *region;
  return true;
}

void UnicornEngine::Unmap(uint64_t base) {
  const View::Region* const region = view_->RegionOf(base);
  // A window stays: without the chunk accesses fault.
  if (region == nullptr || region->bytes != View::kChunkBytes || mapped_.erase(base) == 0) return;
  uc_mem_unmap(uc_, base, View::kChunkBytes);
  last_mapped_ = {};
}

bool UnicornEngine::UnmappedHook(uc_engine* uc, uc_mem_type type, uint64_t address, int size,
                                 int64_t value, void* self) {
  auto* engine = static_cast<UnicornEngine*>(self);
  if (type != UC_MEM_FETCH_UNMAPPED) {
    return engine->client_->OnNewChunk(type == UC_MEM_WRITE_UNMAPPED, address) &&
           engine->Map(address);
  }
  // If we mapped it now, Unicorn would go on, with a translation of which it does not know where it
  // is from and which could never be dropped.
  engine->events_.new_chunk = address < View::kAddressLimit;
  return false;
}

void UnicornEngine::MemoryHook(uc_engine* uc, uc_mem_type type, uint64_t address, int size,
                               int64_t value, void* self) {
  auto* engine = static_cast<UnicornEngine*>(self);
  engine->client_->OnMemory(type == UC_MEM_WRITE, address, static_cast<uint32_t>(size),
                            static_cast<uint64_t>(value));
}

void UnicornEngine::Store(const RegisterFile& registers) {
  if (std::exchange(remembers_exception_, false)) {
    uc_context_restore(uc_, new_);
    held_valid_ = false;
  }
  if (std::exchange(held_valid_, false)) {
    StoreChanges(registers);
  } else {
    StoreAll(registers);
  }
  // Always: how Unicorn keeps flags that it has computed itself is another matter.
  uc_reg_write(uc_, UC_X86_REG_EFLAGS, &registers.rflags);
  float_ = GuestFloat(registers);
}

void UnicornEngine::StoreAll(const RegisterFile& registers) {
  for (int i = 0; i < 16; ++i) uc_reg_write(uc_, kGprIds[i], &registers.gpr[i]);
  uc_reg_write(uc_, UC_X86_REG_FS_BASE, &registers.fs_base);
  uc_reg_write(uc_, UC_X86_REG_GS_BASE, &registers.gs_base);
  for (int i = 0; i < 16; ++i) uc_reg_write(uc_, UC_X86_REG_XMM0 + i, registers.xmm[i]);
  StoreX87(registers);
}

void UnicornEngine::StoreChanges(const RegisterFile& registers) {
  for (int i = 0; i < 16; ++i) {
    if (registers.gpr[i] != held_.gpr[i]) uc_reg_write(uc_, kGprIds[i], &registers.gpr[i]);
    if (std::memcmp(registers.xmm[i], held_.xmm[i], sizeof(held_.xmm[i])) != 0) {
      uc_reg_write(uc_, UC_X86_REG_XMM0 + i, registers.xmm[i]);
    }
  }
  if (registers.fs_base != held_.fs_base) {
    uc_reg_write(uc_, UC_X86_REG_FS_BASE, &registers.fs_base);
  }
  if (registers.gs_base != held_.gs_base) {
    uc_reg_write(uc_, UC_X86_REG_GS_BASE, &registers.gs_base);
  }
  if (!SameX87(registers, held_)) StoreX87(registers);
}

void UnicornEngine::Load(RegisterFile* registers) {
  uc_context_save(uc_, now_);
  for (int i = 0; i < 16; ++i) {
    std::memcpy(&registers->gpr[i], At(now_, layout_.gpr[i]), sizeof(registers->gpr[i]));
    std::memcpy(registers->xmm[i], At(now_, layout_.xmm[i]), sizeof(registers->xmm[i]));
  }
  std::memcpy(&registers->fs_base, At(now_, layout_.fs_base), sizeof(registers->fs_base));
  std::memcpy(&registers->gs_base, At(now_, layout_.gs_base), sizeof(registers->gs_base));
  registers->rflags = ReadFlags();
  LoadX87(registers);
  registers->mxcsr = float_.mxcsr();
  registers->fsw |= float_.x87_flags();
  std::memcpy(static_cast<void*>(&held_), registers, kBaseWords * sizeof(uint64_t));
  held_valid_ = true;
}

// Most programs never touch it.
void UnicornEngine::LoadX87(RegisterFile* registers) {
  const uint8_t* const begin = At(now_, layout_.x87_begin);
  const uint8_t* const end = At(now_, layout_.x87_end);
  if (!std::equal(begin, end, x87_.bytes.begin(), x87_.bytes.end())) {
    ReadX87(&x87_.registers);
    x87_.bytes.assign(begin, end);
  }
  CopyX87(x87_.registers, registers);
}

// Unicorn's FP0..FP7 are the physical registers; the register file orders them from the top of
// the stack, as FXSAVE does. Its tag word has two bits for each, ours one.
void UnicornEngine::StoreX87(const RegisterFile& registers) {
  auto control = static_cast<uint16_t>(registers.fcw);
  auto status = static_cast<uint16_t>(registers.fsw);
  uc_reg_write(uc_, UC_X86_REG_FPCW, &control);
  uc_reg_write(uc_, UC_X86_REG_FPSW, &status);
  unsigned top = (status >> 11) & 7;
  uint16_t tags = 0;
  for (unsigned i = 0; i < 8; ++i) {
    uc_reg_write(uc_, UC_X86_REG_FP0 + static_cast<int>((top + i) & 7), registers.st[i]);
    if ((registers.ftw >> i & 1) == 0) tags |= static_cast<uint16_t>(3u << (2 * i));
  }
  uc_reg_write(uc_, UC_X86_REG_FPTAG, &tags);
  auto opcode = static_cast<uint16_t>(registers.fop);
  uc_reg_write(uc_, UC_X86_REG_FIP, &registers.fip);
  uc_reg_write(uc_, UC_X86_REG_FDP, &registers.fdp);
  uc_reg_write(uc_, UC_X86_REG_FOP, &opcode);
}

void UnicornEngine::ReadX87(RegisterFile* registers) {
  uint16_t control = 0, status = 0, tags = 0, opcode = 0;
  uc_reg_read(uc_, UC_X86_REG_FPCW, &control);
  uc_reg_read(uc_, UC_X86_REG_FPSW, &status);
  uc_reg_read(uc_, UC_X86_REG_FPTAG, &tags);
  registers->fcw = control;
  registers->fsw = status;
  registers->ftw = 0;
  unsigned top = (status >> 11) & 7;
  for (unsigned i = 0; i < 8; ++i) {
    uint64_t value[2] = {};
    uc_reg_read(uc_, UC_X86_REG_FP0 + static_cast<int>((top + i) & 7), value);
    registers->st[i][0] = value[0];
    registers->st[i][1] = value[1] & 0xffff;
    if ((tags >> (2 * i) & 3) != 3) registers->ftw |= uint64_t{1} << i;
  }
  uc_reg_read(uc_, UC_X86_REG_FIP, &registers->fip);
  uc_reg_read(uc_, UC_X86_REG_FDP, &registers->fdp);
  uc_reg_read(uc_, UC_X86_REG_FOP, &opcode);
  registers->fop = opcode;
}

uint64_t UnicornEngine::ReadGpr(int number) {
  uint64_t value = 0;
  uc_reg_read(uc_, kGprIds[number], &value);
  return value;
}

void UnicornEngine::WriteGpr(int number, uint64_t value) {
  held_valid_ = false;
  uc_reg_write(uc_, kGprIds[number], &value);
}

uint8_t UnicornEngine::EmptyX87() {
  uint16_t status = 0, tags = 0;
  uc_reg_read(uc_, UC_X86_REG_FPSW, &status);
  uc_reg_read(uc_, UC_X86_REG_FPTAG, &tags);
  uint8_t empty = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned number = ((status >> 11) + i) & 7;
    if ((tags >> (2 * number) & 3) == 3) empty |= 1 << i;
  }
  return empty;
}

uint64_t UnicornEngine::ReadFlags() {
  uint64_t flags = 0;
  uc_reg_read(uc_, UC_X86_REG_EFLAGS, &flags);
  return flags & 0xffff'ffff;
}

void UnicornEngine::WriteFlags(uint64_t flags) { uc_reg_write(uc_, UC_X86_REG_EFLAGS, &flags); }

UnicornEngine::Exit UnicornEngine::Start(uint64_t pc) {
  held_valid_ = false;
  // An instruction may reach into the next chunk.
  constexpr uint64_t kLongestInstruction = 15;
  if (!Map(pc) || !Map(pc + kLongestInstruction)) return Exit::kException;
  events_ = {};
  uc_err error = UC_ERR_OK;
  {
    GuestFloatScope scope(&float_);
    error = uc_emu_start(uc_, pc, kNever, 0, 0);
  }
  // Unicorn takes an exception for being delivered until the guest returns from its handler, makes
  // the next one a double fault, and after that does not even trap.
  remembers_exception_ |= events_.exception;
  if (events_.new_chunk) return Exit::kNewChunk;
  if (error != UC_ERR_OK || events_.exception) return Exit::kException;
  return events_.trapped ? Exit::kTrap : Exit::kStopped;
}

uint64_t UnicornEngine::pc() {
  uint64_t pc = 0;
  uc_reg_read(uc_, UC_X86_REG_RIP, &pc);
  return pc;
}

void UnicornEngine::SaveContext() {
  uc_context_save(uc_, saved_.context);
  saved_.remembers_exception = remembers_exception_;
  saved_.guest_float = float_;
}

void UnicornEngine::RestoreContext() {
  held_valid_ = false;
  uc_context_restore(uc_, saved_.context);
  remembers_exception_ = saved_.remembers_exception;
  float_ = saved_.guest_float;
}

void UnicornEngine::DropTranslations(uint64_t address, uint64_t size) {
  uc_ctl_remove_cache(uc_, address, address + size);
}

}  // namespace hindsight
