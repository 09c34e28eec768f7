"""Answers made by hand: a JSON body, and a refusal as one sentence."""

import json
from typing import Any

from fastapi import Response

OWN_MISTAKE = "something went wrong in the server; its log says where"


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encoded(content), status, headers, "application/json")


def encoded(content: Any) -> bytes:
    """JSON in UTF-8; half a character, from a stranger's run folder, becomes a question mark."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def own_mistake() -> Response:
    return refusal(500, OWN_MISTAKE)


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """What every error looks like."""
    return json_answer({"error": sentence}, status, headers)
