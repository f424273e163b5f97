"""Headless Chromium over the DevTools protocol, through a pair of pipes: no port, no package."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_FLAGS = [
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--mute-audio",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
        "--disable-default-apps",
    ),
    "--remote-debugging-pipe",
]


class Browser:
    """One page in a browser of its own; notes every request, console message and uncaught error
    of it.
    """

    def __init__(self, program: str, profile: Path, seconds: float = 60) -> None:
        self.seconds = seconds
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False
        self._count = 0
        self._text = b""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = (  # the protocol is spoken on file descriptors 3 and 4
            'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        )
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                command,
                "sh",
                str(theirs_in),
                str(theirs_out),
                program,
                *_FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in), os.close(theirs_out)
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in), os.close(self._out)

    def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and whether the system prefers dark pages."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Go to an address and wait until the page has loaded."""
        self._loaded = False
        self.send("Page.navigate", url=address)
        until = time.monotonic() + self.seconds
        while not self._loaded:
            self._take(until)

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its answer; events before the answer are noted."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until, number = time.monotonic() + self.seconds, self._count
        while True:
            answer = self._take(until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _take(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._text:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise AssertionError(f"the browser said nothing for {self.seconds:.0f} s")
            got = os.read(self._in, 1 << 16)
            if not got:
                raise AssertionError("the browser ended")
            self._text += got
        line, self._text = self._text.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, details: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(details["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and details["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(details["args"]))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(details["entry"]))
