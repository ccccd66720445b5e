"""A real Chromium for tests of the page: driven over a pipe, without a port and without another dependency.

`Browser` is the process, `Tab` one page in it. A tab remembers every url that was asked for and everything the browser
complained about. Nothing here waits by the clock: a wait ends when the page says so, or after `PATIENCE`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from base64 import b64decode
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Any

from tests.connect import PATIENCE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_LAUNCH = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ours[0], 3)
os.dup2(ours[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # the browser reads commands at descriptor 3 and writes to 4


class Browser:
    """A headless Chromium with a profile of its own, that talks to nobody of itself."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._to = os.pipe()
        self._from, replies = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(commands), str(replies), CHROMIUM, *self._arguments()],
            pass_fds=(commands, replies),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(replies)
        self._sent = 0
        self._tabs: dict[str, Tab] = {}
        self._replies: SimpleQueue[Mapping[str, Any]] = SimpleQueue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _arguments(self) -> list[str]:
        return [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}",
        ]

    def tab(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.command(f"{domain}.enable")
        tab.size(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        tab.command("Emulation.setEmulatedMedia", features=scheme)
        return tab

    def command(self, method: str, session: str | None = None, /, **parameters: Any) -> Mapping[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            try:
                reply = self._replies.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"the browser does not answer {method} {parameters!r:.300}") from None
            if reply["id"] == self._sent:
                assert "error" not in reply, f"{method}: {reply['error']}"
                result: Mapping[str, Any] = reply["result"]
                return result

    def _read(self) -> None:
        with os.fdopen(self._from, "rb") as replies:
            rest = b""
            while data := replies.read1(65_536):
                *messages, rest = (rest + data).split(b"\0")
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._replies.put(message)
                    elif message.get("sessionId") in self._tabs:
                        self._tabs[message["sessionId"]].happened(message["method"], message["params"])

    def close(self) -> None:
        os.close(self._to)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
        self._thread.join(PATIENCE)
        self._profile.cleanup()


class Tab:
    """One page: what a person does there, and what it did."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def command(self, method: str, /, **parameters: Any) -> Mapping[str, Any]:
        return self._browser.command(method, self._session, **parameters)

    def happened(self, event: str, told: Mapping[str, Any]) -> None:
        match event:
            case "Network.requestWillBeSent":
                self.requests.append(f"{told['request']['method']} {told['request']['url']}")
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"console: {told['args']}")
            case "Log.entryAdded":
                self.complaints.append(f"{told['entry']['source']}: {told['entry']['text']}")

    def size(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, url: str) -> None:
        self.command("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        told = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait in the page for what an expression says; another document in its place is waited for too."""
        for _ in range(10):
            told = self.command(
                "Runtime.evaluate",
                expression="new Promise((done) => { const look = () => { let is = false; "
                f"try {{ is = {condition}; }} catch {{}} is ? done(true) : setTimeout(look, 10); }}; look(); }})",
                awaitPromise=True,
            )
            if "exceptionDetails" not in told:
                return
        raise AssertionError(f"never true: {condition}")

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.innerText)"
        return list(self.evaluate(script))

    def click(self, selector: str, *, x: float = 0.5) -> None:
        """With the mouse, so far across it."""
        box = self.evaluate(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const {x, y, width, height} = found.getBoundingClientRect(); return [x, y, width, height]; })()"
        )
        at = {"x": box[0] + box[2] * x, "y": box[1] + box[3] / 2, "button": "left", "clickCount": 1}
        for type in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=type, **at)

    def write(self, text: str) -> None:
        self.command("Input.insertText", text=text)

    def press(self, *keys: str) -> None:
        """Keys by their names: `Enter`, `ArrowLeft`, `v`."""
        codes = {"Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "PageUp": 33}
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            code = codes.get(key, ord(key[0].upper()))
            for type in ("keyDown", "keyUp"):
                told = {"type": type, "key": key, "windowsVirtualKeyCode": code}
                self.command("Input.dispatchKeyEvent", **told, **(text if type == "keyDown" else {}))

    def screenshot(self, *, whole: bool = False) -> bytes:
        return b64decode(self.command("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
