"""The fusions, as the tool lists them."""
import json
import subprocess

import environment


def rounding_once():
    """Names of those that leave a kernel one rounding to 16 bits, where its ops round one by one."""
    listed = subprocess.run([environment.TOOL, 'fusions', '--format', 'json'], check=True, capture_output=True)
    return [f['name'] for f in json.loads(listed.stdout)['fusions'] if f['exactness'].endswith('one rounding at the end')]
