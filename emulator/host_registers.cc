#include "emulator/host_registers.h"

#include <cstring>

namespace hindsight {
namespace {

using Word = unsigned long long user_regs_struct::*;

// In the order of RegisterFile::gpr.
constexpr Word kGprs[16] = {
    &user_regs_struct::rax, &user_regs_struct::rcx, &user_regs_struct::rdx, &user_regs_struct::rbx,
    &user_regs_struct::rsp, &user_regs_struct::rbp, &user_regs_struct::rsi, &user_regs_struct::rdi,
    &user_regs_struct::r8,  &user_regs_struct::r9,  &user_regs_struct::r10, &user_regs_struct::r11,
    &user_regs_struct::r12, &user_regs_struct::r13, &user_regs_struct::r14, &user_regs_struct::r15};

// The ten bytes of an x87 register; the six behind them in FXSAVE's slot are reserved.
constexpr size_t kX87Bytes = 10;

}  // namespace

void GeneralToRegisters(const user_regs_struct& general, RegisterFile* registers) {
  for (int i = 0; i < 16; ++i) registers->gpr[i] = general.*kGprs[i];
  registers->rip = general.rip;
  registers->rflags = general.eflags & ~(kTrapFlag | kResumeFlag);
  registers->fs_base = general.fs_base;
  registers->gs_base = general.gs_base;
  registers->cs = general.cs;
  registers->ss = general.ss;
  registers->ds = general.ds;
  registers->es = general.es;
  registers->fs = general.fs;
  registers->gs = general.gs;
}

void VectorsToRegisters(const user_fpregs_struct& vectors, RegisterFile* registers) {
  registers->mxcsr = vectors.mxcsr;
  registers->fcw = vectors.cwd;
  registers->fsw = vectors.swd;
  registers->ftw = vectors.ftw & 0xff;
  registers->fop = vectors.fop;
  registers->fip = vectors.rip;
  registers->fdp = vectors.rdp;
  std::memset(registers->st, 0, sizeof(registers->st));
  for (int i = 0; i < 8; ++i) std::memcpy(registers->st[i], &vectors.st_space[4 * i], kX87Bytes);
  std::memcpy(registers->xmm, vectors.xmm_space, sizeof(registers->xmm));
}

void RegistersToGeneral(const RegisterFile& registers, user_regs_struct* general) {
  for (int i = 0; i < 16; ++i) general->*kGprs[i] = registers.gpr[i];
  general->orig_rax = ~0ull;
  general->rip = registers.rip;
  general->eflags = registers.rflags;
  general->fs_base = registers.fs_base;
  general->gs_base = registers.gs_base;
  general->cs = registers.cs;
  general->ss = registers.ss;
  general->ds = registers.ds;
  general->es = registers.es;
  general->fs = registers.fs;
  general->gs = registers.gs;
}

void RegistersToVectors(const RegisterFile& registers, user_fpregs_struct* vectors) {
  vectors->mxcsr = registers.mxcsr;
  vectors->cwd = registers.fcw;
  vectors->swd = registers.fsw;
  vectors->ftw = registers.ftw;
  vectors->fop = registers.fop;
  vectors->rip = registers.fip;
  vectors->rdp = registers.fdp;
  for (int i = 0; i < 8; ++i) std::memcpy(&vectors->st_space[4 * i], registers.st[i], kX87Bytes);
  std::memcpy(vectors->xmm_space, registers.xmm, sizeof(registers.xmm));
}

}  // namespace hindsight
