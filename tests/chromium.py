"""Headless Chromium for the tests of pages: it opens a file, and keeps what happened in it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not (CHROMIUM and DRIVER) and os.environ.get("CI") != "true":
    pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

__all__ = ["PHONE", "WIDE", "ActionChains", "Browser", "By", "Keys", "WebDriverWait", "pictures_shown"]

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1300,1000"
)
WIDE, PHONE = (1300, 1000), (390, 844)


class Browser:
    """A page of Chromium, and what happened in it."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM, "chromium is missing; .ci/run installs it"
        assert DRIVER, "chromedriver is missing; .ci/run installs it"
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS.split():
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={profile}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, path: Path, size: tuple[int, int] = WIDE, *, dark: bool = False) -> None:
        self.logs()
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(path.resolve().as_uri())
        WebDriverWait(self.driver, 60).until(lambda _: self.all("html[data-ready]"))

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Texts as they are now; elements that are drawn anew meanwhile do no harm."""
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)"
        return list(self.run(script, selector))

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def click(self, element: Any) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def logs(self) -> tuple[list[str], list[str]]:
        """Messages of the console, and addresses that were asked for beside the file itself."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        # chrome: and the like are the page that Chromium itself starts with, which on a busy machine is still loading
        own = "file:", "data:", "blob:", "chrome:", "chrome-untrusted:"
        return console, [url for url in urls if not url.startswith(own)]


def pictures_shown(browser: Browser, selector: str) -> int:
    """Pictures that have a size and the loaded sheet behind them."""
    return int(
        browser.run(
            "return [...document.querySelectorAll(arguments[0])].filter((picture) => picture.offsetWidth > 8 && "
            "getComputedStyle(picture).backgroundImage.startsWith('url(\"blob:')).length",
            selector,
        )
    )
