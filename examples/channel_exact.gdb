# In a recording, where every instruction is: who changed that wall?
set pagination off
set width 0

echo \n== From the end back to where the sum was first another.\n
hindsight goto end
watch total
reverse-continue
delete
print step

echo \n== And back to what wrote the wall of section 1.\n
watch -l sections[1].wall
reverse-continue
backtrace 3
list
printf "It writes arrived[%d]; there are %d.\n", to.arrivals, sizeof(to.arrived) / sizeof(to.arrived[0])
