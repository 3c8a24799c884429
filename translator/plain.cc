#include "translator/plain.h"

#include "isa/registers.h"
#include "translator/guest/encoding.h"
#include "translator/substitution.h"

namespace hindsight {

bool WritePlain(const GuestInstruction& instruction, BlockWriter* writer) {
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  if (!substitution.IsNeeded()) {
    writer->code()->Bytes(instruction.Bytes());
    temporaries.Release();
    return true;
  }
  Encoding encoding(instruction);
  substitution.LoadRegisters();
  substitution.Apply(&encoding);
  if (EncodedMemory(instruction) != nullptr) encoding.SetMemory(substitution.Address());
  writer->MarkFault();
  if (temporaries.failed() || !encoding.Write(writer->code())) return false;
  substitution.StoreRegisters();
  temporaries.Release();
  return true;
}

}  // namespace hindsight
