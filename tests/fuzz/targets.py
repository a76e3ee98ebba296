"""
What is fuzzed: for each reader of text from outside, the pieces that its input is made of, and a function.

The function returns for input that can be used, and for input that is refused as it should be. Any other
exception is a finding. Findings that were corrected are kept as tests beside the tests of their module.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import strategies as st

from karpenter.api import manifests as reading
from karpenter.api.manifests import documents_or_refusals, read_documents
from karpenter.api.meta import MAX_DEPTH, InvalidObject
from karpenter.api.pod import Pod
from karpenter.api.validation.documents import check_document
from karpenter.base.clock import SystemClock
from karpenter.base.cron import CronError, parse_cron
from karpenter.base.duration import DurationError, parse_duration
from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.chart.values import BadValue, values_of
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.mime import parse_archive, render_archive
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.interruption.messages import BadMessage
from karpenter.cloud.aws.interruption.messages import read as read_message
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog, parse_catalog
from karpenter.convert.helm_values import convert_values
from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher, compile_selector
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError
from karpenter.kube.client import read_events
from karpenter.kube.errors import KubeError, NotConfigured
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter.kube.targets import target_of
from karpenter.kube.transport import Request
from karpenter.operator.options import SettingError, parse_commitments
from karpenter.replay.record import Unreadable
from karpenter.replay.replay import Replay
from karpenter_local.apiserver.offline import create_problems
from tests.fuzz.commands import COMMANDS, changed, command
from tests.fuzz.objects import (
    CREDENTIALS,
    OVERLAYS,
    SETTING_VALUES,
    annotated,
    credentials,
    overlays,
    questions,
    settings,
)
from tests.fuzz.objects import VALUES as VALUES_OF_ANNOTATIONS
from tests.unit.core.scheduling.dynamicresources.hardware import device, gpu

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

YAML: Final = (
    "a: ",
    "- ",
    "\n",
    "\n  ",
    "---\n",
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "&x ",
    "*x",
    "<<: *x\n",
    "<<: [*x, *x]\n",
    "!!bool x",
    "!!int ''",
    "!!timestamp x",
    "!!binary x",
    "!!set {a}",
    "!foo b",
    "? ",
    "|\n  ",
    ">-\n  ",
    "'",
    '"',
    "\t",
    "%YAML 1.1\n",
    "0x",
    "1e999",
    "9" * 4500,
    ".nan",
    "[" * 999,
    "{a: " * 999,
    "\x00",
    "\x85",
    "\ufeff",
)
LINES: Final = (
    "a: ",
    "b:\n",
    "  c: d\n",
    "  - e\n",
    "- f: g\n",
    "  h: 'i'\n",
    '"j": k # l\n',
    "  m: |\n",
    "    n\n",
    "o: p\n",
    "# q\n",
    "r: {}\n",
    "s: []\n",
    "yes",
    "0644",
    "--- ",
    "...\n",
    "''",
    " #",
    " ",
    "-",
    "\r\n",
)
OBJECTS: Final = (
    "apiVersion: v1\n",
    "apiVersion: apps/v1\n",
    "apiVersion: karpenter.sh/v1\n",
    "kind: Pod\n",
    "kind: NodePool\n",
    "kind: Deployment\n",
    "kind: List\n",
    "items:\n- ",
    "metadata:\n",
    "  name: a\n",
    "spec:\n",
    "  replicas: -1\n",
    "  template:\n",
    "    spec:\n",
    "  weight: 1\n",
    "  limits: {cpu: 1}\n",
)
JSON: Final = (
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    '"',
    '"a"',
    "1",
    "-",
    "1e400",
    "null",
    "true",
    "\\ud800",
    "\\u0000",
    "[" * 1500,
    '{"a":' * 1500,
    "9" * 4500,
)
MIME: Final = (
    "MIME-Version: 1.0\n",
    'Content-Type: multipart/mixed; boundary="b"\n',
    "Content-Type: multipart/mixed\n",
    "Content-Type: text/plain\n",
    "boundary*0=b;",
    "boundary*=utf-8''%ff",
    "\n",
    "\n\n",
    "--b\n",
    "--b--",
    "--b x\n",
    "--//",
    "--//_",
    "Content-Transfer-Encoding: quoted-printable\n",
    "=FF",
    "=\n",
    " folded\n",
    "\r\n",
    "\r",
)
TOML: Final = (
    "[settings]\n",
    "[settings.kubernetes]\n",
    "[settings.kubernetes.node-labels]\n",
    "[[settings]]\n",
    "settings = 1\n",
    "node-labels = 1\n",
    "max-pods = 1\n",
    "a",
    ".a",
    " = ",
    "'x'",
    '"',
    '"""',
    "'''",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "2026-99-99",
    "1979-05-27T07:32:00Z",
    "0x" + "f" * 4500,
    "9" * 4500,
    "inf",
    "nan",
    "[" * 999,
    "a." * 999,
    "\x00",
)
EVENT: Final = (
    '{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":',
    '{"version":"0","source":"aws.health","detail-type":"AWS Health Event","detail":',
    '{"instance-id":"i-1"}',
    '{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":',
    '[{"entityValue":"i-1"}]',
    "}",
    ',"time":"0001-01-01T00:00:00+23:59"',
    ',"time":"9999-12-31T23:59:59-23:59"',
    ',"time":1',
    ',"id":"',
    '"',
    *JSON,
)
WATCH: Final = (
    '{"type":"ADDED","object":',
    '{"type":"BOOKMARK","object":',
    '{"type":"ERROR","object":',
    '{"type":"X"',
    '{"metadata":{"name":"a","resourceVersion":"7"}}',
    '"spec":',
    '"code":410',
    "}",
    "\n",
    *JSON,
)
RECORD: Final = (
    '{"line":"begun","version":"1","at":"2026-01-01T00:00:00Z","serves":[]}\n',
    '{"line":"seen","kind":"Pod","object":',
    '{"line":"asked","number":1,',
    '{"line":"answered","number":1,"cut":false,"outcome":{}}\n',
    '{"line":"sold",',
    '{"line":"done",',
    "\n",
    *JSON,
)
KUBECONFIG: Final = (
    "apiVersion: v1\nkind: Config\n",
    "current-context: a\n",
    "contexts:\n",
    "- name: a\n",
    "  context: ",
    "{cluster: a, user: a}\n",
    "clusters:\n",
    "  cluster: ",
    "{server: 'https://x'}\n",
    "users:\n",
    "  user: ",
    "{token: x}\n",
    "{client-certificate-data: '!!'}\n",
    "{username: a, password: b}\n",
    *(each for each in YAML if len(each) < 20),
)  # exec is left out: it would start programs
CATALOG: Final = (
    "- name: a\n",
    "  architecture: amd64\n",
    "  operatingSystems: [linux]\n",
    "  resources: ",
    "{cpu: '1', memory: 1Gi}\n",
    "  offerings:\n",
    "  - Price: 1\n",
    "    Available: true\n",
    "    Requirements: []\n",
    *YAML,
)
VALUES: Final = (
    "settings:\n",
    "  clusterName: a\n",
    "  featureGates: ",
    "controller:\n",
    "  resources: ",
    "serviceAccount: ",
    "replicas: -1\n",
    "nodeSelector: ",
    *YAML,
)
NUMBERS: Final = (
    "1",
    "0",
    "9" * 30,
    "-",
    "+",
    ".",
    "e",
    "E",
    "Ki",
    "Mi",
    "m",
    "n",
    "u",
    "k",
    " ",
    "Never",
    "h",
    "s",
    "ms",
)
CEL: Final = (
    "device.driver",
    "device.attributes['gpu.example.com']",
    "device.capacity['gpu.example.com'].memory",
    ".model",
    ".?a",
    ".?a" * 3000,
    "[?'a']" * 1500,
    ".orValue(",
    ".hasValue()",
    ".all(x, ",
    ".exists(x, ",
    ".exists_one(y, ",
    ".map(x, ",
    ".map(x, true, ",
    ".filter(x, ",
    "cel.bind(x, 1, ",
    ".matches('",
    ".find('",
    ".findAll('(a*)*')",
    ".compareTo(quantity('1Gi'))",
    "semver('1.2.3').isGreaterThan(",
    ".split('').join(',')",
    ".format([",
    "'%d %s %.400f'",
    ".substring(",
    ".replace('a', 'aa')",
    "[1, 2, 3]",
    "{'a': 1}",
    "x",
    "y",
    "1",
    "-9223372036854775808",
    "1u",
    "1.5e308",
    "true",
    "null",
    "(",
    ")",
    "[",
    "]",
    ", ",
    " && ",
    " || ",
    " == ",
    " < ",
    " + ",
    " * ",
    " / ",
    " % ",
    " in ",
    " ? ",
    " : ",
    "!",
    "'",
    '"',
    "r'",
    "b'",
    "\\",
    "// ",
    "\n",
    "timestamp('",
    "duration('1h')",
    "int(",
    "string(",
    "size(",
    "has(device.x)",
    "[" * 200,
    "(" * 200,
    "!" * 2000,
    "[1].map(x, " * 30,
)
COMMITMENTS: Final = (
    "commitments:\n",
    "- name: a\n",
    "  kind: ReservedInstance\n",
    "  kind: SavingsPlan\n",
    "  instanceType: m5.large\n",
    "  family: m5\n",
    "  count: 3\n",
    "  count: -1\n",
    "  hourly: 1e999\n",
    "  hourly: 2.5\n",
    "  rate: 0\n",
    "  until: 2027-01-01T00:00:00Z\n",
    "  until: 0001-01-01T00:00:00+14:00\n",
    "  zone: 7\n",
)
CRON: Final = ("*", "/", "-", ",", " ", "1", "0", "59", "99", "@daily", "@", "MON", "JAN", "?", "L", "9" * 99)


def texts(pieces: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts that are made of pieces, and of anything."""
    piece = st.one_of(st.sampled_from(pieces), st.sampled_from(pieces), st.text(max_size=8))
    return st.lists(piece, max_size=25).map("".join)


def manifests(text: str) -> None:
    for found in documents_or_refusals(text, "f.yaml"):
        for outcome in check_document(found, rules=create_problems):
            str(outcome)


def same_as_libyaml(text: str) -> None:
    """Read YAML by lines, and with libyaml alone: the documents, the refusal and the notes are the same."""
    for repeated in (False, True):
        notes: tuple[list[str], list[str]] = ([], [])
        found: list[Any] = []
        expected: list[Any] = []
        try:
            found.extend(reading._yaml_documents(text, notes[0] if repeated else None))
        except reading._NOT_YAML as error:
            found.append(str(reading._refusal(error, "f.yaml")))
        budget = len(text) + reading._MAX_EXPANSION
        try:
            expected.extend(
                reading._libyaml_documents(text, MAX_DEPTH, budget, notes[1] if repeated else None)
            )
        except reading._NOT_YAML as error:
            expected.append(str(reading._refusal(error, "f.yaml")))
        assert _not_empty(found) == _not_empty(expected)
        assert notes[0] == notes[1]


def _not_empty(documents: list[Any]) -> str:
    return repr([each for each in documents if each is not None])


def quantities(text: str) -> None:
    """Read a quantity, and what is written of it."""
    with suppress(QuantityError):
        parse_quantity(str(parse_quantity(text)))


GPU: Final = gpu("gpu-0", model="A100", cores=3, fast=True, memory_="40Gi")


def selectors(text: str) -> None:
    """Compile a device selector, and ask it about a device."""
    with suppress(DeviceClaimError):
        SelectorMatcher().failure([compile_selector(text)], device(GPU))


def cron(text: str) -> None:
    with suppress(CronError):
        parse_cron(text)


def durations(text: str) -> None:
    with suppress(DurationError):
        parse_duration(text)


def user_data(family: str) -> Callable[[str], None]:
    """Return a function that merges the user data of a family."""

    def merge(text: str) -> None:
        bootstrap = Bootstrap(cluster="c", endpoint="https://c", ca_bundle="Y2E=", custom=text, raid0=True)
        with suppress(BadUserData):
            render_user_data(family_of(family), bootstrap).encode()

    return merge


def mime(text: str) -> None:
    """Read an archive, and what is written of it."""
    with suppress(BadUserData):
        parse_archive(render_archive(parse_archive(text)))


def messages(text: str) -> None:
    """Read a message of the interruption queue."""
    with suppress(BadMessage):
        read_message(text)


def watch(text: str) -> None:
    async def lines() -> AsyncGenerator[bytes, None]:
        for line in text.encode(errors="surrogatepass").split(b"\n"):
            yield line

    async def read() -> None:
        request = Request(method="GET", path="/api/v1/pods")
        async for _ in read_events(target_of(Pod), request, lines()):
            pass

    with suppress(KubeError):
        asyncio.run(read())


def records(text: str) -> None:
    with suppress(Unreadable):
        list(Replay().run(text.encode(errors="surrogatepass").splitlines(keepends=True)))


def kubeconfigs(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config"
        path.write_bytes(text.encode(errors="surrogatepass"))
        with suppress(NotConfigured):
            asyncio.run(from_kubeconfig(str(path), environ={}, clock=SystemClock()))


def catalogues(text: str) -> None:
    """Read a catalogue, as YAML and as JSON."""
    for file in ("c.yaml", "c.json"):
        with suppress(InvalidCatalog):
            parse_catalog(text, file=file)


def helm_values(text: str) -> None:
    """Read values of the chart, of now and of before."""
    with suppress(InvalidObject):
        for plain in read_documents(text, source="values.yaml"):
            if isinstance(plain, dict):
                json.dumps(msgspec.to_builtins(convert_values(plain)))
                with suppress(BadValue):
                    values_of([plain], [])


def commitments(text: str) -> None:
    with suppress(SettingError):
        parse_commitments(text)


FAMILIES: Final = ("AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom")
TARGETS: Final[dict[str, tuple[st.SearchStrategy[str], Callable[[str], None]]]] = {
    "manifests": (texts((*OBJECTS, *YAML, *JSON)), manifests),
    "YAML by lines": (texts((*LINES, *YAML)), same_as_libyaml),
    "quantities": (texts(NUMBERS), quantities),
    "cron": (texts(CRON), cron),
    "CEL selectors": (texts((*CEL, "\ud800")), selectors),
    "durations": (texts(NUMBERS), durations),
    **{
        f"user data of {each}": (texts((*YAML, *TOML, *MIME, "\ud800")), user_data(each)) for each in FAMILIES
    },
    "TOML of Bottlerocket": (texts(TOML), user_data("Bottlerocket")),
    "MIME": (texts(MIME), mime),
    "SQS messages": (texts((*EVENT, "\ud800")), messages),
    "watch stream": (texts((*WATCH, "\ud800")), watch),
    "flight records": (texts((*RECORD, "\ud800")), records),
    "kubeconfigs": (texts(KUBECONFIG), kubeconfigs),
    "catalogues": (texts((*CATALOG, *JSON)), catalogues),
    "helm values": (texts(VALUES), helm_values),
    "commitments": (texts((*YAML, *COMMITMENTS)), commitments),
    "settings": (texts(SETTING_VALUES), settings),
    "annotations": (texts(VALUES_OF_ANNOTATIONS), annotated),
    "overlays": (texts(OVERLAYS), overlays),
    "exec plugins": (texts((*CREDENTIALS, "\ud800")), credentials),
    "questions of the console": (texts((*OBJECTS, *YAML)), questions),
    **{
        f"karpenter {name}": (changed(files), command(arguments))
        for name, (arguments, files) in COMMANDS.items()
    },
}
"""What makes texts, and what reads them."""
