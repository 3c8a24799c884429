"""Tests over traces of both engines, from one source."""

def engines_test(
        name,
        srcs,
        deps,
        data = [],
        tags = [],
        env = {},
        translated_except = [],
        emulated_is_long = False,
        emulated_long = [],
        **kwargs):
    """NAME_test records with the emulator, NAME_translated_test with the engine that translates.

    Args:
      name: ends in _test.
      srcs: of both tests; what holds for one engine only they ask the harness for.
      deps: as of a cc_test.
      data: as of a cc_test.
      tags: of both tests.
      env: of both tests.
      translated_except: cases, as gtest names them, that do not pass in the second yet.
      emulated_is_long: the first is one of the suites that take many minutes, and runs with them.
      emulated_long: cases of the first that do, as NAME_long_test.
      **kwargs: of both tests.
    """
    subject = name[:-len("_test")]
    native.cc_library(
        name = subject + "_cases",
        testonly = True,
        srcs = srcs,
        data = data,
        deps = deps,
        alwayslink = True,
    )
    native.cc_test(
        name = name,
        deps = [":%s_cases" % subject],
        tags = tags + (["long", "manual"] if emulated_is_long else []),
        env = dict(env, GTEST_FILTER = "*-" + ":".join(emulated_long)) if emulated_long else env,
        **kwargs
    )
    if emulated_long:
        native.cc_test(
            name = subject + "_long_test",
            deps = [":%s_cases" % subject],
            tags = tags + ["long", "manual"],
            env = dict(env, GTEST_FILTER = ":".join(emulated_long)),
            **kwargs
        )
    native.cc_test(
        name = subject + "_translated_test",
        deps = [":%s_cases" % subject],
        tags = tags,
        env = dict(env, RECORD_ENGINE = "translate", GTEST_FILTER = "*-" + ":".join(translated_except)),
        **kwargs
    )
