#!/usr/bin/env python3
"""Manual pages, and completions of command lines as the shells compute them."""
import json, os, re, shutil, subprocess, unittest

from tool import TOOL, ToolCase


class Manual(ToolCase):
    def setUp(self):
        super().setUp()
        self.verbs = re.findall(r'^  ([a-z]+) +\S', self.tool('help').stdout.decode(), re.M)

    def options_of(self, verb):
        return re.findall(r'^  .*?--([a-z0-9-]+)', self.tool('help', verb).stdout.decode(), re.M)

    def page(self, *verb):
        return self.tool('help', *verb, '--format', 'man').stdout

    @unittest.skipUnless(shutil.which('mandoc'), 'no mandoc')
    def test_pages_are_well_formed_and_complete(self):
        for verb in [()] + [(v,) for v in self.verbs]:
            page = self.page(*verb)
            lint = subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning'], input=page, stdout=subprocess.PIPE)
            # A page has no date, so equal sources give equal pages.
            found = [w for w in lint.stdout.decode().splitlines() if 'missing date' not in w]
            self.assertEqual(found, [], verb)
            text = subprocess.run(['mandoc', '-T', 'utf8', '-O', 'width=1000'], input=page,
                                  stdout=subprocess.PIPE, check=True).stdout.decode()
            text = re.sub('.\b', '', text)
            for option in self.options_of(*verb) if verb else ():
                self.assertIn('--' + option, text)
            for name in () if verb else self.verbs:
                self.assertIn(f'halftone-{name}(1)', text)
            self.assertIn('defect of halftone', text)

    def test_page_of_the_options_has_each(self):
        page = self.page('options').decode()
        for o in json.loads(self.tool('options', '--format', 'json').stdout)['options']:
            self.assertIn('\\fB%s\\fR' % o['name'].replace('-', '\\-'), page)

    def test_usage(self):
        self.fails(2, "'json' is neither text nor man", 'help', 'run', '--format', 'json')
        self.fails(2, "no verb 'rnu'", 'help', 'rnu', '--format', 'man')
        self.fails(2, "no completion for 'tcsh'", 'completion', 'tcsh')
        self.fails(2, 'needs a shell', 'completion')


class Completion(ToolCase):
    """Asks each shell for the completions at the end of a line."""

    def script(self, shell):
        return self.path(shell, self.tool('completion', shell).stdout)

    def bash(self, line):
        words = line.split(' ')
        # Splits a line like bash, for which '=' is a word of its own.
        words = [w for word in words for w in re.split('(=)', word) if w or '=' not in word] if '=' in line else words
        if line.endswith('='):
            words[-1] = '='
        commands = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _halftone; printf "%s\\n" "${COMPREPLY[@]}"'
        return self.ask(['bash', '-c', commands, 'bash', self.script('bash'), *words])

    def fish(self, line):
        return self.ask(['fish', '--no-config', '-c', 'source $argv[1]; complete -C $argv[2] | cut -f1',
                         self.script('fish'), line])

    def zsh(self, line):
        """The words that the completion gives to zsh, which keeps those with the right beginning."""
        words = line.split(' ')
        commands = '''
            _describe() { print -l -- ${(P)@[-1]%%:*} }
            compadd() { shift; print -l -- "$@" }
            compset() { : }
            _files() { : }
            script=$1; shift
            words=("$@"); CURRENT=$#
            source $script'''
        start = words[-1].split('=')[-1]
        return [w for w in self.ask(['zsh', '-f', '-c', commands, 'zsh', self.script('zsh'), *words]) if w.startswith(start)]

    def ask(self, command):
        path = os.path.dirname(TOOL) + ':' + os.environ['PATH']
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, 'PATH': path},
                           cwd=self.dir)
        self.assertEqual((r.returncode, r.stderr), (0, b''), command)
        return r.stdout.decode().split()

    def check(self, ask):
        self.assertEqual(ask('halftone inspe'), ['inspect'])
        self.assertEqual(set(ask('halftone run --see')), {'--seed'})
        self.assertEqual(ask('halftone inspect --see'), [])
        self.assertIn('--precision_mode', ask('halftone explain --prec'))
        self.assertIn('--soc_version', ask('halftone atc --soc_v'))
        self.assertEqual(ask('halftone run --soc_v'), [])
        self.assertEqual(set(ask('halftone run --oo_level O')), {'O0', 'O1', 'O2', 'O3'})
        self.assertIn('grappler-fp16', ask('halftone run --policy grap'))
        self.assertIn('x86-64-v3', ask('halftone compile --target x86'))

    def test_bash(self):
        self.check(self.bash)
        self.assertEqual(self.bash('halftone run --policy=opt'), ['optimal'])
        self.assertIn('optimal', self.bash('halftone run --policy='))

    @unittest.skipUnless(shutil.which('fish'), 'no fish')
    def test_fish(self):
        self.check(self.fish)

    @unittest.skipUnless(shutil.which('zsh'), 'no zsh')
    def test_zsh(self):
        self.check(self.zsh)
        self.assertEqual(self.zsh('halftone run --policy=opt'), ['optimal'])


if __name__ == '__main__':
    unittest.main()
