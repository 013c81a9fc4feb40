#!/usr/bin/env python3
"""Every relative link of a page leads to a file, and to an existing heading if it names one; README.md links every page
of docs/."""
import glob, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(page):
    """The text without blocks of code, in which a bracket is no link."""
    with open(os.path.join(ROOT, page)) as f:
        return re.sub(r'^```.*?^```', '', f.read(), flags=re.M | re.S)


def links(page):
    """(target, anchor) of each link into this repository, the target relative to its root."""
    for target in re.findall(r'\]\(([^)\s]+)\)', text_of(page)):
        if not re.match(r'[a-z]+:', target):
            path, _, anchor = target.partition('#')
            yield os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page, anchor


def anchors(page):
    """The anchors of a page's headings: lower case, blanks as hyphens, without punctuation."""
    for heading in re.findall(r'^#+ +(.*)$', text_of(page), re.M):
        yield re.sub(r'[^\w -]', '', heading.lower()).strip().replace(' ', '-')


def main():
    pages = [os.path.relpath(p, ROOT) for p in sorted(glob.glob(f'{ROOT}/*.md') + glob.glob(f'{ROOT}/docs/*.md') + glob.glob(f'{ROOT}/bench/*.md'))]
    wrong = []
    checked = 0
    for page in pages:
        for target, anchor in links(page):
            checked += 1
            if not os.path.exists(os.path.join(ROOT, target)):
                wrong.append(f'{page}: there is no {target}')
            elif anchor and anchor not in anchors(target):
                wrong.append(f'{page}: {target} has no heading #{anchor}')
    linked = {target for target, _ in links('README.md')}
    wrong += [f'README.md does not link {p}' for p in pages if p.startswith('docs/') and p not in linked]
    print(*wrong, sep='\n', file=sys.stderr)
    print(f'{checked} links checked')
    return 1 if wrong or not checked else 0


if __name__ == '__main__':
    sys.exit(main())
