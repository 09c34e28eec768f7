"""Full queues, timeouts, disconnected clients, internal errors, access checks, and the shutdown."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.live_server import LiveServer, PausedModel, run_server, wait_until

from regard.server.schemas import INTERNAL_ERROR

LINES = "application/x-ndjson"
TOKEN = "a-word-that-nobody-guesses"


def fail(batch_key: object, items: list[str]) -> None:
    raise KeyError(items[0])


def translate(server: LiveServer, text: object, **options) -> httpx.Response:
    with server.client(**options) as client:
        return client.post("/translate", json={"text": text})


def test_a_full_queue_answers_429_and_recovers(run: Path) -> None:
    with run_server({"numbers": run}, queue=4) as server, ThreadPoolExecutor(8) as pool:
        with PausedModel(server.model) as held:
            first = pool.submit(translate, server, "eins")
            assert held.started.wait(10)
            waiting = [pool.submit(translate, server, text) for text in ("zwei", ["drei", "vier", "fünf"])]
            wait_until(lambda: server.model.queue.waiting == 4)
            refused = translate(server, "sechs")
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"].startswith("the queue is full: 4 sentences waiting, capacity 4")
            with server.client() as client:
                assert client.get("/health").status_code == 200
        answers = [future.result(20) for future in (first, *waiting)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert translate(server, "sechs").json()["translations"][0]["text"] == "six"
        too_many = translate(server, ["eins"] * 5)
        assert too_many.status_code == 413
        assert "5 sentences, the queue's capacity is 4; send it in pieces" in too_many.json()["error"]


def test_a_request_times_out(run: Path) -> None:
    with run_server({"numbers": run}, timeout=0.3) as server:
        with ThreadPoolExecutor(2) as pool, PausedModel(server.model) as held:
            first = pool.submit(translate, server, "eins")
            assert held.started.wait(10)
            late = translate(server, "zwei")
            assert late.status_code == 504
            assert late.json()["error"].startswith("the answer took longer than 0.3 s")
            assert first.result(10).status_code == 504
            assert server.model.queue.waiting == 0
        wait_until(lambda: translate(server, "drei").status_code == 200)
        assert held.batches == [["eins"]]  # "zwei" was cancelled by its timeout


def test_a_streamed_response_ends_with_the_error(run: Path) -> None:
    with (
        run_server({"numbers": run}, timeout=0.3) as server,
        server.client() as client,
        PausedModel(server.model),
    ):
        answer = client.post("/translate", json={"text": "eins"}, headers={"Accept": LINES})
        assert answer.json()["error"].startswith("the answer took longer than 0.3 s")


def test_a_disconnected_clients_request_is_not_run(run: Path) -> None:
    with run_server({"numbers": run}) as server:
        with ThreadPoolExecutor(2) as pool, PausedModel(server.model) as held:
            first = pool.submit(translate, server, "eins")
            assert held.started.wait(10)
            with pytest.raises(httpx.ReadTimeout):
                translate(server, ["zwei", "drei"], timeout=0.3)
            wait_until(lambda: server.model.queue.waiting == 0)
        assert first.result(10).status_code == 200
        assert translate(server, "vier").status_code == 200
        assert held.batches == [["eins"]]
        wait_until(lambda: "POST /translate 499" in " ".join(server.log))


def test_an_internal_error_is_logged_without_the_text(run: Path) -> None:
    with run_server({"numbers": run}) as server, server.client() as client:
        run_batch, server.model.queue.run_batch = server.model.queue.run_batch, fail
        for kind, status in (("*/*", 500), (LINES, 200)):  # the status of a stream is sent before the error
            answer = client.post("/translate", json={"text": "geheim"}, headers={"Accept": kind})
            assert answer.status_code == status
            assert answer.json() == {"error": INTERNAL_ERROR}
        wait_until(lambda: sum(line.endswith("KeyError") for line in server.log) == 2)
        assert "geheim" not in "".join(server.log)
        server.model.queue.run_batch = run_batch
        assert translate(server, "eins").status_code == 200


@pytest.fixture(scope="module")
def locked(run: Path):
    with run_server({"numbers": run}, token=TOKEN, origins=("https://allowed.example",)) as server:
        yield server


@pytest.mark.parametrize("path", ["/models", "/metrics", "/openapi.json", "/nothing"])
@pytest.mark.parametrize(
    "header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}ä"]
)
def test_without_the_token_requests_are_refused(locked: LiveServer, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    with locked.client() as client:
        answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"].startswith("this server requires an access token")


def test_with_the_token_requests_are_answered_and_it_is_not_logged(locked: LiveServer) -> None:
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
def test_other_host_names_are_refused(locked: LiveServer, host: str) -> None:
    with locked.client() as client:
        answer = client.get("/health", headers={"Host": host})
    assert answer.status_code == 421
    assert "--allow-host" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_own_host_names_are_accepted(locked: LiveServer, host: str) -> None:
    with locked.client() as client:
        assert client.get("/health", headers={"Host": host}).status_code == 200


def test_only_allowed_origins_may_send_requests(locked: LiveServer) -> None:
    with locked.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for origin in ("https://evil.example", "null", "http://[", "http://127.0.0.1:1"):
            answer = client.post("/translate", json={"text": "eins"}, headers={"Origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
        assert client.get("/health", headers={"Origin": locked.address}).status_code == 200
        allowed = client.get("/models", headers={"Origin": "https://allowed.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://allowed.example"
    with locked.client() as client:
        preflight = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        for origin, status in (("https://allowed.example", 200), ("https://evil.example", 400)):
            assert client.options("/translate", headers={"Origin": origin, **preflight}).status_code == status


@pytest.mark.parametrize("path", ["/", "/page/style.css", "/models", "/nothing", "/openapi.json"])
def test_every_response_has_security_headers(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_the_page_is_cached(client: httpx.Client) -> None:
    first = client.get("/page/main.js")
    again = client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    for path in ("/page/../serving.py", "/page/..%2fserving.py", "/page/%2e%2e/serving.py", "/page/none.js"):
        assert client.get(path).status_code == 404


def test_attention_pages_expire() -> None:
    from regard.server.inspection_routes import MAX_PAGE_AGE, MAX_PAGE_BYTES, PageStore

    now = [0.0]
    pages = PageStore(lambda: now[0])
    first = pages.add(b"first")
    assert pages.get(first) == b"first"
    now[0] = MAX_PAGE_AGE + 1
    assert pages.get(first) is None
    second, large = pages.add(b"second"), pages.add(b"x" * MAX_PAGE_BYTES)
    assert pages.get(second) is None
    assert pages.get(large) is not None
    assert len({pages.add(b"") for _ in range(50)}) == 50


def test_shutdown_answers_accepted_requests(run: Path) -> None:
    with run_server({"numbers": run}) as server, ThreadPoolExecutor(4) as pool, server.client() as client:
        client.get("/health")  # a connection that is kept alive
        with PausedModel(server.model) as held:
            accepted = [pool.submit(translate, server, text) for text in ("eins", "zwei drei")]
            assert held.started.wait(10)
            wait_until(lambda: len(held.batches[0]) + server.model.queue.waiting == 2)  # both are accepted
            assert server.app.log.active == 2
            server.app.close()
            late = client.post("/translate", json={"text": "vier"})
            assert late.status_code == 503
            assert late.json()["error"].startswith("the server is stopping")
            assert client.get("/health").json() == {"status": "stopping"}
        texts = [future.result(10).json()["translations"][0]["text"] for future in accepted]
        assert texts == ["one", "two three"]
