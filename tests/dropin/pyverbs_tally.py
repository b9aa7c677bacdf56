#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what rdma-core's pyverbs tests did (pyverbs.sh) and compares it with docs/dropin.md.

The page has a line "| passed | skipped | failed | of |" with a line of numbers below the rule under it, a table headed
"| passed | tests of | what they try |", and one headed "| failed test | why |". A test is named as in the log:
module.class.test.
"""
import collections
import re
import sys


def read_log(path):
    """[(name, outcome, reason)] of every test of a verbose unittest run."""
    text = open(path, encoding="utf-8", errors="replace").read()
    head, *blocks = re.split(r"^={70}$", text, flags=re.MULTILINE)
    outcomes = []
    name = None
    # A test with a docstring is named on the line before; what a test prints comes before its outcome.
    for line in head.splitlines():
        begin = re.match(r"\w+ \(tests\.([\w.]+)\)", line)
        if begin:
            name = begin.group(1)
        end = re.search(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped (['\"]).*\2)$", line)
        if name and end:
            what = end.group(1)
            kind = {"ok": "passed", "FAIL": "failed", "ERROR": "failed"}.get(what, "skipped")
            outcomes.append((name, kind, what[len("skipped '"):-1] if kind == "skipped" else ""))
            name = None
    total = int(re.search(r"^Ran (\d+) tests", text, re.MULTILINE).group(1))
    errors = {}
    for block in blocks:
        lines = block.strip().splitlines()
        name = re.search(r"\(tests\.([\w.]+)\)", lines[0])
        last = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        if name and last:
            errors[name.group(1)] = last[-1]
    return outcomes, total, errors


def read_page(path):
    """(passed, skipped, failed, total), {module: passed}, {name: reason} as the page says; None without a tally."""
    lines = open(path, encoding="utf-8").read().splitlines()
    numbers = None
    modules = {}
    known = {}

    def rows(first):
        for row in lines[first:]:
            if not row.startswith("|"):
                return
            yield [cell.strip().strip("`") for cell in row.strip("|").split("|")]

    for i, line in enumerate(lines):
        head = line.replace(" ", "")
        if head == "|passed|skipped|failed|of|":
            numbers = tuple(int(n) for n in re.findall(r"\d+", lines[i + 2]))
        elif head == "|passed|testsof|whattheytry|":
            modules = {cells[1]: int(cells[0]) for cells in rows(i + 2)}
        elif head == "|failedtest|why|":
            known = {cells[0]: cells[1] for cells in rows(i + 2)}
    return numbers, modules, known


def main():
    outcomes, total, errors = read_log(sys.argv[1])
    numbers, modules, known = read_page(sys.argv[2])
    count = collections.Counter(outcome for _, outcome, _ in outcomes)
    passed = collections.Counter(name.split(".")[0] for name, outcome, _ in outcomes if outcome == "passed")
    print(f"{count['passed']} passed, {count['skipped']} skipped, {count['failed']} failed of {total}")
    failed = [name for name, outcome, _ in outcomes if outcome == "failed"]
    if "--print" in sys.argv:
        for module, n in passed.most_common():
            print(f"{n:4} passed: {module}")
        for reason, n in collections.Counter(r for _, o, r in outcomes if o == "skipped").most_common():
            print(f"{n:4} skipped: {reason}")
        for name in failed:
            print(f"     failed: {name}: {errors.get(name, 'see the log')}")
        return 0
    complaints = []
    if len(outcomes) != total:
        complaints.append(f"{total} tests ran, but the log names {len(outcomes)}")
    for name in failed:
        if name not in known:
            complaints.append(f"{name} failed: {errors.get(name, 'see the log')}")
    complaints += [f"{name} is said to fail and did not" for name in known if name not in failed]
    if numbers is None:
        complaints.append("the page has no tally")
    elif count["passed"] < numbers[0]:
        complaints.append(f"the page says that {numbers[0]} pass")
    for module, n in modules.items():
        if passed[module] < n:
            complaints.append(f"the page says that {n} of {module} pass, not {passed[module]}")
    if numbers is not None and sum(modules.values()) != numbers[0]:
        complaints.append(f"the page names {sum(modules.values())} tests that pass, and says that {numbers[0]} do")
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    return 1 if complaints else 0


sys.exit(main())
