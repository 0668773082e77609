"""Chromium without a window, driven over its own protocol: what a test of a page needs of it.

    with Browser() as browser:
        page = browser.open(path)
        page.evaluate("document.title")

A browser has a profile folder of its own and ends with the block, whatever happened. What a page did wrong is kept:
page.problems (exceptions and console errors) and page.requests (addresses). Times out with a sentence, never silently.
"""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60  # for a command; nothing a page does for a test takes as long on a busy machine

# Keys that are no characters: code, key code
KEYS = {"Enter": ("Enter", 13), "Tab": ("Tab", 9), "Escape": ("Escape", 27), "Space": ("Space", 32), "ArrowUp": ("ArrowUp", 38),
        "ArrowDown": ("ArrowDown", 40), "ArrowLeft": ("ArrowLeft", 37), "ArrowRight": ("ArrowRight", 39), "Home": ("Home", 36),
        "End": ("End", 35), "PageUp": ("PageUp", 33), "PageDown": ("PageDown", 34), "Backspace": ("Backspace", 8),
        "Delete": ("Delete", 46)}
TEXTS = {"Enter": "\r", "Space": " "}
MODIFIERS = {"alt": 1, "control": 2, "meta": 4, "shift": 8}


class BrowserError(Exception):
    pass


def find_browser():
    """The path of one, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    def __init__(self, size=(1366, 768), seconds=SECONDS):
        self.size, self.seconds = size, seconds
        self.process = self.profile = None
        self.sent, self.pages, self.read = 0, {}, b""

    def __enter__(self):
        program = find_browser()
        if not program:
            raise BrowserError("no browser is installed: " + ", ".join(PROGRAMS))
        self.profile = tempfile.TemporaryDirectory(prefix="gpupool-browser-", ignore_cleanup_errors=True)
        to_browser, from_browser = os.pipe(), os.pipe()
        # Out of the way: both have to become 3 and 4 in the child.
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (to_browser[0], from_browser[1])]

        def move():
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--force-color-profile=srgb", "--window-size=%d,%d" % self.size, "--user-data-dir=" + self.profile.name,
             "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.profile.name, "stderr"), "wb"),
            preexec_fn=move, pass_fds=(3, 4), start_new_session=True)
        for fd in (to_browser[0], from_browser[1], *theirs):
            os.close(fd)
        self.write_end, self.read_end = to_browser[1], from_browser[0]
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", seconds=5)
            self.process.wait(5)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            pass
        # Its helpers are of its group, and some outlive it.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def open(self, path, **options):
        return Page(self, pathlib.Path(path).resolve().as_uri(), **options)

    def call(self, method, session=None, seconds=None, **parameters):
        """The result of a command; what happens meanwhile goes to the pages."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        deadline = time.monotonic() + (seconds or self.seconds)
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") == self.sent:
                if "error" in answer:
                    raise BrowserError("%s: %s" % (method, answer["error"].get("message")))
                return answer["result"]
            self.note(answer)

    def receive(self, deadline, what):
        while b"\0" not in self.read:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise BrowserError("%s: the browser did not answer in time" % what)
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise BrowserError("%s: the browser has ended: %s" % (what, self.last_words()))
            self.read += part
        message, _, self.read = self.read.partition(b"\0")
        return json.loads(message)

    def last_words(self):
        with open(os.path.join(self.profile.name, "stderr"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def note(self, message):
        page = self.pages.get(message.get("sessionId"))
        if page:
            page.note(message["method"], message.get("params", {}))


class Page:
    """A page of a browser. dark: the theme; size: of the viewport, in CSS pixels; scale: device pixels of each."""

    def __init__(self, browser, address, dark=False, size=None, scale=1):
        self.browser, self.address = browser, address
        self.problems, self.requests = [], []
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        # What a worker does counts, too.
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
        self.resize(size or browser.size, scale)
        self.theme(dark)
        self.call("Page.navigate", url=address)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(part.get("value", part.get("description"))) for part in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Target.attachedToTarget":
            self.browser.pages[parameters["sessionId"]] = self
        elif method == "Inspector.targetCrashed":
            self.problems.append("the page crashed")

    def evaluate(self, expression):
        """The value of JavaScript, of what it promises where it is a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError("%s\nin: %s" % (details.get("exception", {}).get("description") or details["text"], expression))
        return result["result"].get("value")

    def wait_for(self, expression, what=None):
        """Until it is true, looked at before each frame. Returns its value."""
        try:
            return self.evaluate("new Promise((resolve, reject) => { const look = () => { try { const value = (%s);"
                                 " if (value) resolve(value); else setTimeout(look, 5); } catch (e) { reject(e); } };"
                                 " look(); })" % expression)
        except BrowserError as error:
            raise BrowserError("waiting for %s: %s; the page's problems: %s" % (what or expression, error, self.problems)) from None

    def settle(self):
        """Until what was asked for has been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def resize(self, size, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=scale, mobile=False)

    def theme(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def mouse(self, kind, x, y, button="none", count=0, modifiers=()):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=count,
                  modifiers=sum(MODIFIERS[name] for name in modifiers))

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, x, y, count=1, modifiers=()):
        self.move(x, y)
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, "left", number, modifiers)
            self.mouse("mouseReleased", x, y, "left", number, modifiers)

    def drag(self, begin, end, steps=4):
        self.move(*begin)
        self.mouse("mousePressed", *begin, "left", 1)
        for step in range(1, steps + 1):
            part = step / steps
            self.call("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1,
                      x=begin[0] + (end[0] - begin[0]) * part, y=begin[1] + (end[1] - begin[1]) * part)
        self.mouse("mouseReleased", *end, "left", 1)

    def wheel(self, x, y, delta_x=0, delta_y=0, modifiers=()):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=delta_x, deltaY=delta_y,
                  modifiers=sum(MODIFIERS[name] for name in modifiers))

    def place(self, selector):
        """The middle of the first element, which is scrolled to; its first line where it is higher than the window."""
        place = self.evaluate("(() => { const element = document.querySelector(%s); if (!element) return null;"
                              " element.scrollIntoView({block: 'nearest'}); const box = element.getBoundingClientRect();"
                              " return [box.x + box.width / 2, box.y + Math.min(box.height / 2, 300)]; })()" % json.dumps(selector))
        if not place:
            raise BrowserError("there is no %s" % selector)
        return place

    def click_on(self, selector, **options):
        self.click(*self.place(selector), **options)

    def key(self, name, modifiers=()):
        """Presses a key: one of KEYS, or a character."""
        code, number = KEYS.get(name, ("Key" + name.upper() if name.isalpha() else "", ord(name.upper()) if len(name) == 1 else 0))
        text = TEXTS.get(name, name if name not in KEYS else "")
        common = {"key": TEXTS["Space"] if name == "Space" else name, "code": code, "windowsVirtualKeyCode": number,
                  "modifiers": sum(MODIFIERS[modifier] for modifier in modifiers)}
        text = {} if not text or set(modifiers) - {"shift"} else {"text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        for character in text:
            self.key(character)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
