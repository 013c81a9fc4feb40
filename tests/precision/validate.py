#!/usr/bin/env python3
"""validate.py SCHEMA FILE…: checks JSON files against a schema, in an environment that has jsonschema."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv('schema', 'tests/precision/requirements.txt')
import jsonschema  # noqa: E402


def main(schema, *files):
    with open(schema) as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    bad = 0
    for path in files:
        with open(path) as f:
            for e in list(validator.iter_errors(json.load(f)))[:3]:
                print(f'{path}: {e.json_path}: {e.message[:200]}')
                bad += 1
    sys.exit(bool(bad))


main(*sys.argv[1:])
