"""A test with a folder of its own."""
import os, shutil, tempfile, unittest


class FolderCase(unittest.TestCase):
    place = None  # the folder in which it is made; None: that of temporary files

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='halftone-', dir=self.place)
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name, data=None):
        """Writes a file with this content to the folder; returns its path."""
        p = os.path.join(self.dir, name)
        if data is not None:
            with open(p, 'wb') as f:
                f.write(data)
        return p

    def read(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()
