#!/usr/bin/python3
"""Counts the test cases of one `bazel test` and prints `N passed, N failed` as the last line.

usage: count_results.py BUILD_EVENTS.json BAZEL_EXIT_STATUS

Reads Bazel's build events, not bazel-testlogs: those may hold results of targets that are gone.
A target without readable cases (not built, timed out, crashed before its first test) counts as
one failure. Exits with 0 only if Bazel did, something passed and nothing failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


def read_events(path):
    with open(path, encoding="utf-8") as events:
        for line in events:
            try:
                yield json.loads(line)
            except ValueError:
                return  # Bazel was killed while writing the line.


def count_cases(path):
    """Returns (passed, failed names, skipped) of one test.xml."""
    passed, failed, skipped = 0, [], 0
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = "%s.%s" % (case.get("classname", ""), case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.get("status") == "notrun":
            continue
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    events_path, bazel_status = sys.argv[1], int(sys.argv[2])
    wanted, results = set(), {}
    for event in read_events(events_path):
        ident = event.get("id", {})
        if "targetConfigured" in ident and "_test rule" in event.get("configured", {}).get(
                "targetKind", ""):
            wanted.add(ident["targetConfigured"]["label"])
        if "testResult" in ident and "testResult" in event:
            key = ident["testResult"]
            # Later attempts of a shard replace earlier ones.
            results.setdefault(key["label"], {})[(key.get("run"), key.get("shard"))] = (
                event["testResult"])

    passed, failed, skipped = 0, [], 0
    for label in sorted(wanted | set(results)):
        if label not in results:
            failed.append(label + " (not built or not run)")
            continue
        for result in results[label].values():
            names = []
            for output in result.get("testActionOutput", []):
                if output["name"] == "test.xml":
                    path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                    try:
                        p, names, s = count_cases(path)
                        passed, skipped = passed + p, skipped + s
                        failed += ["%s %s" % (label, name) for name in names]
                    except (OSError, xml.etree.ElementTree.ParseError):
                        pass
            if result.get("status") != "PASSED" and not names:
                failed.append("%s (%s)" % (label, result.get("status")))

    if bazel_status != 0 and not failed:
        failed.append("bazel test (exit status %d)" % bazel_status)
    if passed == 0 and not failed:
        failed.append("no test was run")
    for name in failed:
        print("FAILED: " + name)
    print("%d passed, %d failed" % (passed, len(failed)) + (
        ", %d skipped" % skipped if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
