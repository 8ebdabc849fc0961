"""Write docs/images/report-*.png: the demo's report in headless Chromium, with a cell of each class flow pressed.

``bispectral-ot demo --report --out runs/demo`` and then ``python docs/make_screenshots.py runs/demo/report.html``;
needs chromium and chromedriver, and selenium from the extra ``dev``.
"""

from __future__ import annotations

import argparse
import base64
import shutil
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

IMAGES = Path(__file__).resolve().parent / "images"
SIZES = {"report-wide": (1280, 1310), "report-phone": (390, 1500)}
PRESS_A_WRONG_CELL = """
for (const flow of document.querySelectorAll("#flow article"))
  flow.querySelector("tbody tr:nth-child(6) td:not(.own) button")?.click();
"""


def main() -> None:
    """Open the page at every size and save a screenshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    for name, (width, height) in SIZES.items():
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.resolve().as_uri())
        WebDriverWait(driver, 60).until(lambda each: each.find_elements("css selector", "html[data-ready]"))
        driver.execute_script(PRESS_A_WRONG_CELL)
        driver.execute_script("window.scrollTo({top: 0, behavior: 'instant'})")
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        (IMAGES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
    driver.quit()


if __name__ == "__main__":
    main()
