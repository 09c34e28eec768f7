"""Pages opened from disk with the network off, every complaint kept."""

from pathlib import Path


class Opened:
    """A page from disk in a context of its own; what it complained about, a policy's violations among it."""

    def __init__(self, browser, html: str, path: Path, **context) -> None:
        path.write_text(html, "utf-8")
        self.complaints: list[str] = []
        self.page = browser.new_context(
            offline=True, **{"viewport": {"width": 1200, "height": 900}, **context}
        ).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked_for(request.url))
        self.inspector = self.page.context.new_cdp_session(self.page)
        self.inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(path.as_uri())

    def asked_for(self, address: str) -> None:
        if not address.startswith(("file:", "data:", "about:")):
            self.complaints.append(f"asked the network for {address}")

    def wait_until(self, true: str) -> None:
        """Ask again and again, from outside: within the page, its policy forbids to evaluate anything."""
        for _ in range(500):
            if self.page.evaluate(true):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{true} did not become true")

    def worked(self) -> float:
        """Seconds the page has computed so far: not those in which the machine did something else."""
        metrics = self.inspector.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    def told(self, part: str) -> str:
        """What a screen reader hears of a part of the page."""
        line = self.page.locator(f"#{part}-told")
        assert line.get_attribute("aria-live") == "polite"
        return line.text_content()

    def word(self, side: str, text: str):
        """A word of the text block of a side, the first of that spelling."""
        return self.page.locator(f"[aria-labelledby=text-{side}] .word").filter(has_text=text).first

    def lit(self) -> dict[str, float]:
        """The words lit up, and how strongly."""
        return dict(
            self.page.eval_on_selector_all(
                ".word.lit",
                "words => words.map(w => [w.textContent, Number(w.style.getPropertyValue('--strength'))])",
            )
        )

    def fits(self) -> bool:
        """Whether nothing makes the page scroll sideways."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )

    def ink(self, canvas: str) -> int:
        """How many pixels of a canvas are drawn."""
        return self.page.eval_on_selector(
            canvas,
            """c => {
                const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
                copy.drawImage(c, 0, 0);
                return copy.getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v > 0).length;
            }""",
        )
