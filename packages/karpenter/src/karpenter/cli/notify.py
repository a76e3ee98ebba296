"""``karpenter notify``: Events of the operator to a webhook."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Never
from urllib.parse import urlsplit

import click

from karpenter.base.clock import SystemClock
from karpenter.base.duration import DurationError, parse_duration
from karpenter.cli.cluster import cluster_refusal, run_quietly
from karpenter.cli.errors import CommandError, note, progress
from karpenter.cli.options import cluster_options
from karpenter.notify.outbox import COMPONENT, FORMS, REASONS, Outbox, happened_at, is_told, notification_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    import aiohttp

    from karpenter.api.cluster import Event
    from karpenter.kube.client import Client

URL: Final = "KARPENTER_NOTIFY_URL"
_PERIOD: Final = 2.0
"""Seconds between two looks at what waits, so that what happens together is sent together."""

_ATTEMPTS: Final = 4
_LONGEST_WAIT: Final = 60.0
_ANSWERS_WITHIN: Final = 10.0
_TOO_MANY: Final = 429
_FAILED: Final = 400
_SERVER: Final = 500


@click.command(
    epilog="Examples:\n\n"
    "  karpenter notify --once --dry-run\n\n"
    "  karpenter notify --url-file webhook-url --form slack --cluster blue\n\n"
    "  karpenter notify --reason SpotInterrupted --reason NodeClassNotReady --dry-run"
)
@click.option(
    "--url-file",
    default=None,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"A file with the URL of the webhook.  [default: {URL}]",
)
@click.option(
    "--form",
    type=click.Choice(sorted(FORMS)),
    default="json",
    show_default=True,
    help="How messages are written: as data, or for Slack and what takes its webhooks.",
)
@click.option("-c", "--cluster", default="", metavar="NAME", help="How messages call the cluster.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="NAME",
    help="A reason of Events to tell of. May be repeated.  [default: nodes that go, and what goes wrong]",
)
@click.option(
    "--quiet-for",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="How long the same is not told again of the same object.",
)
@click.option(
    "--per-minute",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Notifications a minute; of the others the number is told.",
)
@click.option("--once", is_flag=True, help="Tell of the Events of the last hour, and end.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@cluster_options
def notify(
    *,
    url_file: Path | None,
    form: str,
    cluster: str,
    reasons: tuple[str, ...],
    quiet_for: str,
    per_minute: int,
    once: bool,
    dry_run: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """
    Send what the operator does to nodes, and what goes wrong, to a webhook.

    It watches the Events that the operator writes, and needs the right to list and watch Events, nothing
    else. It runs until it is interrupted, on any machine or as a pod; one is enough for a cluster. The URL
    is a secret: it is read from a file or the environment, and is never printed.
    """
    from karpenter.kube.errors import KubeError  # noqa: PLC0415  loads much

    try:
        quiet = parse_duration(quiet_for).total_seconds()
    except DurationError as error:
        raise CommandError(f"--quiet-for: {error}", hint="such as 15m or 1h") from error
    for each in reasons:
        close = difflib.get_close_matches(each, REASONS, n=1, cutoff=0.8)
        if close and each not in REASONS:
            raise CommandError(f"--reason: there is no reason {each!r}", hint=f"did you mean {close[0]}?")
    send = _printed if dry_run else _Webhook(_url(url_file, os.environ)).send
    outbox = Outbox(cluster=cluster, quiet_for=quiet, per_minute=10_000 if once else per_minute)
    work = _Notifier(outbox, FORMS[form], send, reasons=frozenset(reasons))
    try:
        delivered = run_quietly(work.run(kubeconfig, context, once=once))
    except KubeError as error:
        raise cluster_refusal(error) from error
    if not delivered:
        sys.exit(1)


def _url(path: Path | None, environ: Mapping[str, str]) -> str:
    """
    Return the URL of the webhook.

    Raises:
        CommandError: there is none; the message does not have what stands in its place.
    """
    source = f"--url-file {path}" if path is not None else URL
    url = (path.read_text("utf-8") if path is not None else environ.get(URL, "")).strip()
    if not url:
        raise CommandError(f"{source}: there is no URL", hint=f"--url-file FILE, {URL}, or --dry-run")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"https", "http"} or not parts.hostname or len(url.split()) > 1:
        raise CommandError(f"{source}: what stands there is not a URL of the form https://...")
    return url


async def _printed(body: dict[str, Any]) -> bool:
    click.echo(json.dumps(body, ensure_ascii=False))
    return True


class _Webhook:
    """Sends messages, and tries again while the other side says that it may."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._host = urlsplit(url).hostname

    async def send(self, body: dict[str, Any]) -> bool:
        """Send a message; one that is refused is lost, which is said, but without the URL."""
        import aiohttp  # noqa: PLC0415  only who sends

        limit = aiohttp.ClientTimeout(total=_ANSWERS_WITHIN)
        problem = ""
        for attempt in range(_ATTEMPTS):
            wait = 2.0**attempt
            try:
                async with aiohttp.ClientSession(timeout=limit, trust_env=True) as session:
                    status, asked = await self._post(session, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = f"does not answer ({type(error).__name__})"
            else:
                if status < _FAILED:
                    return True
                problem = f"answers with HTTP {status}"
                if status != _TOO_MANY and status < _SERVER:
                    break
                wait = max(wait, asked)
            if attempt < _ATTEMPTS - 1:
                await asyncio.sleep(min(wait, _LONGEST_WAIT))
        note(f"warning: a message was not delivered: {self._host} {problem}")
        return False

    async def _post(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> tuple[int, float]:
        async with session.post(self._url, json=body, allow_redirects=False) as answer:
            asked = answer.headers.get("Retry-After", "")
            return answer.status, float(asked) if asked.isdigit() else 0.0


class _Notifier:
    """Watches Events, and sends what the outbox lets out."""

    def __init__(
        self,
        outbox: Outbox,
        form: Callable[..., dict[str, Any]],
        send: Callable[[dict[str, Any]], Awaitable[bool]],
        *,
        reasons: frozenset[str],
    ) -> None:
        self._outbox = outbox
        self._form = form
        self._send = send
        self._reasons = reasons
        self._clock = SystemClock()

    async def run(self, kubeconfig: str, context: str, *, once: bool) -> bool:
        """Tell of Events; without `once`, until it is cancelled. Return whether all was delivered."""
        from karpenter.session.live import connected  # noqa: PLC0415  loads much

        async with connected(kubeconfig=kubeconfig, context=context) as connection:
            note(f"reading {connection.name}")
            return await (self._tell_once if once else self._follow)(connection.client)

    async def _tell_once(self, client: Client) -> bool:
        from karpenter.api.cluster import Event  # noqa: PLC0415  loads much
        from karpenter.kube.rest import Selection  # noqa: PLC0415  likewise

        with progress("reading the Events of the operator"):
            page = await client.list(Event, Selection(fields=f"reportingComponent={COMPONENT}"))
        since = self._clock.now() - timedelta(hours=1)
        for event in sorted(page.items, key=lambda each: str(happened_at(each))):
            self._take(event, since)
        return await self._deliver()

    async def _follow(self, client: Client) -> Never:
        from karpenter.api.cluster import Event  # noqa: PLC0415  loads much
        from karpenter.kube.informer import Informer, InformerUpdate  # noqa: PLC0415  likewise
        from karpenter.kube.rest import Selection  # noqa: PLC0415  likewise

        selection = Selection(fields=f"reportingComponent={COMPONENT}")
        await client.list(Event, selection)  # what is not allowed is said at once
        since = self._clock.now()
        chance = Random()  # noqa: S311  when to connect again
        informer = Informer(client, Event, chance=chance, selection=selection)
        informer.subscribe(
            lambda event: self._take(event.object, since) if isinstance(event, InformerUpdate) else None
        )
        note("telling of Events from now on; interrupt to end it")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            problem = ""
            while True:
                await asyncio.sleep(_PERIOD)
                if informer.problem != problem:
                    problem = informer.problem
                    note(f"warning: Events are not seen: {problem}" if problem else "Events are seen again")
                await self._deliver()

    def _take(self, event: Event, since: datetime) -> None:
        when = happened_at(event)
        # Timestamps of Events have no fractions of a second.
        if is_told(event, self._reasons) and when is not None and when >= since.replace(microsecond=0):
            self._outbox.add(notification_of(event), now=self._clock.monotonic())

    async def _deliver(self) -> bool:
        batch = self._outbox.take(now=self._clock.monotonic())
        return batch is None or await self._send(self._form(batch))
