#!/usr/bin/env python3
"""validate.py SCHEMA FILE…: checks JSON files against a schema, in an environment that has jsonschema.  In a file whose
name ends in .ndjson each line is checked.  Users' validators ignore members that a schema does not describe, so
later versions may add some; here they are errors, so that each member is described.

validate.py --serve: reads lines with a JSON list of a schema and files each, and answers each with a line, the JSON list
of the first error of each document; so one process checks many, and a wrong document not to its end."""
import itertools
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv('schema', 'tests/precision/requirements.txt')
import jsonschema  # noqa: E402
import referencing  # noqa: E402


def closed(schema):
    """The schema with objects restricted to the members that it describes."""
    if isinstance(schema, list):
        return [closed(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {k: closed(v) for k, v in schema.items()}
    return {'additionalProperties': False, **inner} if schema.get('type') == 'object' and 'properties' in schema else inner


def load(path):
    with open(path) as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    return closed(schema)


def documents(path):
    with open(path) as f:
        return [json.loads(line) for line in f] if path.endswith('.ndjson') else [json.load(f)]


def errors(most, schema, *files):
    """At most so many errors of each document, as text."""
    def beside(uri):
        other = load(os.path.join(os.path.dirname(schema), uri))
        return referencing.Resource.from_contents(other)
    validator = jsonschema.Draft202012Validator(load(schema), registry=referencing.Registry(retrieve=beside))
    for path in files:
        for document in documents(path):
            for e in itertools.islice(validator.iter_errors(document), most):
                yield f'{path}: {e.json_path}: {e.message[:200]}'


def serve():
    for line in sys.stdin:
        print(json.dumps(list(errors(1, *json.loads(line)))), flush=True)


def main(*args):
    if args == ('--serve',):
        serve()
        return
    found = list(errors(3, *args))
    print(*found, sep='\n', end='\n' if found else '')
    sys.exit(bool(found))


main(*sys.argv[1:])
