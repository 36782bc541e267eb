"""Is there a model server at a usual local port? Asked only when nothing else is configured."""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
from urllib.parse import urlsplit

CONNECT_TIMEOUT = 0.2
LIST_TIMEOUT = 1.0
_LIMIT = 1024 * 1024


def reachable(base_url: str, timeout: float = CONNECT_TIMEOUT) -> bool:
    """Whether something accepts connections there, within `timeout` seconds."""
    place = _place(base_url)
    if place is None:
        return False
    try:
        with socket.create_connection(place, timeout):
            return True
    except OSError:
        return False


def first_model(base_url: str) -> str | None:
    """The first model that the server at `base_url` lists, or None when it does not answer as a model server."""
    place = _place(base_url)
    if place is None or not reachable(base_url):
        return None
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(place[0], place[1], timeout=LIST_TIMEOUT)
    try:
        connection.request("GET", parts.path.rstrip("/") + "/models", headers={"accept": "application/json"})
        answer = connection.getresponse()
        listed = json.loads(answer.read(_LIMIT)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    models = listed.get("data") if isinstance(listed, dict) else None
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict) and isinstance(model.get("id"), str) and model["id"]:
            return str(model["id"])
    return None


def _place(base_url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname else None


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
