// Built with -O3 -march=native: whatever vector instructions this machine has.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define N 2000
static float a[N], b[N], c[N];
static double x[N], y[N];
static int32_t whole[N];
static uint8_t bytes[N];

__attribute__((noinline)) static void multiply_add(void) {
  for (int i = 0; i < N; i++) c[i] = a[i] * b[i] + c[i];
}

__attribute__((noinline)) static double dot(void) {
  double sum = 0;
  for (int i = 0; i < N; i++) sum += x[i] * y[i];
  return sum;
}

__attribute__((noinline)) static int64_t whole_work(void) {
  int64_t sum = 0;
  for (int i = 0; i < N; i++) whole[i] = whole[i] * 3 + (whole[i] >> 2);
  for (int i = 0; i < N; i++) sum += __builtin_popcount((unsigned)whole[i]) + whole[i];
  return sum;
}

__attribute__((noinline)) static unsigned byte_work(void) {
  unsigned sum = 0;
  for (int i = 0; i < N; i++) bytes[i] = bytes[i] > 100 ? (uint8_t)(bytes[i] - 100) : bytes[i];
  for (int i = 0; i < N; i++) sum += bytes[i];
  return sum;
}

int main(void) {
  for (int i = 0; i < N; i++) {
    a[i] = (float)i / 7;
    b[i] = (float)(N - i) / 3;
    x[i] = sqrt((double)i);
    y[i] = 1.0 / (i + 1);
    whole[i] = i * 7919;
    bytes[i] = (uint8_t)(i * 31);
  }
  for (int round = 0; round < 3; round++) multiply_add();
  float largest = 0;
  for (int i = 0; i < N; i++) largest = fmaxf(largest, c[i]);
  printf("%.9g %.17g %lld %u\n", largest, dot(), (long long)whole_work(), byte_work());
  char copy[sizeof(bytes)];
  memcpy(copy, bytes, sizeof(bytes));
  printf("%d %zu\n", memcmp(copy, bytes, sizeof(bytes)), strnlen(copy, sizeof(copy)));
  return 0;
}
