#include "translator/checks/kernels.h"

#include <cstddef>

namespace hindsight {
namespace {

// No vectors where the source has none: baseline code mostly has none either. No jump tables of
// libc's, no calls of memset.
#define KERNEL \
  __attribute__((noinline, optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")))

KERNEL uint64_t Fibonacci(uint64_t n) { return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2); }

uint64_t Calls(uint64_t* memory) { return Fibonacci(30) + memory[0]; }

KERNEL void Sort(uint32_t* values, int64_t count) {
  while (count > 1) {
    const uint32_t pivot = values[count / 2];
    int64_t i = 0, j = count - 1;
    while (i <= j) {
      while (values[i] < pivot) ++i;
      while (values[j] > pivot) --j;
      if (i <= j) {
        const uint32_t value = values[i];
        values[i++] = values[j];
        values[j--] = value;
      }
    }
    Sort(values, j + 1);
    values += i;
    count -= i;
  }
}

KERNEL uint64_t Sorting(uint64_t* memory) {
  auto* values = reinterpret_cast<uint32_t*>(memory);
  uint32_t state = 1;
  for (int i = 0; i < 200'000; ++i) values[i] = state = state * 1664525 + 1013904223;
  Sort(values, 200'000);
  return values[1000];
}

KERNEL uint64_t Matrix(uint64_t* memory) {
  constexpr int kSide = 120;
  auto* a = reinterpret_cast<double*>(memory);
  double* b = a + kSide * kSide;
  double* c = b + kSide * kSide;
  for (int i = 0; i < kSide * kSide; ++i) a[i] = i % 17, b[i] = i % 13;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) {
        double sum = 0;
        for (int k = 0; k < kSide; ++k) sum += a[i * kSide + k] * b[k * kSide + j];
        c[i * kSide + j] = sum;
      }
    }
  }
  return static_cast<uint64_t>(c[77]);
}

KERNEL uint64_t Checksum(uint64_t* memory) {
  auto* table = reinterpret_cast<uint32_t*>(memory);
  auto* bytes = reinterpret_cast<uint8_t*>(table + 256);
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (0xedb88320 & (0 - (value & 1)));
    table[i] = value;
  }
  uint32_t crc = ~0u;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 100'000; ++i) crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
  }
  return crc;
}

// A bytecode interpreter with a jump per operation.
KERNEL uint64_t Interpreter(uint64_t* memory) {
  static const void* const kTargets[] = {&&add, &&subtract, &&multiply, &&store, &&load, &&loop};
  auto* code = reinterpret_cast<uint8_t*>(memory);
  uint64_t* slots = memory + 1024;
  uint32_t state = 7;
  for (int i = 0; i < 999; ++i) code[i] = (state = state * 1664525 + 1013904223) >> 24 & 0xff;
  for (int i = 0; i < 999; ++i) code[i] = code[i] % 5;
  code[999] = 5;
  uint64_t accumulator = 1, rounds = 0;
  const uint8_t* pc = code;
#define NEXT goto* kTargets[*pc++]
  NEXT;
add:
  accumulator += slots[3];
  NEXT;
subtract:
  accumulator -= 12345;
  NEXT;
multiply:
  accumulator *= 0x9e3779b97f4a7c15;
  NEXT;
store:
  slots[accumulator & 63] = accumulator;
  NEXT;
load:
  accumulator ^= slots[accumulator >> 8 & 63];
  NEXT;
loop:
  pc = code;
  if (++rounds < 5000) NEXT;
#undef NEXT
  return accumulator;
}

KERNEL uint64_t Chase(uint64_t* memory) {
  constexpr uint64_t kCount = 8192;
  for (uint64_t i = 0; i < kCount; ++i) memory[i] = (i * 5 + 4097) % kCount;
  uint64_t at = 0;
  for (int i = 0; i < 5'000'000; ++i) at = memory[at];
  return at;
}

KERNEL uint64_t Stream(uint64_t* memory) {
  constexpr int kCount = 1000;
  auto* a = reinterpret_cast<double*>(memory);
  double* b = a + kCount;
  double* c = b + kCount;
  for (int i = 0; i < kCount; ++i) b[i] = i, c[i] = 2 * i;
  for (int round = 0; round < 5000; ++round) {
    for (int i = 0; i < kCount; ++i) a[i] = b[i] + 3.0 * c[i];
  }
  return static_cast<uint64_t>(a[77]);
}

typedef double Pair __attribute__((vector_size(16)));

KERNEL uint64_t VectorStream(uint64_t* memory) {
  constexpr int kCount = 500;
  auto* a = reinterpret_cast<Pair*>(memory);
  Pair* b = a + kCount;
  Pair* c = b + kCount;
  const Pair three = {3.0, 3.0};
  for (int i = 0; i < kCount; ++i) b[i] = Pair{1.0 * i, 2.0}, c[i] = Pair{2.0 * i, 1.0};
  for (int round = 0; round < 10'000; ++round) {
    for (int i = 0; i < kCount; ++i) a[i] = b[i] + three * c[i];
  }
  return static_cast<uint64_t>(a[77][0]);
}

KERNEL uint64_t Words(uint64_t* memory) {
  auto* text = reinterpret_cast<char*>(memory);
  for (int i = 0; i < 100'000; ++i) text[i] = i % 7 == 6 ? ' ' : static_cast<char>('a' + i % 23);
  uint64_t words = 0, hash = 0;
  for (int round = 0; round < 50; ++round) {
    bool inside = false;
    for (int i = 0; i < 100'000; ++i) {
      const bool letter = text[i] >= 'a' && text[i] <= 'z';
      if (letter && !inside) ++words;
      inside = letter;
      hash = hash * 31 + static_cast<uint64_t>(text[i]);
    }
  }
  return words + hash;
}

// Counters in memory.
KERNEL uint64_t Histogram(uint64_t* memory) {
  auto* counts = reinterpret_cast<uint32_t*>(memory);
  for (int i = 0; i < 4096; ++i) counts[i] = 0;
  uint32_t state = 1;
  for (int i = 0; i < 5'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    ++counts[state >> 20];
  }
  return counts[77];
}

}  // namespace

const std::vector<Kernel>& Kernels() {
  static const auto* kernels = new std::vector<Kernel>{{"calls", Calls},
                                                       {"sort", Sorting},
                                                       {"matrix", Matrix},
                                                       {"crc", Checksum},
                                                       {"interpreter", Interpreter},
                                                       {"chase", Chase},
                                                       {"stream", Stream},
                                                       {"vectors", VectorStream},
                                                       {"words", Words},
                                                       {"histogram", Histogram}};
  return *kernels;
}

}  // namespace hindsight
