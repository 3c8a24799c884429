// Between the register file and the host's own structures: ptrace's, of which user_fpregs_struct is
// also the memory image of FXSAVE64.

#ifndef HINDSIGHT_EMULATOR_HOST_REGISTERS_H_
#define HINDSIGHT_EMULATOR_HOST_REGISTERS_H_

#include <sys/user.h>

#include "emulator/registers.h"

namespace hindsight {

// The flags that belong to debugging, not to the program: the trap flag that single-stepping sets,
// and the resume flag that a fault leaves in the frame the kernel sees.
inline constexpr uint64_t kTrapFlag = 0x100;
inline constexpr uint64_t kResumeFlag = 0x10000;

void GeneralToRegisters(const user_regs_struct& general, RegisterFile* registers);
void VectorsToRegisters(const user_fpregs_struct& vectors, RegisterFile* registers);
// Leave what the register file does not have as it is, but for orig_rax: it becomes -1, so that the
// kernel does not take the registers for those of an interrupted system call.
void RegistersToGeneral(const RegisterFile& registers, user_regs_struct* general);
void RegistersToVectors(const RegisterFile& registers, user_fpregs_struct* vectors);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_HOST_REGISTERS_H_
