"""Pages opened from disk in Chromium, offline; all errors are recorded."""

from pathlib import Path


class OpenedPage:
    """A page from disk in its own browser context, and its errors, policy violations included."""

    def __init__(self, browser, html: str, path: Path, **context) -> None:
        path.write_text(html, "utf-8")
        self.errors: list[str] = []
        self.page = browser.new_context(
            offline=True, **{"viewport": {"width": 1200, "height": 900}, **context}
        ).new_page()
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.record_request(request.url))
        self.inspector = self.page.context.new_cdp_session(self.page)
        self.inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(path.as_uri())

    def record_request(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "about:")):
            self.errors.append(f"network request for {url}")

    def wait_until(self, expression: str) -> None:
        """Polls an expression from outside: the page's own policy forbids `wait_for_function`."""
        for _ in range(500):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{expression} did not become true")

    def cpu_seconds(self) -> float:
        """CPU seconds of the page so far."""
        metrics = self.inspector.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def status(self, part: str) -> str:
        """The live status text of a section, as a screen reader announces it."""
        line = self.page.locator(f"#{part}-status")
        assert line.get_attribute("aria-live") == "polite"
        return line.text_content()

    def word(self, side: str, text: str):
        """The first word of that spelling in the text of a side: left (queries) or right (keys)."""
        return self.page.locator(f"[aria-labelledby=text-{side}] .word").filter(has_text=text).first

    def highlighted(self) -> dict[str, float]:
        """The highlighted words and their weights."""
        return dict(
            self.page.eval_on_selector_all(
                ".word.lit",
                "words => words.map(w => [w.textContent, Number(w.style.getPropertyValue('--strength'))])",
            )
        )

    def fits(self) -> bool:
        """Whether the page does not scroll horizontally."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )

    def drawn_pixels(self, canvas: str) -> int:
        """Number of non-transparent pixels of a canvas."""
        return self.page.eval_on_selector(
            canvas,
            """c => {
                const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
                copy.drawImage(c, 0, 0);
                return copy.getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v > 0).length;
            }""",
        )
