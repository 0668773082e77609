"""What assemble.py makes of modules, and what it refuses.

    test_assemble.py SOURCE
"""

import base64
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
SCRIPT = os.path.join(SOURCE, "tools", "html", "assemble.py")
PAGE = """<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="script-src 'self'; style-src 'self'">
<link rel="stylesheet" href="page.css">
<script type="module" src="main.js"></script>
<script type="application/octet-stream;base64" id="payload"></script><p>end
"""

spec = importlib.util.spec_from_file_location("assemble", SCRIPT)
assemble = importlib.util.module_from_spec(spec)
spec.loader.exec_module(assemble)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, **files):
        for name, text in {"page_html": PAGE, "page_css": "p { color: red }\n", **files}.items():
            path = os.path.join(self.folder, name.replace("__", "/").replace("_", "."))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)

    def make(self, **files):
        self.write(**files)
        before, behind, _ = assemble.assemble(self.folder)
        return before + behind

    def refuse(self, words, **files):
        with self.assertRaises(assemble.Problem) as caught:
            self.make(**files)
        self.assertIn(words, str(caught.exception))


class Modules(Case):
    def test_comments_are_left_out(self):
        code = "/** all of it */\nexport const a = /** @type {any} */ (1); /* one */\n// two\nconst s = '/* no */ // no', r = /[/*]\\/\\/x/; // three\n" \
               "const t = `// no ${/* four */ a} /* no */`;\n  /* five\n   * six\n   */\nconst b = a/* seven */in t;\n"
        page = self.make(main_js="import {a} from './a.js';\na(/* eight */);\n", a_js=code)
        self.assertIn("const a = (1);\nconst s = '/* no */ // no', r = /[/*]\\/\\/x/;\nconst t = `// no ${ a} /* no */`;\nconst b = a/* seven */in t;\n", page)
        for word in ("all of it", "one", "two", "three", "four", "five", "eight"):
            self.assertNotIn(word + " ", page)

    def test_imports_come_first_and_once(self):
        page = self.make(main_js="import {a} from './a.js';\nimport {\n  b,\n} from \"./views/b.js\";\na(b);\n",
                         a_js="export function a(x) { return x; }\n",
                         views__b_js="import {a} from '../a.js';\nexport const b = a(1);\n")
        order = re.findall(r"---- (\S+)", page)
        self.assertEqual(order, ["a.js", "views/b.js", "main.js"])
        self.assertNotRegex(page, r"\b(import|export)\b")
        self.assertIn("function a(x) { return x; }", page)
        self.assertIn("'use strict';", page)

    def test_forms_of_exports(self):
        page = self.make(main_js="import {A, f, g, x} from './a.js';\nf(A, g, x);\n",
                         a_js="export class A {}\nexport async function f() {}\nexport function* g() {}\nexport let x = 1;\n")
        for line in ("class A {}", "async function f() {}", "function* g() {}", "let x = 1;"):
            self.assertIn("\n" + line, page)

    def test_what_only_looks_like_code_stays(self):
        code = ("const text = 'import {a} from';\nconst template = `\nexport const no = ${`\n}` + '}'}\n`;\n"
                "const regex = /[/'\"]{/g, half = 4 / 2;%s\nfunction no2(a) { return a / half / 2; }\n")
        text = code % " // export const no = 'it\n/*\nexport const no = 1;\n*/\n/** @param {import('./a.js').A} a */"
        page = self.make(main_js=text + "export const last = 1;\n")
        self.assertIn(code % "" + "const last = 1;", page)

    def test_equal_names_at_the_top(self):
        self.refuse("name is also a name of", main_js="import './a.js';\nconst name = 1;\n", a_js="let name = 2;\n")
        self.refuse("declared twice", main_js="const name = 1;\nfunction name() {}\n", a_js="")
        self.make(main_js="import './a.js';\nconst name = 1;\n", a_js="{\n  let name = 2;\n}\nfunction f() {\nlet name = 3;\n}\n")

    def test_circles(self):
        self.refuse("a circle of imports: a.js -> b.js -> a.js", main_js="import './a.js';\n",
                    a_js="import './b.js';\n", b_js="import './a.js';\n")

    def test_names_that_are_not_exported(self):
        self.refuse("does not export b", main_js="import {b} from './a.js';\n", a_js="const b = 1;\n")
        self.refuse("there is no", main_js="import {b} from './none.js';\n")

    def test_forms_that_are_not_known(self):
        for text in ("import * as a from './a.js';", "import a from './a.js';", "import {a as b} from './a.js';",
                     "import {a} from 'a';", "export default 1;", "export {a};", "export * from './a.js';",
                     "const {a} = b;", "export const [a] = b;", "const f = () => import('./a.js');", "f(import.meta.url);"):
            with self.subTest(text):
                self.write(main_js=text + "\n", a_js="export const a = 1;\n")
                self.assertRaises(assemble.Problem, assemble.assemble, self.folder)

    def test_what_ends_a_script(self):
        for text in ("'</script>'", "'</SCRIPT '", "'<!--'", "'<script>'", "'\u2028'"):
            self.refuse("cannot hold", main_js="f(%s);\n" % text)
        for text in ("p::after { content: '</style>' }", "@import 'a.css';", "p { background: url(http://a/b) }"):
            self.refuse("none may end", main_js="f();\n", page_css=text)


class Page(Case):
    def test_the_policy_names_what_is_there(self):
        page = self.make(main_js="f('\\u00e9', 'é');\n")
        for element, directive in (("script", "script-src"), ("style", "style-src")):
            text = re.search("<%s>(.*?)</%s>" % (element, element), page, re.S).group(1)
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn("%s 'sha256-%s'" % (directive, digest), page)
        self.assertNotIn("'self'", page)

    def test_the_payload_goes_between(self):
        self.write(main_js="f();\n")
        before, behind, _ = assemble.assemble(self.folder)
        self.assertTrue(before.endswith('<script type="application/octet-stream;base64" id="payload">'))
        self.assertEqual(behind, "</script><p>end\n")

    def test_style_sheets_become_one(self):
        link = '<link rel="stylesheet" href="%s.css">'
        page = self.make(main_js="f();\n", page_html=PAGE.replace(link % "page", link % "page" + "\n" + link % "more"), more_css="b { top: 0 }\n")
        self.assertRegex(page, r"(?s)<style>[^<]*color: red[^<]*top: 0[^<]*</style>")
        self.assertEqual(page.count("<style>"), 1)
        self.assertNotIn("<link", page)

    def test_a_page_without_a_part(self):
        for part in ("<link", "<script type=\"module\"", "id=\"payload\"", "script-src 'self'"):
            self.write(main_js="f();\n", page_html=PAGE.replace(part, ""))
            self.assertRaises(assemble.Problem, assemble.assemble, self.folder)

    def test_c_source_holds_the_same_bytes(self):
        """As the compiler reads it: what it prints is the page."""
        self.write(main_js="f('\\\\ \\' \" ??/ é \\0', `\t`);\n// \x011\n", page_css="p::after { content: 'ü9' }\n")
        source, program = os.path.join(self.folder, "page.c"), os.path.join(self.folder, "page")
        subprocess.run([SCRIPT, "--depfile", source + ".d", self.folder, source], check=True)
        with open(source + ".c", "w", encoding="utf-8") as file:
            file.write('#include <stdio.h>\n#include "%s"\nint main(void)\n{\n  fwrite(gp_html_page_begin, 1, gp_html_page_begin_length,'
                       ' stdout);\n  fwrite(gp_html_page_end, 1, gp_html_page_end_length, stdout);\n}\n' % source)
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", SOURCE, "-o", program, source + ".c"], check=True)
        before, behind, paths = assemble.assemble(self.folder)
        self.assertEqual(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout, (before + behind).encode())
        with open(source + ".d", encoding="utf-8") as file:
            named = file.read().split()
        self.assertEqual(named, [source + ":"] + paths)
        self.assertEqual({os.path.basename(path) for path in paths}, {"page.html", "page.css", "main.js"})

    def test_what_is_wrong_is_said_with_its_line(self):
        self.write(main_js="f();\n\nexport default f;\n")
        done = subprocess.run([SCRIPT, self.folder, os.path.join(self.folder, "out.c")], stderr=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("main.js:3: of exports only", done.stderr)


if __name__ == "__main__":
    unittest.main()
