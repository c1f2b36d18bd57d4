"""A browser without a window, told what to do over plain HTTP (W3C WebDriver), so that no package is needed."""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

PROGRAMS = ("chromedriver", "chromium")
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--force-prefers-reduced-motion"]
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
SECONDS = 120


def missing() -> str | None:
    """Why there is no browser; None where there is one."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed (Debian: chromium, chromium-driver)" if lacking else None


class Browser:
    """One page in a headless Chromium, whose files lie in a folder."""

    def __init__(self, folder: Path) -> None:
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], env={**os.environ, "TMPDIR": str(folder)}, **quiet)
        assert self.driver.stdout is not None
        found = next(match for line in self.driver.stdout if (match := re.search(r"successfully on port (\d+)", line)))
        self.root = f"http://127.0.0.1:{found[1]}/session"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        options = {"args": [*SWITCHES, OFFLINE], "binary": shutil.which("chromium")}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        try:
            self.session = "/" + self.ask("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except OSError:
            self.stop()
            raise

    def ask(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """One command, and its answer."""
        sent = None if method == "GET" else json.dumps({} if body is None else body).encode()
        request = urllib.request.Request(self.root + self.session + path, sent, method=method)
        with self.opener.open(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def open(self, address: str) -> None:
        self.ask("/url", {"url": address})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.ask("/execute/sync", {"script": script, "args": []})

    def element(self, selector: str) -> dict[str, str]:
        found: dict[str, str] = self.ask("/element", {"using": "css selector", "value": selector})
        return found

    def click(self, selector: str) -> None:
        self.ask(f"/element/{next(iter(self.element(selector).values()))}/click")

    def hover(self, selector: str, right: int = 0, down: int = 0) -> None:
        """Move the mouse to an element's middle, or so many pixels beside it."""
        move = {"type": "pointerMove", "origin": self.element(selector), "x": right, "y": down, "duration": 0}
        self.ask("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def press(self, key: str) -> None:
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self.ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def complaints(self) -> list[str]:
        """The errors of the page since it was last asked."""
        return [line["message"] for line in self.ask("/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]

    def close(self) -> None:
        try:
            self.ask("", method="DELETE")
        finally:
            self.stop()

    def stop(self) -> None:
        self.driver.terminate()
        self.driver.communicate()
