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
        self.remarks = [program.note] if program.note else []

    def remark(self, text):
        if text and text not in self.remarks:
            self.remarks.append(text)

    def cells(self):
        same = ["%d" % self.same[variant] if variant in self.ran else "" for variant in PRELOADED]
        return [self.program.title, self.version, str(self.cases)] + same + ["%.0f" % self.seconds, "; ".join(self.remarks)]


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
