# The same between snapshots that are closer, and what else is wrong there.
set pagination off
set width 0

define walls
  printf "step %d: the walls have taken %ld, %ld, %ld and %ld\n", step, sections[0].wall, sections[1].wall, sections[2].wall, sections[3].wall
end

echo \n== On to the first at which the sum is another.\n
watch total
continue

echo \n== After the fault, and before it. A wall takes some 150 in 20 steps.\n
walls
reverse-continue
walls
