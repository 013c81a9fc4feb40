#!/usr/bin/env python3
"""named.py MODEL.pb GRAPH.json: a frozen graph in the JSON form of Model Explorer, in which nodes have their names.

Model Explorer's own adapter numbers the nodes of a GraphDef, so that the node data of Halftone, which is by name, fits none of them.  This
runs that adapter and gives each node the name that it states.  Needs the package ai-edge-model-explorer.  docs: docs/compare.md"""
import json
import os
import sys
import tempfile

from model_explorer.builtin_graphdef_adapter import BuiltinGraphdefAdapter


def named(node, name):
    """The adapter gives the whole name as the namespace; the interface shows what is before the last slash as layers."""
    edges = [dict(e, sourceNodeId=name[e['sourceNodeId']]) for e in node['incomingEdges']]
    own = name[node['id']]
    return dict(node, id=own, namespace=own.rpartition('/')[0], incomingEdges=edges)


def converted(path):
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, 'model.graphdef')
        os.symlink(os.path.abspath(path), link)
        return BuiltinGraphdefAdapter().convert(link, {})['graphCollections'][0].graphs


def main(model, out):
    graphs = []
    for g in converted(model):
        name = {n['id']: n['namespace'] for n in g['nodes']}
        graphs.append(dict(g, nodes=[named(n, name) for n in g['nodes']]))
    with open(out, 'w') as f:
        json.dump(dict(label=os.path.basename(model), graphs=graphs), f)


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
