# Walks a recording of warehouse from its crash back to the write that caused it.
set pagination off
set width 0

echo \n== Run to the crash.\n
continue
backtrace

echo \n== The shelf's pointer to its product is no pointer. Who wrote it?\n
print shelf.product
watch -l shelf.product

echo \n== Run backward until that value was written.\n
reverse-continue

echo \n== The guilty statement, and how the program came there.\n
backtrace
list
printf "It writes movements[%d]; there are %d.\n", shelf.next, sizeof(shelf.movements) / sizeof(shelf.movements[0])
