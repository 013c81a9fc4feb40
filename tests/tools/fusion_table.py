"""The fusions, as the tool lists them."""
import json
import subprocess

import environment


def rounding_once():
    """Names of fusions that make a kernel round once to 16 bits, where its ops round one by one."""
    listed = subprocess.run([environment.TOOL, 'fusions', '--format', 'json'], check=True, capture_output=True)
    names = [f['name'] for f in json.loads(listed.stdout)['fusions'] if f['exactness'].endswith('16-bit results are rounded once, at the end')]
    assert names, 'the table of fusions says in other words which of them round once'
    return names
