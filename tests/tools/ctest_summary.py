"""ctest_summary.py JUNIT.xml...: sums up ctest's JUnit files as `N passed, N failed, N skipped`.

Before that, it prints the end of the output of each failed test.  It counts the cases inside a test if its output
states their number (cmocka, lit, or a last line of the same form as Halftone's), and otherwise the test as one.  It
names failed and skipped tests, with the reason.  It exits with 1 if a test failed or none passed.
"""

import re
import sys
import xml.etree.ElementTree as ET

OURS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
LIT = {
    "passed": re.compile(r"^\s+(?:Passed|Expectedly Failed)\s*:\s*(\d+)", re.M),
    "failed": re.compile(r"^\s+(?:Failed|Unresolved|Timed Out|Unexpectedly Passed)\s*:\s*(\d+)", re.M),
    "skipped": re.compile(r"^\s+(?:Unsupported|Skipped)\s*:\s*(\d+)", re.M),
}
CMOCKA = {
    "passed": re.compile(r"^\[  PASSED  \] (\d+) test\(s\)\.", re.M),
    "failed": re.compile(r"^\[  FAILED  \] (\d+) test\(s\)", re.M),
    "skipped": re.compile(r"^\[  SKIPPED \] (\d+) test\(s\)", re.M),
}
SHOWN = 30  # lines of a failed test


def cases(output):
    """(passed, failed, skipped) as the output states them, or zeros."""
    found = OURS.findall(output)
    if found:
        return tuple(int(n or 0) for n in found[-1])
    for kind in (CMOCKA, LIT):
        counts = tuple(sum(map(int, kind[key].findall(output))) for key in kind)
        if any(counts):
            return counts
    return (0, 0, 0)


def main(paths):
    total = [0, 0, 0]
    failures, skips = [], []
    for path in paths:
        for test in ET.parse(path).getroot().iter("testcase"):
            name, status = test.get("name"), test.get("status")
            output = test.findtext("system-out") or ""
            passed, failed, skipped = cases(output)
            if status in ("notrun", "disabled"):
                said = [line for line in output.splitlines() if line.strip()]
                why = said[-1].removeprefix("skipped: ") if said else "no reason given"
                skips.append((name, why))
                skipped = max(1, skipped)
                passed = failed = 0
            elif status == "run":
                if failed:  # a test with failures must not exit with success
                    failures.append(name + " (exited with success all the same)")
                elif not passed and not skipped:
                    passed = 1
                if skipped:
                    named = re.findall(r"^skipped: (.*)$|^\[  SKIPPED \] (\w+)$", output, re.M)
                    skips += [(name, a or b) for a, b in named] or [(name, f"{skipped} cases")]
            else:
                failed = max(1, failed)
                failures.append(name)
                print(f"=== {path}: {name}: the end of its output", *output.splitlines()[-SHOWN:], sep="\n")
            for i, n in enumerate((passed, failed, skipped)):
                total[i] += n
    for name, why in dict.fromkeys(skips):
        print(f"skipped: {name}: {why}")
    for name in failures:
        print(f"FAILED: {name}")
    print("%d passed, %d failed" % tuple(total[:2]) + (f", {total[2]} skipped" if total[2] else ""))
    return 1 if total[1] or not total[0] else 0


sys.exit(main(sys.argv[1:]))
