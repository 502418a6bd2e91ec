"""Chromium without a screen, driven by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_S = 30.0


def find_browser() -> str:
    """The program; the test is skipped if there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


class Browser:
    """One tab."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        #: What the page reported: exceptions, refusals by the content policy, other errors.
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S))
            self._note(message)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def _note(self, message: Any) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        if message.get("method") == "Log.entryAdded":
            entry = message["params"]["entry"]
            if entry["level"] == "error" and entry["source"] != "network":
                self.problems.append(entry["text"])

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        until = time.monotonic() + PATIENCE_S
        while not self.run(f"!!({script})"):
            assert time.monotonic() < until, f"not true: {script}\n{self.read('body')[:2000]}"
            time.sleep(0.05)

    def read(self, selector: str) -> str:
        """The text of an element; empty if there is none."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def write(self, selector: str, text: str) -> None:
        """Focus a field, and type over what it has."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.focus(); e.select?.(); })()"
        )
        self.call("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            sent = text if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers,
                windowsVirtualKeyCode=code or ord(key.upper()[0]), **sent,
            )  # fmt: skip

    def show(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        value = "dark" if dark else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def photograph(self, path: Path, *, whole: bool = False) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in a folder."""
    process = subprocess.Popen(
        [
            find_browser(), "--headless=new", "--remote-debugging-port=0", "--no-sandbox",
            "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--disable-background-networking", f"--user-data-dir={folder}", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port_file = folder / "DevToolsActivePort"
        until = time.monotonic() + PATIENCE_S
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert process.poll() is None, "Chromium did not start"
            assert time.monotonic() < until, "Chromium did not start in time"
            time.sleep(0.05)
        port = port_file.read_text().splitlines()[0]
        with connect(find_tab(port), max_size=None, compression=None) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        process.wait()


def find_tab(port: str) -> str:
    import urllib.request

    until = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as response:
            tabs = [tab for tab in json.load(response) if tab["type"] == "page"]
        if tabs:
            return str(tabs[0]["webSocketDebuggerUrl"])
        assert time.monotonic() < until, "no tab"
        time.sleep(0.05)
