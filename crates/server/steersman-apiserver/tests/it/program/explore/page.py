"""Opens the page of a report in headless Chromium, wide and narrow, and checks what a reader sees.

The only argument is the path of the page. The environment variable STEERSMAN_CHROMEDRIVER names chromedriver, which
speaks WebDriver over HTTP.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

CHECKS = """
const found = [];
const check = (is_so, what) => { if (!is_so) found.push(what); };
const width = document.documentElement.scrollWidth;
check(width <= innerWidth, `the page is ${width} px wide and the window ${innerWidth} px`);
for (const link of document.querySelectorAll("a")) {
  const target = link.getAttribute("href");
  check(target && target.startsWith("#"), `a link leads out of the page: ${target}`);
  check(document.getElementById(target.slice(1)), `a link leads nowhere: ${target}`);
}
const articles = document.querySelectorAll("article");
check(articles.length > 0, "there is no story");
for (const article of articles) {
  const lanes = [...article.querySelectorAll(".lanes span")].map((lane) => lane.textContent);
  check(lanes.join() === "user,operator,server", `the lanes are ${lanes}`);
  const drawing = article.querySelector("figure.timeline svg");
  check(drawing, "a story has no time line");
  const box = drawing.getBoundingClientRect();
  check(box.width > 100 && box.height > 50, `a time line has ${box.width} times ${box.height} px`);
  for (const shape of drawing.querySelectorAll("circle, rect, path, line")) {
    const inside = shape.getBoundingClientRect();
    check(inside.right <= box.right + 1 && inside.bottom <= box.bottom + 1, "a shape is outside of its time line");
  }
  check(drawing.querySelectorAll("a circle").length > 1, "a time line has no requests");
}
check(document.querySelectorAll("pre.command").length === articles.length, "a story has no command that repeats it");
return found;
"""


def call(base, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["value"]


def start(driver):
    """Starts chromedriver on a free port. Returns the process and its address."""
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "was started successfully on port" in line:
            port = line.rsplit(" ", 1)[1].strip().rstrip(".")
            return process, f"http://127.0.0.1:{port}"
    raise RuntimeError("chromedriver ended before it listened")


def check(base, page, profile):
    arguments = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}",
    ]
    options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
    session = call(base, "POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
    path = f"/session/{session}"
    try:
        for width in (1280, 500):
            call(base, "POST", f"{path}/window/rect", {"width": width, "height": 900})
            call(base, "POST", f"{path}/url", {"url": f"file://{os.path.abspath(page)}"})
            found = call(base, "POST", f"{path}/execute/sync", {"script": CHECKS, "args": []})
            assert found == [], f"{width} px wide: {found}"
        logged = call(base, "POST", f"{path}/se/log", {"type": "browser"})
        assert logged == [], logged
    finally:
        call(base, "DELETE", path)


def main():
    process, base = start(os.environ["STEERSMAN_CHROMEDRIVER"])
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            check(base, sys.argv[1], profile)
    finally:
        process.kill()
        process.wait()


main()
