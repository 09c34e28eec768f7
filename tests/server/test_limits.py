"""A server that is full, slow, left alone, broken, or asked by the wrong one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.live_server import LiveServer, PausedModel, run_server, wait_until

LINES = "application/x-ndjson"
TOKEN = "a-word-that-nobody-guesses"


def broken(way: object, items: list[str]) -> None:
    raise KeyError(items[0])


def translate(found: LiveServer, text: object, **options) -> httpx.Response:
    with found.client(**options) as client:
        return client.post("/translate", json={"text": text})


def test_a_full_queue_says_when_to_come_again_and_recovers(run: Path) -> None:
    with run_server({"numbers": run}, queue=4) as found, ThreadPoolExecutor(8) as pool:
        with PausedModel(found.model) as held:
            first = pool.submit(translate, found, "eins")
            assert held.started.wait(10)
            waiting = [pool.submit(translate, found, text) for text in ("zwei", ["drei", "vier", "fünf"])]
            wait_until(lambda: found.model.batcher.waiting == 4)
            refused = translate(found, "sechs")
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"].startswith(
                "the queue is full: 4 sentences wait and there is room for 4"
            )
            with found.client() as client:
                assert client.get("/health").status_code == 200
        answers = [each.result(20) for each in (first, *waiting)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert translate(found, "sechs").json()["translations"][0]["text"] == "six"
        too_many = translate(found, ["eins"] * 5)
        assert too_many.status_code == 413
        assert "5 sentences, the queue has room for 4; send it in pieces" in too_many.json()["error"]


def test_an_answer_that_takes_too_long(run: Path) -> None:
    with run_server({"numbers": run}, timeout=0.3) as found:
        with ThreadPoolExecutor(2) as pool, PausedModel(found.model) as held:
            first = pool.submit(translate, found, "eins")
            assert held.started.wait(10)
            late = translate(found, "zwei")
            assert late.status_code == 504
            assert late.json()["error"].startswith("the answer took longer than 0.3 s")
            assert first.result(10).status_code == 504
            assert found.model.batcher.waiting == 0
        wait_until(lambda: translate(found, "drei").status_code == 200)
        assert held.batches == [["eins"]]  # nobody waited for "zwei" any more


def test_lines_that_stop_say_why(run: Path) -> None:
    with run_server({"numbers": run}, timeout=0.3) as found, found.client() as client, PausedModel(found.model):
        answer = client.post("/translate", json={"text": "eins"}, headers={"Accept": LINES})
        assert answer.json()["error"].startswith("the answer took longer than 0.3 s")


def test_work_is_not_done_for_a_client_that_left(run: Path) -> None:
    with run_server({"numbers": run}) as found:
        with ThreadPoolExecutor(2) as pool, PausedModel(found.model) as held:
            first = pool.submit(translate, found, "eins")
            assert held.started.wait(10)
            with pytest.raises(httpx.ReadTimeout):
                translate(found, ["zwei", "drei"], timeout=0.3)
            wait_until(lambda: found.model.batcher.waiting == 0)
        assert first.result(10).status_code == 200
        assert translate(found, "vier").status_code == 200
        assert held.batches == [["eins"]]
        wait_until(lambda: "POST /translate 499" in " ".join(found.log))


def test_a_mistake_in_the_server_is_told_without_the_text(run: Path) -> None:
    with run_server({"numbers": run}) as found, found.client() as client:
        whole, found.model.batcher.work = found.model.batcher.work, broken
        for kind, status in (("*/*", 500), (LINES, 200)):  # lines have begun before anything goes wrong
            answer = client.post("/translate", json={"text": "geheim"}, headers={"Accept": kind})
            assert answer.status_code == status
            assert answer.json() == {"error": "something went wrong in the server; its log says where"}
        wait_until(lambda: sum(line.endswith("KeyError") for line in found.log) == 2)
        assert "geheim" not in "".join(found.log)
        found.model.batcher.work = whole
        assert translate(found, "eins").status_code == 200


@pytest.fixture(scope="module")
def locked(run: Path):
    with run_server({"numbers": run}, token=TOKEN, origins=("https://friend.example",)) as found:
        yield found


@pytest.mark.parametrize("path", ["/models", "/metrics", "/openapi.json", "/nothing"])
@pytest.mark.parametrize(
    "header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}ä"]
)
def test_without_the_token_nothing_is_told(locked: LiveServer, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    with locked.client() as client:
        answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"].startswith("this server wants a token")


def test_with_the_token_all_is_open_and_the_log_holds_neither_it_nor_texts(locked: LiveServer) -> None:
    with locked.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        answer = client.post("/translate", json={"text": "eins zwei"})
        assert answer.json()["translations"][0]["text"] == "one two"
        view = client.post("/attention", json={"text": "eins"}, headers={"Accept": "text/html"})
        assert "HTTPBearer" in client.get("/openapi.json").text
        client.get(f"/nothing?text=eins&token={TOKEN}")
    with locked.client() as client:
        for path in ("/", "/page/main.js", "/health", view.headers["content-location"]):
            assert client.get(path).status_code == 200
    wait_until(lambda: any(line.startswith("GET /attention/{view} 200") for line in locked.log))
    log = "\n".join(locked.log)
    assert "POST /translate 200" in log
    assert TOKEN not in log
    assert "eins" not in log
    assert view.headers["content-location"] not in log


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "8.8.8.8", ""])
def test_another_sites_name_is_not_answered(locked: LiveServer, host: str) -> None:
    with locked.client() as client:
        answer = client.get("/health", headers={"Host": host})
    assert answer.status_code == 421
    assert "--allow-host" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_its_own_names_are(locked: LiveServer, host: str) -> None:
    with locked.client() as client:
        assert client.get("/health", headers={"Host": host}).status_code == 200


def test_pages_of_other_sites_may_not_ask_but_friends_may(locked: LiveServer) -> None:
    with locked.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for origin in ("https://evil.example", "null", "http://[", "http://127.0.0.1:1"):
            answer = client.post("/translate", json={"text": "eins"}, headers={"Origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
        assert client.get("/health", headers={"Origin": locked.address}).status_code == 200
        friend = client.get("/models", headers={"Origin": "https://friend.example"})
        assert friend.headers["access-control-allow-origin"] == "https://friend.example"
    with locked.client() as client:
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        for origin, status in (("https://friend.example", 200), ("https://evil.example", 400)):
            assert client.options("/translate", headers={"Origin": origin, **asked}).status_code == status


@pytest.mark.parametrize("path", ["/", "/page/style.css", "/models", "/nothing", "/openapi.json"])
def test_every_answer_protects_the_browser(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_the_page_is_sent_once(client: httpx.Client) -> None:
    first = client.get("/page/main.js")
    again = client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    for path in ("/page/../serving.py", "/page/..%2fserving.py", "/page/%2e%2e/serving.py", "/page/none.js"):
        assert client.get(path).status_code == 404


def test_views_are_forgotten() -> None:
    from regard.server.views import KEPT_BYTES, KEPT_SECONDS, Views

    now = [0.0]
    views = Views(lambda: now[0])
    first = views.keep(b"first")
    assert views.get(first) == b"first"
    now[0] = KEPT_SECONDS + 1
    assert views.get(first) is None
    second, large = views.keep(b"second"), views.keep(b"x" * KEPT_BYTES)
    assert views.get(second) is None
    assert views.get(large) is not None
    assert len({views.keep(b"") for _ in range(50)}) == 50


def test_stopping_answers_what_was_accepted(run: Path) -> None:
    with run_server({"numbers": run}) as found, ThreadPoolExecutor(4) as pool, found.client() as client:
        client.get("/health")  # a connection that is kept
        with PausedModel(found.model) as held:
            accepted = [pool.submit(translate, found, text) for text in ("eins", "zwei drei")]
            assert held.started.wait(10)
            wait_until(lambda: found.app.watch.open == 2)
            found.app.close()
            late = client.post("/translate", json={"text": "vier"})
            assert late.status_code == 503
            assert late.json()["error"].startswith("the server is stopping")
            assert client.get("/health").json() == {"status": "stopping"}
        texts = [each.result(10).json()["translations"][0]["text"] for each in accepted]
        assert texts == ["one", "two three"]
