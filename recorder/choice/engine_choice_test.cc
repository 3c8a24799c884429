// What is recorded by which engine, where that is left to the recorder.

#include "recorder/choice/engine_choice.h"

#include <sys/resource.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "isa/cpuid.h"
#include "isa/host_features.h"
#include "isa/memory_model.h"
#include "recorder/record_fixture.h"

namespace hindsight {
namespace {

class EngineChoiceTest : public RecordTest {
 protected:
  EngineChoiceTest() {
    options_.any_engine = options_.any_cpu = true;
    options_.remark = [this](const std::string& text) { remarks_.push_back(text); };
  }

  void ExpectEngine(const std::string& engine, const std::vector<std::string>& arguments) {
    ExpectEngine(engine, arguments, engine == "translate" ? "portable" : "host");
  }
  void ExpectEngine(const std::string& engine, const std::vector<std::string>& arguments,
                    const std::string& cpu) {
    ASSERT_NO_FATAL_FAILURE(Record(arguments));
    const absl::StatusOr<std::unique_ptr<TraceReader>> trace =
        TraceReader::Open(options_.directory);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ((*trace)->manifest().engine, engine);
    EXPECT_EQ((*trace)->manifest().cpu, cpu);
    EXPECT_EQ(remarks_.size(), engine == "translate" ? 0u : 1u);
    ExpectExact();
  }

  std::vector<std::string> remarks_;
};

TEST_F(EngineChoiceTest, ProgramsAreTranslated) { ExpectEngine("translate", {"/bin/true"}); }

TEST_F(EngineChoiceTest, StrongerMemoryModelsAreEmulated) {
  options_.memory_model = MemoryModel::kLoad;
  ExpectEngine("emulate", {"/bin/true"});
}

TEST_F(EngineChoiceTest, ShortTurnsAreEmulated) {
  options_.quantum = 1000;
  ExpectEngine("emulate", {"/bin/true"});
}

TEST_F(EngineChoiceTest, TheHostsProcessorIsOfferedByBoth) {
  options_.any_cpu = false;
  options_.cpu = CpuModel::kHost;
  ExpectEngine("translate", {"/bin/true"}, "host");
}

TEST_F(EngineChoiceTest, WhoNeedsAvxIsOfferedIt) {
  if (!HostFeatures::OfThisHost().Has({HostFeature::kAvx2, HostFeature::kFma})) {
    GTEST_SKIP() << "this host has no AVX2";
  }
  ExpectEngine("translate", {"recorder/choice/testdata/for_new_processors"}, "host");
}

TEST_F(EngineChoiceTest, ProgramsThatTraceAreEmulated) {
  ExpectEngine("emulate", {"/usr/bin/gdb", "--version"});
}

TEST_F(EngineChoiceTest, ALimitOnAddressesIsEmulated) {
  rlimit before = {};
  getrlimit(RLIMIT_AS, &before);
  const rlimit limited = {uint64_t{1} << 40, before.rlim_max};
  setrlimit(RLIMIT_AS, &limited);
  ExpectEngine("emulate", {"/bin/true"});
  setrlimit(RLIMIT_AS, &before);
}

TEST_F(EngineChoiceTest, ASmallLimitOnFilesIsEmulated) {
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limited = {uint64_t{1} << 30, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limited);
  ExpectEngine("emulate", {"/bin/true"});
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST_F(EngineChoiceTest, AnEngineThatIsNamedIsNotReplaced) {
  options_.arguments = {"/bin/true"};
  options_.any_engine = false;
  options_.engine = EngineKind::kTranslate;
  options_.bulk_bytes = 1 << 20;
  EXPECT_EQ(RecordProgram(options_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(remarks_.empty());
}

}  // namespace
}  // namespace hindsight
