// Four threads; one of them dies of a bad pointer, some calls deep. With an argument the process
// aborts instead.

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct node {
  int value;
  struct node* next;
};

static pthread_barrier_t ready;
static struct node last = {3, (struct node*)0x10};
static struct node first = {1, &last};

__attribute__((noinline)) static int sum(const struct node* node, int left) {
  if (left == 0) return 0;
  return node->value + sum(node->next, left - 1);
}

static void* wait_for_ever(void* unused) {
  pthread_barrier_wait(&ready);
  while (1) pause();
  return unused;
}

static void* crash(void* aborts) {
  pthread_barrier_wait(&ready);
  usleep(100 * 1000);  // the others are in pause by then
  if (aborts != NULL) abort();
  _exit(sum(&first, 5));
}

int main(int argc, char** argv) {
  pthread_t threads[3];
  pthread_barrier_init(&ready, NULL, 4);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, wait_for_ever, NULL);
  pthread_create(&threads[2], NULL, crash, argc > 1 ? argv : NULL);
  wait_for_ever(NULL);
}
