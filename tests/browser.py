"""A headless Chromium, driven by its DevTools protocol over two pipes."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-pipe", "about:blank"),
)

# Chromium reads commands from its descriptor 3, and answers on 4.
START = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(x), fcntl.F_DUPFD, 10) for x in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
LONGEST = 60
"""Seconds after which a browser that does not answer has failed."""


class Browser:
    """One tab. `errors` are those on the console, `requests` all that was fetched."""

    def __init__(self):
        self.errors, self.requests = [], []
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        ours, theirs = os.pipe(), os.pipe()
        profile = f"--user-data-dir={self._profile}"
        ends = (ours[0], theirs[1])
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, ends), CHROMIUM, profile, *FLAGS],
            pass_fds=ends,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self._number, self._session, self._left = 0, None, b""
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError):
            self._write.close()
        self._process.kill()
        self._process.wait()
        self._read.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method, **params):
        """What a command of the protocol answers."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _next(self):
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], LONGEST)
            part = os.read(self._read.fileno(), 2**16) if ready else b""
            assert part, "Chromium does not answer"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(params["args"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path, width=1280, height=900, dark=False):
        """Shows a file, in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        self.run("new Promise(ok => document.readyState === 'complete' ? ok() : onload = ok)")
        self.settle()

    def settle(self):
        """Waits until what was drawn is on the screen."""
        self.run("new Promise(ok => requestAnimationFrame(() => requestAnimationFrame(ok)))")

    def run(self, script):
        """The value of an expression, once it is there."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, name, code=None):
        for kind in ("keyDown", "keyUp"):
            number = {"Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
            more = {"windowsVirtualKeyCode": number.get(name, 32)}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=code or name, **more)
        self.settle()

    def point(self, selector, across=0.5, down=0.5):
        """Moves the pointer to a place in an element, which is scrolled to."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        x, y = box[0] + across * box[2], box[1] + down * box[3]
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def screenshot(self, path, whole=False):
        shot = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole):
        if not whole:
            return {}
        width, height = self.run(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        return {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
