#!/usr/bin/env python3
"""read_junit.py FILE: prints as JSON how the package junitparser reads a JUnit report.  For each suite: its numbers of
tests, failures and errors, then name and results of each case.  It fails if the numbers do not agree with the cases."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv('schema', 'tests/precision/requirements.txt')
import junitparser  # noqa: E402


def read(suite):
    stated = suite.tests, suite.failures, suite.errors
    cases = [(case.name, [type(r).__name__ for r in case.result]) for case in suite]
    suite.update_statistics()
    assert stated == (suite.tests, suite.failures, suite.errors), stated
    return ' '.join(map(str, stated)), cases


print(json.dumps([read(suite) for suite in junitparser.JUnitXml.fromfile(sys.argv[1])]))
