// Status flags that are read where a call returns, where an indirect jump leads, and after jumps
// that are not taken: prints what was read. Some of it in code that changes while it is called.

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Each returns flags as pushfq has them.
long after_call(long carry);
long after_indirect_call(long carry);
long after_pushed_return(long carry);
long where_jump_leads(long carry);
long in_called(long carry);
long after_two_returns(long carry);
__asm__(
    ".text\n"
    "set: cmp $1, %rdi\n cmc\n ret\n"
    "set_far: call set\n ret\n"
    "after_call: call set\n pushfq\n pop %rax\n ret\n"
    "after_indirect_call: lea set(%rip), %rdx\n call *%rdx\n setc %al\n movzbl %al, %eax\n ret\n"
    "after_pushed_return: lea 1f(%rip), %rdx\n push %rdx\n cmp $1, %rdi\n ret\n"
    "1: pushfq\n pop %rax\n ret\n"
    "where_jump_leads: lea 2f(%rip), %rdx\n cmp $1, %rdi\n jmp *%rdx\n"
    "2: pushfq\n pop %rax\n ret\n"
    "in_called: lea 3f(%rip), %rdx\n cmp $1, %rdi\n call *%rdx\n ret\n"
    "3: setc %al\n setp %ah\n movzwl %ax, %eax\n ret\n"
    "after_two_returns: call set_far\n mov $0, %eax\n adc $5, %eax\n ret\n");

// Of 1 to 5 jumps forward the first that is taken decides; earlier flags are read after each.
long after_jumps(long value);
__asm__(
    "after_jumps: xor %eax, %eax\n cmp $3, %rdi\n ja 1f\n setz %al\n jz 2f\n setc %ah\n"
    " cmp $2, %rdi\n je 3f\n cmp $1, %rdi\n je 4f\n adc $7, %rax\n cmp $0, %rdi\n jl 5f\n"
    " lea 100(%rax), %rax\n ret\n"
    "1: adc $10, %rax\n ret\n 2: adc $20, %rax\n ret\n 3: adc $30, %rax\n ret\n"
    "4: adc $40, %rax\n ret\n 5: adc $50, %rax\n ret\n");

typedef long (*Function)(void (*callee)(void));

// sub $8, %rsp; call *%rdi; cmp %edi, %edi; setc %al; movzbl %al, %eax; add $8, %rsp; ret
static const uint8_t kOverwrites[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x39, 0xff, 0x0f, 0x92,
                                      0xc0, 0x0f, 0xb6, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
// The same with a nop in place of the cmp.
static uint8_t reads[sizeof(kOverwrites)];

static uint8_t* code;
static int code_file = -1;  // the second page reads

static void map_code(int in_file, int page) {
  const int kind = MAP_PRIVATE | MAP_FIXED | (in_file ? 0 : MAP_ANONYMOUS);
  if (in_file) {
    mmap(code, 4096, PROT_READ | PROT_EXEC, kind, code_file, page * 4096);
    return;
  }
  mmap(code, 4096, PROT_READ | PROT_WRITE, kind, -1, 0);
  memcpy(code, page == 0 ? kOverwrites : reads, sizeof(reads));
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
}

// What follows the call that leads here reads the carry flag from now on.
static void change_in_memory(void) { map_code(0, 1); }
static void change_file(void) { map_code(1, 1); }

void change_and_set(void);
__asm__(
    "change_and_set: push %rbx\n call *change(%rip)\n pop %rbx\n stc\n ret\n"
    ".data\nchange: .quad 0\n.text\n");
extern void (*change)(void);

// Goes on after the call, at `after_call_at`, as if it had returned, carry set.
long return_to(const void* after_call_at);
__asm__(
    "return_to: call 1f\n ret\n"
    "1: sub $8, %rsp\n push %rdi\n stc\n ret\n");

static void call_changed_code(void) {
  memcpy(reads, kOverwrites, sizeof(reads));
  reads[6] = 0x66, reads[7] = 0x90;
  FILE* file = tmpfile();
  code_file = fileno(file);
  if (pwrite(code_file, kOverwrites, sizeof(kOverwrites), 0) < 0) perror("pwrite");
  if (pwrite(code_file, reads, sizeof(reads), 4096) < 0) perror("pwrite");
  code = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 6; round++) {
    const int in_file = round % 2;
    map_code(in_file, 0);
    change = in_file ? change_file : change_in_memory;
    const Function function = (Function)(uintptr_t)code;
    printf("%ld", function(change_and_set));
    for (int i = 0; i < 3; i++) printf(" %ld", return_to(code + 6));
    printf("\n");
  }
  fclose(file);
}

int main(void) {
  for (int round = 0; round < 3; round++) {
    for (long carry = 0; carry < 3; carry++) {
      printf("%lx %lx %lx %lx %lx %lx\n", after_call(carry), after_indirect_call(carry),
             after_pushed_return(carry), where_jump_leads(carry), in_called(carry),
             after_two_returns(carry));
    }
    for (long value = -2; value < 6; value++) printf("%lx\n", after_jumps(value));
  }
  call_changed_code();
  return 0;
}
