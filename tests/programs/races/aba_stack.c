// A stack without locks whose nodes are used again: the top is the same, and what was below it is
// not (A, B, A). Then two own one node.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/races/work.h"

struct node {
  struct node* _Atomic below;
  atomic_int owners;
};

static struct node nodes[3];
static struct node* _Atomic top;

static void push(struct node* node) {
  atomic_fetch_sub(&node->owners, 1);
  struct node* old = atomic_load(&top);
  do {
    atomic_store(&node->below, old);
  } while (!atomic_compare_exchange_weak(&top, &old, node));
}

static struct node* pop(void) {
  struct node* old = atomic_load(&top);
  while (old != NULL) {
    struct node* const below = atomic_load(&old->below);
    if (atomic_compare_exchange_weak(&top, &old, below)) break;
  }
  if (old != NULL && atomic_fetch_add(&old->owners, 1) != 0) {
    printf("node %d has two owners\n", (int)(old - nodes));
    exit(1);
  }
  return old;
}

static void* user(void* argument) {
  uint64_t state = (uint64_t)argument;
  for (int i = 0; i < 4; i++) {
    state = work(state, 1500);
    struct node* const one = pop();
    struct node* const other = pop();
    if (one != NULL) push(one);
    state = work(state, 50);
    if (other != NULL) push(other);
  }
  return NULL;
}

int main(void) {
  for (int i = 0; i < 3; i++) {
    nodes[i].owners = 1;
    push(&nodes[i]);
  }
  pthread_t one, other;
  pthread_create(&one, NULL, user, (void*)1);
  pthread_create(&other, NULL, user, (void*)2);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  return 0;
}
