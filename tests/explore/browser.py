"""A headless Chromium over its own pipe: no driver, no port, nothing to install.

Source: https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
    "--force-color-profile=srgb --remote-debugging-pipe --lang=en-US"
).split()
PATIENCE_S = 120
"""A machine that is shared may stop a process for minutes."""


class Browser:
    """One page in one browser, and everything it complained about or asked for."""

    def __init__(self, folder):
        self.number, self.events, self.buffer = 0, [], b""
        to_child, self.write_end = os.pipe()
        self.read_end, from_child = os.pipe()
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        # Chromium reads file descriptor 3 and writes 4.
        script = f'exec 3<&{to_child} 4>&{from_child} && exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self.session = None
        target = next(t for t in self.send("Target.getTargets")["targetInfos"]
                      if t["type"] == "page")  # fmt: skip
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        """End the browser."""
        self.process.terminate()
        self.process.wait(30)
        os.close(self.write_end)
        os.close(self.read_end)

    def send(self, method, **params):
        """Call a method of the protocol and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self.number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]
            self.events.append(reply)

    def _next(self):
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            part = os.read(self.read_end, 1 << 20)
            assert part, "the browser has gone"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1440, height=900, dark=False, hash=""):
        """Load a file and wait until the page is drawn."""
        self.events.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=f"file://{path}{hash}")
        self.wait("document.querySelector('header')")
        self.settle()

    def run(self, code):
        """Evaluate JavaScript, await it, return its value."""
        found = self.send(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition):
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.05)

    def settle(self):
        """Wait for two frames, so that what was asked for is drawn."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def type(self, selector, text):
        """Put a text into a field, as typing does."""
        self.run(
            "((selector, text) => {"
            "  const field = document.querySelector(selector);"
            "  field.value = text;"
            "  const kind = field.tagName === 'SELECT' ? 'change' : 'input';"
            "  field.dispatchEvent(new Event(kind, {bubbles: true}));"
            f"}})({json.dumps(selector)}, {json.dumps(text)})"
        )
        self.settle()

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else ""
            )
        self.settle()

    def screenshot(self, path, whole=True):
        """Write the page as PNG."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self):
        """Console errors, exceptions, failed loads: what a clean page has none of."""
        self.settle()
        bad = []
        for event in self.events:
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    bad.append(params["exceptionDetails"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    bad.append(params["args"])
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    bad.append(params["entry"])
        return bad

    def requests(self):
        """Addresses asked for, apart from the file itself and what is inside it."""
        asked = [e["params"]["request"]["url"] for e in self.events
                 if e.get("method") == "Network.requestWillBeSent"]  # fmt: skip
        return [url for url in asked if not url.startswith(("file:", "data:", "about:"))]
