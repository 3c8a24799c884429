# Between which two snapshots does the sum change that should not?
set pagination off
set width 0

echo \n== The snapshots. gdb is at the first.\n
monitor snapshots
print total

echo \n== On to the first at which the sum is another.\n
watch total
continue
print step
