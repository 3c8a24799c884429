# The messages of a trace, format version 1. What they mean, and how they are framed in files, is
# specified in docs/trace-format.md.
#
# Rules for changes: fields are only ever added. A reader treats a missing list as empty. What an
# older reader must not overlook gets a critical kind number (docs/trace-format.md, "Unknown
# kinds") or, if even that does not do, a new format version in the block headers.

@0xb8f6d2a3c1e4975d;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("hindsight::wire");

struct Manifest {
  uuid @0 :Data;  # 16 bytes
  program @1 :Data;
  arguments @2 :List(Data);  # Data, not Text: the kernel does not ask for UTF-8
  environment @3 :List(Data);
  workingDirectory @4 :Data;
  pid @5 :Int32;
  startTimeNs @6 :Int64;
  hostCpu @7 :Data;
  requiredFeatures @8 :List(Data);
  engine @9 :Data;
  memoryModel @10 :Data;
  registerLayout @11 :Data;
  lightKeyframeInterval @12 :UInt64;
  fullKeyframeInterval @13 :UInt64;
  auxv @14 :List(UInt64);
  state @15 :UInt16;  # 0 recording, 1 complete
  exitStatus @16 :Int32;
  endReason @17 :Data;
  endSequence @18 :UInt64;
  endTimeNs @19 :UInt64;
  parentPid @20 :Int32;
  parentDirectory @21 :Data;
  parentThread @22 :Int32;
  parentCount @23 :UInt64;
  parentSequence @24 :UInt64;
  startKind @25 :Data;
  orderedKernelEvents @26 :UInt64;
  orderedInstructions @27 :UInt64;
  cpu @28 :Data;
  totals @29 :Totals;
  schedule @30 :Data;
  scheduleSeed @31 :UInt64;
  ring @32 :Data;
}

# What a complete trace holds.
struct Totals {
  threads @0 :List(ThreadTotals);
  events @1 :UInt64;
  fullKeyframes @2 :UInt64;
  modules @3 :UInt64;
}

struct ThreadTotals {
  thread @0 :Int32;
  segments @1 :UInt64;
  endCount @2 :UInt64;
  records @3 :UInt64;
}

struct ModuleList {
  modules @0 :List(Module);
}

struct Module {
  path @0 :Data;
  buildId @1 :Data;
  hash @2 :Data;  # 32 lower-case hex digits; empty if the file was not read
  sizeBytes @3 :UInt64;
  stored @4 :Bool;
}

# In place of the lists before, of a trace that has lost its oldest part.
struct KeptModules {
  listed @0 :UInt32;  # modules so far, with those that went: the index of the next one
  indices @1 :List(UInt32);  # ascending, one for each module
  modules @2 :List(Module);
}

struct SegmentHeader {
  uuid @0 :Data;
  thread @1 :Int32;
  number @2 :UInt64;
  firstCount @3 :UInt64;
  firstSequence @4 :UInt64;
  registers @5 :List(UInt64);
  reference @6 :UInt64;  # number of the reference segment + 1; 0: none
}

# A run of records, by columns. Record i is of kind kinds[i]; its fields are the next unused
# elements of the columns of that kind.
struct RecordBlock {
  firstRecord @0 :UInt64;  # records of this segment in the blocks before
  firstCount @1 :UInt64;  # the count that countDeltas[0] is added to
  kinds @2 :Data;
  countDeltas @3 :List(UInt32);  # to the count of the record before
  pages @4 :PageColumns;
  lines @5 :LineColumns;
  uncachedReads @6 :UncachedReadColumns;
  sideEffects @7 :SideEffectColumns;
  discontinuities @8 :DiscontinuityColumns;
  registerHashes @9 :List(UInt64);
  endRegisters @10 :List(UInt64);  # of the SegmentEnd, of which there is at most one
  gapReason @11 :Data;
  orderRuns @12 :OrderRunColumns;
  leftPages @13 :List(UInt64);
  memoryHashes @14 :MemoryHashColumns;
  mappedRanges @15 :MappedRangeColumns;
  usedPages @16 :UsedPageColumns;
  referencedPages @17 :List(UInt64);
}

struct PageColumns {
  addresses @0 :List(UInt64);
  flags @1 :Data;  # bit 0: first; bit 1: has a module; bit 2: has a known mask; bit 3: was shown;
                     # bit 4: has a turn
  lineMasks @2 :List(UInt64);
  modules @3 :List(Int32);  # only for pages that have one
  moduleOffsets @4 :List(UInt64);
  bytes @5 :Data;  # the lines of all pages, end to end
  knownMasks @6 :List(UInt64);  # only for pages that have one
  shownCounts @7 :Data;  # threads that showed lines, of pages of which any did
  shownBy @8 :List(Int32);  # these, end to end
  shownMasks @9 :List(UInt64);  # which lines
  turns @10 :Data;  # only for pages that have one
}

struct LineColumns {
  addresses @0 :List(UInt64);
  flags @1 :Data;  # bit 0: code
  bytes @2 :Data;
}

struct UncachedReadColumns {
  addresses @0 :List(UInt64);
  sizes @1 :Data;
  values @2 :List(UInt64);
}

struct PatchColumns {
  sizes @0 :List(UInt16);  # words changed, for each transition
  indices @1 :List(UInt16);  # end to end
  values @2 :List(UInt64);
}

struct SideEffectColumns {
  kinds @0 :List(UInt16);
  sequences @1 :List(UInt64);
  flags @2 :Data;  # bit 0: not retired
  registerHashes @3 :List(UInt64);
  patches @4 :PatchColumns;
}

struct DiscontinuityColumns {
  kinds @0 :List(UInt16);
  sequences @1 :List(UInt64);
  registerHashes @2 :List(UInt64);
  signals @3 :List(Int32);
  siginfos @4 :List(Data);
  patches @5 :PatchColumns;
}

struct OrderRunColumns {
  firstSequences @0 :List(UInt64);
  sizes @1 :List(UInt32);  # counts of each run
  counts @2 :Data;  # of all runs, end to end, as variable-length differences
}

struct MemoryHashColumns {
  addresses @0 :List(UInt64);
  sizes @1 :List(UInt64);
  hashes @2 :List(UInt64);
}

struct MappedRangeColumns {
  addresses @0 :List(UInt64);
  sizes @1 :List(UInt64);
  flags @2 :Data;  # bit 0: has a module
  modules @3 :List(Int32);  # only for ranges that have one
  moduleOffsets @4 :List(UInt64);
}

struct UsedPageColumns {
  sizes @0 :List(UInt32);  # pages of each record
  flags @1 :Data;  # bit 0: complete
  pages @2 :Data;  # of all records, end to end, as variable-length differences of page numbers
}

struct MapRegion {
  start @0 :UInt64;
  end @1 :UInt64;
  protection @2 :UInt32;
  shared @3 :Bool;
  fileOffset @4 :UInt64;
  deviceMajor @5 :UInt32;
  deviceMinor @6 :UInt32;
  inode @7 :UInt64;
  name @8 :Data;
  module @9 :Int32 = -1;
}

struct EventBlock {
  events @0 :List(Event);
}

struct Event {
  kind @0 :UInt16;
  sequence @1 :UInt64;
  thread @2 :Int32;
  count @3 :UInt64;
  number @4 :Int64;
  arguments @5 :List(UInt64);
  result @6 :Int64;
  text @7 :Data;
  maps @8 :List(MapRegion);  # of a map change all regions, of a map part those in its ranges
}

struct KeyframeHeader {
  uuid @0 :Data;
  number @1 :UInt64;
  sequence @2 :UInt64;
  threads @3 :List(ThreadState);
  maps @4 :List(MapRegion);
  auxv @5 :List(UInt64);
}

struct ThreadState {
  thread @0 :Int32;
  count @1 :UInt64;
  segment @2 :UInt64;
  registers @3 :List(UInt64);
}

# Stored pages, in the order stored. All groups of a file hold 16 pages but the last.
struct PageGroup {
  bytes @0 :Data;
}

# Part of a keyframe's page table; addresses ascend over all parts.
struct PageTable {
  addresses @0 :List(UInt64);
  sources @1 :Data;  # 0: zero page; 1: stored page; 2: module page
  owners @2 :List(UInt32);  # stored: the keyframe whose file has it; module: its index; zero: 0
  positions @3 :List(UInt64);  # stored: index among that file's stored pages; module: byte offset
}

# In a keyframe that looked at all private memory: a page that is not in its table was never written.
struct KeyframeExtent {
  unseen @0 :List(UInt64);  # but there: first and end address of each range
}

struct KeyframeEnd {
  pageCount @0 :UInt64;
  storedPages @1 :UInt64;
}

# What the kernel keeps of the process besides registers and memory.
struct KernelState {
  threads @0 :List(ThreadKernelState);
  descriptors @1 :List(OpenDescriptor);
  signals @2 :List(SignalHandling);
  pending @3 :UInt64;
  siginfos @4 :List(Data);
  intervalTimers @5 :List(IntervalTimer);
  posixTimers @6 :List(PosixTimer);
  limits @7 :List(UInt64);  # soft, hard, ...
  layout @8 :List(UInt64);
  executable @9 :Data;
  workingDirectory @10 :Data;
  root @11 :Data;
  umask @12 :Int32 = -1;
  personality @13 :Int64 = -1;
  parent @14 :Int32;
  group @15 :Int32;
  session @16 :Int32;
  noNewPrivileges @17 :Bool;
}

struct ThreadKernelState {
  thread @0 :Int32;
  name @1 :Data;
  blocked @2 :UInt64;
  pending @3 :UInt64;
  siginfos @4 :List(Data);
  systemCall @5 :Int64 = -1;
  hasSignalStack @6 :Bool;
  signalStackBase @7 :UInt64;
  signalStackBytes @8 :UInt64;
  signalStackFlags @9 :Int32 = 2;
  robustList @10 :UInt64;
  robustListBytes @11 :UInt64;
  hasClearTid @12 :Bool;
  clearTid @13 :UInt64;
  rseq @14 :UInt64;
  rseqBytes @15 :UInt32;
  rseqSignature @16 :UInt32;
  rseqFlags @17 :UInt32;
  policy @18 :Int32;
  priority @19 :Int32;
  nice @20 :Int32;
  processors @21 :List(UInt64);
}

struct OpenDescriptor {
  fd @0 :Int32;
  kind @1 :UInt16;
  path @2 :Data;
  offset @3 :UInt64;
  flags @4 :UInt32;
  closeOnExec @5 :Bool;
  mode @6 :UInt32;
  device @7 :UInt64;
  inode @8 :UInt64;
  specialDevice @9 :UInt64;
  sizeBytes @10 :UInt64;
  sameAs @11 :Int32 = -1;
  details @12 :Data;
  hasUnread @13 :Bool;
  unread @14 :Data;
}

struct SignalHandling {
  handler @0 :UInt64;
  flags @1 :UInt64;
  restorer @2 :UInt64;
  mask @3 :UInt64;
}

struct IntervalTimer {
  which @0 :Int32;
  leftNs @1 :UInt64;
  intervalNs @2 :UInt64;
}

struct PosixTimer {
  id @0 :Int32;
  clock @1 :Int32;
  notify @2 :Int32;
  signal @3 :Int32;
  target @4 :Int32;
  value @5 :UInt64;
}
