#include "isa/float_control.h"

namespace hindsight {

bool SetsFloatControl(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_FLDCW:
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_FRSTOR:
    case ZYDIS_MNEMONIC_FNINIT:
    case ZYDIS_MNEMONIC_FNSAVE:   // initializes
    case ZYDIS_MNEMONIC_FNSTENV:  // masks all exceptions
      return true;
    default:
      return false;  // xrstor is executed by the process
  }
}

}  // namespace hindsight
