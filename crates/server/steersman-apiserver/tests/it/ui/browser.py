"""Opens the pages of a server in headless Chromium, wide and narrow, light and dark, and checks what a reader sees.

The only argument is the address of the page. The environment variable STEERSMAN_CHROMEDRIVER names chromedriver, which
speaks WebDriver over HTTP. With STEERSMAN_SCREENSHOTS, the name of a folder, each page is stored there as an image.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PAGES = {
    "objects": "/",
    "list": "/objects/pods",
    "object": "/objects/deployments.apps/default/web",
    "changes": "/changes",
    "requests": "/requests",
    "faults": "/faults",
}

CHECKS = """
const found = [];
const check = (is_so, what) => { if (!is_so) found.push(what); };
const width = document.documentElement.scrollWidth;
check(width <= innerWidth, `the page is ${width} px wide and the window ${innerWidth} px`);
check(document.querySelectorAll("h1").length === 1, "there is not one heading");
check(document.querySelector("nav a[aria-current]"), "no tab is the current one");
check(document.querySelectorAll("script, link[rel=stylesheet]").length === 2, "there are other parts");
for (const field of document.querySelectorAll("input:not([type=hidden]), select")) {
  check(field.labels.length === 1, `the field ${field.name} has no label`);
}
for (const button of document.querySelectorAll("button, main a")) {
  check(button.textContent.trim(), `a button or link has no text: ${button.outerHTML}`);
}
for (const one of document.querySelectorAll("main td, main th, main p, main pre")) {
  const box = one.getBoundingClientRect();
  check(box.right <= innerWidth + 1, `${one.localName} ends at ${box.right} px: ${one.textContent.slice(0, 40)}`);
}
const light = (text) => text.match(/[0-9]+/g).slice(0, 3).map((part) => {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (!color.endsWith(", 0)")) return color;
  }
};
for (const one of document.querySelectorAll("main *, nav *")) {
  const has_text = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!has_text || !one.checkVisibility()) continue;
  const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  check(contrast >= 4.5, `the contrast of ${one.outerHTML.slice(0, 60)} is ${contrast.toFixed(1)}`);
}
return [...new Set(found)];
"""

# Plans a fault as another page would, and waits until this page shows it without being loaded again.
LIVE = """
const done = arguments[0];
const state = document.getElementById("state");
window.marked = true;
new MutationObserver(() => {
  if (state.textContent.includes("1 fault planned")) done(window.marked);
}).observe(state, { childList: true, subtree: true });
const plan = async () => {
  const page = new DOMParser().parseFromString(await (await fetch("/faults")).text(), "text/html");
  const token = page.querySelector("[name=token]").value;
  await fetch("/faults", { method: "POST", body: new URLSearchParams({ token, effect: "expireWatch" }) });
};
plan().catch((error) => done(String(error)));
"""

FILTERED = """
return [...document.querySelectorAll("#kinds [data-row]")].filter((row) => !row.hidden).map((row) =>
  row.querySelector("a").textContent).join();
"""


class DriverError(Exception):
    """What chromedriver says about a command that failed."""


def call(base, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise DriverError(json.load(error)["value"]["message"]) from None


def start(driver):
    """Starts chromedriver on a free port. Returns the process and its address."""
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "was started successfully on port" in line:
            port = line.rsplit(" ", 1)[1].strip().rstrip(".")
            return process, f"http://127.0.0.1:{port}"
    raise RuntimeError("chromedriver ended before it listened")


class Browser:
    def __init__(self, base, address, profile):
        arguments = [
            "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars", f"--user-data-dir={profile}",
        ]
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        session = call(base, "POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
        self.base, self.address, self.session = base, address, f"/session/{session}"

    def ask(self, method, path, body=None):
        return call(self.base, method, self.session + path, body)

    def devtools(self, command, **parameters):
        self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, scheme):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        address = self.address + path
        self.ask("POST", "/url", {"url": address})
        # The driver returns early when the page before is still following the server.
        loaded = "return document.readyState + ' ' + location.href"
        self.wait_until(loaded, lambda found: found == f"complete {address}", f"{address} is not loaded")

    def wait_until(self, script, is_met, problem):
        end, found = time.monotonic() + 60, ""
        while not is_met(found):
            assert time.monotonic() < end, f"{problem}: {found}"
            try:
                found = self.run(script)
            except DriverError:
                # The page was left while the script ran.
                found = ""

    def run(self, script, kind="sync"):
        return self.ask("POST", f"/execute/{kind}", {"script": script, "args": []})

    def wait_for(self, selector, text):
        """Waits until an element has a text: a click on the button of a form returns before the next page is there."""
        script = f"return document.querySelector({json.dumps(selector)})?.textContent ?? ''"
        self.wait_until(script, lambda found: text in found, f"{selector} has no text {text!r}")

    def press(self, keys):
        for key in keys:
            actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
            self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector):
        found = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        self.ask("POST", f"/element/{next(iter(found.values()))}/click", {})

    def store(self, name):
        folder = os.environ.get("STEERSMAN_SCREENSHOTS")
        if folder:
            with open(os.path.join(folder, f"{name}.png"), "wb") as file:
                file.write(base64.b64decode(self.ask("GET", "/screenshot")))


def check(browser):
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            browser.look(width, scheme)
            for name, path in PAGES.items():
                browser.open(path)
                found = browser.run(CHECKS)
                assert found == [], f"{path}, {width} px wide, {scheme}: {found}"
                browser.store(f"{name}-{width}-{scheme}")

    browser.look(1280, "light")
    browser.open("/")
    browser.press("/")
    assert browser.run("return document.activeElement.dataset.filter") == "kinds", "a slash does not go to the filter"
    browser.press("deployment")
    assert browser.run(FILTERED) == "Deployment", browser.run(FILTERED)

    told = browser.run(LIVE, "async")
    assert told is True, f"the page does not follow the server: {told}"
    browser.click("nav a[href='/faults']")
    browser.wait_for("#planned", "an expired watch (410)")
    browser.click("#planned button")
    browser.wait_for("#planned", "No fault is planned")
    browser.click("#common + .buttons button")
    browser.wait_for("#planned", "answer 409")

    browser.open("/")
    browser.press("p")
    assert browser.run("return document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    logged = browser.ask("POST", "/se/log", {"type": "browser"})
    assert logged == [], logged


def main():
    process, base = start(os.environ["STEERSMAN_CHROMEDRIVER"])
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser(base, sys.argv[1], profile)
            try:
                check(browser)
            finally:
                browser.ask("DELETE", "")
    finally:
        process.kill()
        process.wait()


main()
