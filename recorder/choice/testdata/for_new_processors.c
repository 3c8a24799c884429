// Linked as a program that needs a processor with AVX, which it does not use.

int main(void) { return 0; }
