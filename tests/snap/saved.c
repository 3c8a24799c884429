// Has things on its stacks, in variables and on the heap, and arrives at `mark`.

#include <pthread.h>
#include <stdlib.h>

int table[3000];
int other[3000];
int* heap;
static pthread_barrier_t ready;

__attribute__((noinline)) void mark(int number) { other[0] = number; }

static void* wait_twice(void* unused) {
  int local[100];
  for (int i = 0; i < 100; ++i) local[i] = 3 * i;
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&ready);
  return (void*)(long)local[5];
}

int main(void) {
  pthread_t threads[2];
  pthread_barrier_init(&ready, NULL, 3);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, wait_twice, NULL);
  pthread_barrier_wait(&ready);
  heap = malloc(sizeof(int) * 300000);
  for (int i = 0; i < 300000; ++i) heap[i] = i;
  for (int i = 0; i < 3000; ++i) table[i] = i, other[i] = 2 * i;
  mark(1);
  pthread_barrier_wait(&ready);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
