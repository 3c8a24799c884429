// Dies of SIGSEGV, three calls deep.
#include <stdio.h>

struct node {
  int value;
  struct node* next;
};

struct node last = {3, 0};
struct node first = {1, &last};

static int walk(struct node* node) {
  int sum = 0;
  for (int i = 0; i < 3; i++) {
    sum += node->value;  // dies here
    node = node->next;
  }
  return sum;
}

int main(void) {
  fprintf(stderr, "walking\n");
  last.next = (struct node*)0x10;  // guilty write
  printf("%d\n", walk(&first));
  return 0;
}
