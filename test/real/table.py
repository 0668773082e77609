"""The table of doc/programs.md: a row for each program, between two marks."""

import os

from variants import PRELOADED

BEGIN, END = "<!-- made by scripts/real-programs.sh --table -->", "<!-- end of the table -->"
COLUMNS = ["program", "version", "cases"] + list(PRELOADED) + ["seconds", "remarks"]


class Row:
    def __init__(self, name, program, version):
        self.name, self.program, self.version = name, program, version
        self.cases, self.seconds, self.same = 0, 0.0, {variant: 0 for variant in PRELOADED}
        self.ran = set()
        self.remarks = {}  # what is said of which runs

    def remark(self, text, label):
        if text and label not in self.remarks.setdefault(text, []):
            self.remarks[text].append(label)

    def cells(self):
        same = ["%d" % self.same[variant] if variant in self.ran else "" for variant in PRELOADED]
        remarks = [self.program.note] if self.program.note else []
        remarks += ["%s (%s)" % (text, "; ".join(labels)) for text, labels in self.remarks.items()]
        return [self.program.title, self.version, str(self.cases)] + same + ["%.0f" % self.seconds, "; ".join(remarks)]


def line(cells):
    return "| %s |" % " | ".join(cell.replace("|", "/") for cell in cells)


def write(path, rows):
    """The rows of other programs stay."""
    with open(path) as file:
        before, rest = file.read().split(BEGIN + "\n")
    old, after = rest.split(END)
    kept = {text.split("|")[1].strip(): text for text in old.splitlines()[2:]}
    kept.update({row.program.title: line(row.cells()) for row in rows})
    table = [line(COLUMNS), "|" + "---|" * len(COLUMNS)] + [kept[title] for title in sorted(kept, key=str.lower)]
    with open(path + ".new", "w") as file:
        file.write("%s%s\n%s\n%s%s" % (before, BEGIN, "\n".join(table), END, after))
    os.replace(path + ".new", path)
