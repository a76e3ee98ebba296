"""
An API server small enough to read, with faults on request.

It stores any kind by its path, counts resourceVersions, checks preconditions, pages lists and serves watches
with bookmarks from its history. Faults: answers instead of its own (``fault``), watches that are cut,
silent, late or told twice, and a history that was forgotten (``forget``). Merge patches only; the real rules
are tested against real servers.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from karpenter.kube.transport import Request, Response, Streaming

Plain = dict[str, Any]
Fault = Callable[[Request], Response | Exception | None]

JSON = (("content-type", "application/json"),)


def status(code: int, reason: str, message: str = "", **details: Any) -> Response:
    """Return an error as the API describes it."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
    }
    retry = details.pop("retry_after", None)
    if details:
        body["details"] = details
    headers = (*JSON, ("retry-after", str(retry))) if retry is not None else JSON
    return Response(status=code, headers=headers, body=json.dumps(body).encode())


def answer(body: Plain, code: int = 200) -> Response:
    return Response(status=code, headers=JSON, body=json.dumps(body).encode())


class Toy:
    """The server. ``requests`` is everything it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.version = 100
        self.oldest = 0
        self.objects: dict[str, dict[str, Plain]] = {}
        self.history: list[tuple[int, str, str, Plain]] = []
        self.watches: set[asyncio.Event] = set()
        self.generation = 0
        self.silent = False
        self.delay = 0.0
        self.twice = False
        self.answers_after = 0.0

    # What a test does to it.

    def put(self, collection: str, name: str, *, namespace: str = "", **fields: Any) -> Plain:
        """Create or change an object behind everyone's back."""
        key = f"{namespace}/{name}" if namespace else name
        before = self.objects.setdefault(collection, {}).get(key)
        meta: Plain = {"name": name, **({"namespace": namespace} if namespace else {})}
        meta["uid"] = before["metadata"]["uid"] if before else f"uid-{self.version + 1}"
        meta.update(fields.pop("metadata", {}))
        item = {**fields, "metadata": meta}
        self._store(collection, key, item, "MODIFIED" if before else "ADDED")
        return item

    def drop(self, collection: str, key: str) -> None:
        """Delete an object behind everyone's back."""
        item = self.objects[collection].pop(key)
        self.version += 1
        gone = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self._tell("DELETED", collection, gone)

    def fault(self, response: Response | Exception, *, times: int = 1, when: str = "") -> None:
        """Answer the next requests, or those whose method and path contain `when`, with this instead."""
        left = times

        def once(request: Request) -> Response | Exception | None:
            nonlocal left
            asked = f"{request.method} {request.path}?{request.query}"
            if left <= 0 or when not in asked:
                return None
            left -= 1
            return response

        self.faults.append(once)

    def cut(self) -> None:
        self.generation += 1
        self._wake()

    def forget(self) -> None:
        """Forget the history: whoever resumes from before now gets 410."""
        self.oldest = self.version
        self.history.clear()

    def bookmark(self) -> None:
        """Tell every watch how far it has come."""
        self.version += 1
        self._tell("BOOKMARK", "", {"metadata": {"resourceVersion": str(self.version)}})

    # What a client asks of it.

    async def handle(self, request: Request) -> Response | Streaming:
        self.requests.append(request)
        if self.answers_after:
            await asyncio.sleep(self.answers_after)
        for fault in self.faults:
            instead = fault(request)
            if isinstance(instead, Exception):
                raise instead
            if instead is not None:
                return instead
        collection, namespace, name, sub = self._parse(request.path)
        if request.parameter("watch") == "true":
            return self._watch(request, collection)
        if request.method == "GET" and not name:
            return self._list(request, collection, namespace)
        if request.method == "POST" and not name:
            return self._create(request, collection, namespace)
        key = f"{namespace}/{name}" if namespace else name
        return self._on_one(request, collection, key, sub)

    def _on_one(self, request: Request, collection: str, key: str, sub: str) -> Response:
        item = self.objects.get(collection, {}).get(key)
        if item is None:
            return status(404, "NotFound", f'{collection} "{key}" not found', name=key, kind=collection)
        body = json.loads(request.body or b"{}")
        if request.method == "GET":
            return answer(item)
        if sub in {"eviction", "binding"}:
            return self._pod_action(collection, key, sub, body)
        if request.method == "DELETE":
            return self._delete(collection, key, item, body.get("preconditions", {}))
        meta = item["metadata"]
        wanted = (body.get("metadata") or {}).get("resourceVersion", meta["resourceVersion"])
        if wanted != meta["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        changed = body if request.method == "PUT" else merge(item, body)
        self._store(collection, key, changed, "MODIFIED")
        return answer(changed)

    def _pod_action(self, collection: str, key: str, sub: str, body: Plain) -> Response:
        item = self.objects[collection][key]
        if sub == "binding":
            self._store(
                collection, key, merge(item, {"spec": {"nodeName": body["target"]["name"]}}), "MODIFIED"
            )
            return answer({"kind": "Status", "status": "Success"}, 201)
        options = body.get("deleteOptions", {})
        deleted = self._delete(collection, key, item, options.get("preconditions", {}))
        return deleted if not deleted.ok else answer({"kind": "Status", "status": "Success"}, 201)

    def _delete(self, collection: str, key: str, item: Plain, preconditions: Plain) -> Response:
        for field, value in preconditions.items():
            if item["metadata"].get(field) != value:
                return status(409, "Conflict", f"precondition on {field} failed")
        self.drop(collection, key)
        return answer({"kind": "Status", "status": "Success"})

    def _create(self, request: Request, collection: str, namespace: str) -> Response:
        body = json.loads(request.body)
        meta = body.setdefault("metadata", {})
        name = meta.get("name") or meta.get("generateName", "") + f"{self.version:x}"
        key = f"{namespace}/{name}" if namespace else name
        if key in self.objects.get(collection, {}):
            return status(409, "AlreadyExists", f'{collection} "{name}" already exists', name=name)
        meta.update({"name": name, "uid": f"uid-{self.version + 1}"})
        if namespace:
            meta["namespace"] = namespace
        self._store(collection, key, body, "ADDED")
        return answer(body, 201)

    def _list(self, request: Request, collection: str, namespace: str) -> Response:
        items = [
            item
            for key, item in sorted(self.objects.get(collection, {}).items())
            if not namespace or key.startswith(f"{namespace}/")
        ]
        limit = int(request.parameter("limit", "0"))
        at, _, skip = request.parameter("continue").partition(":")
        start = int(skip or 0)
        version = int(at or self.version)
        if at and version <= self.oldest:
            return status(410, "Expired", "the continue token is too old")
        page = items[start : start + limit] if limit else items
        more = f"{version}:{start + limit}" if limit and start + limit < len(items) else ""
        return answer(
            {"kind": "List", "metadata": {"resourceVersion": str(version), "continue": more}, "items": page}
        )

    def _watch(self, request: Request, collection: str) -> Response | Streaming:
        since = int(request.parameter("resourceVersion"))
        if since < self.oldest:
            return status(410, "Expired", f"too old resource version: {since}")
        return Streaming(lines=self._lines(collection, since, int(request.parameter("timeoutSeconds"))))

    async def _lines(self, collection: str, since: int, seconds: int) -> AsyncGenerator[bytes, None]:
        wake = asyncio.Event()
        self.watches.add(wake)
        generation = self.generation
        ends = asyncio.get_running_loop().time() + seconds
        try:
            while generation == self.generation:
                wake.clear()
                for version, type_, of, item in tuple(self.history):
                    if version > since and of in {collection, ""} and not self.silent:
                        await asyncio.sleep(self.delay)
                        since = version
                        line = json.dumps({"type": type_, "object": item}).encode()
                        yield line
                        if self.twice:
                            yield line
                if asyncio.get_running_loop().time() >= ends:
                    return
                timer = asyncio.get_running_loop().call_at(ends, wake.set)
                await wake.wait()
                timer.cancel()
        finally:
            self.watches.discard(wake)

    def _store(self, collection: str, key: str, item: Plain, type_: str) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(collection, {})[key] = item
        self._tell(type_, collection, json.loads(json.dumps(item)))

    def _tell(self, type_: str, collection: str, item: Plain) -> None:
        self.history.append((self.version, type_, collection, item))
        self._wake()

    def _wake(self) -> None:
        for wake in self.watches:
            wake.set()

    @staticmethod
    def _parse(path: str) -> tuple[str, str, str, str]:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        collection, name, sub = (*parts, "", "")[:3]
        return collection, namespace, name, sub


def merge(item: Plain, changes: Plain) -> Plain:
    merged = dict(item)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
