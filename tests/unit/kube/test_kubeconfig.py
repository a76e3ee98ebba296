"""A kubeconfig, or the pod we run in, says where the cluster is and who we are, for as long as we run."""

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.typing import EventDict

from karpenter.kube import execplugin
from karpenter.kube.errors import NotConfigured
from karpenter.kube.http import Certificate, Credentials, HttpTransport, bearer
from karpenter.kube.kubeconfig import Cluster, find_cluster, from_kubeconfig, in_cluster
from karpenter.kube.transport import Request
from tests.unit.kube.certificates import Authority
from tests.unit.kube.toy import Toy
from tests.unit.kube.wire import listening

REAL_TIME = True

NODES = Request(method="GET", path="/api/v1/nodes")
NOTHING: Mapping[str, Any] = {}
BETA = "client.authentication.k8s.io/v1beta1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Hands:
    """A clock that a test sets."""

    def __init__(self, start: datetime = NOON) -> None:
        self.start = start
        self.passed = 0.0

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def boottime(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


def write(path: Path, content: str | dict[str, Any]) -> str:
    """Write a file, and return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def kubeconfig(
    folder: Path,
    *,
    user: dict[str, Any] | None = None,
    name: str = "config",
    cluster: Mapping[str, Any] = NOTHING,
) -> str:
    return write(
        folder / name,
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "ops"}}],
            "clusters": [{"name": name, "cluster": {"server": "https://api.example.com:6443", **cluster}}],
            "users": [{"name": name, "user": user or {}}],
        },
    )


async def load(path: str, *, context: str = "", environ: dict[str, str] | None = None) -> Cluster:
    return await from_kubeconfig(path, context=context, environ=environ or {}, clock=Hands())


def read(file: str) -> str:
    return Path(file).read_text()


def encoded(file: str) -> str:
    """Return a file as kubeconfigs embed it."""
    return base64.b64encode(Path(file).read_bytes()).decode()


async def test_a_token(tmp_path: Path) -> None:
    """The plainest kubeconfig has a server and a token."""
    cluster = await load(kubeconfig(tmp_path, user={"token": "secret"}))

    assert (cluster.endpoint.server, cluster.context, cluster.namespace) == (
        "https://api.example.com:6443",
        "config",
        "ops",
    )
    assert await cluster.credentials.headers() == bearer("secret")
    assert cluster.credentials.certificate is None


async def test_a_user_and_password(tmp_path: Path) -> None:
    """Basic authentication is read as well."""
    cluster = await load(kubeconfig(tmp_path, user={"username": "me", "password": "pw"}))

    assert await cluster.credentials.headers() == (("authorization", "Basic bWU6cHc="),)


async def test_an_auth_provider(tmp_path: Path) -> None:
    """An auth-provider is refused, and no program that it names runs; the error says what has replaced it."""
    ran = tmp_path / "ran"
    user = {"auth-provider": {"name": "gcp", "config": {"cmd-path": "touch", "cmd-args": str(ran)}}}

    with pytest.raises(
        NotConfigured, match="has an auth-provider, which is not supported: use an exec plugin"
    ):
        await load(kubeconfig(tmp_path, user=user))

    assert not ran.exists()


async def test_no_user_at_all(tmp_path: Path) -> None:
    """A context without a user reaches an open server, with or without TLS."""
    path = write(
        tmp_path / "config",
        "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n"
        "clusters: [{name: y, cluster: {server: 'http://localhost:8001'}}]\nusers: []",
    )

    cluster = await load(path)

    assert (await cluster.credentials.headers(), cluster.namespace) == ((), "default")


async def test_acting_as_another(tmp_path: Path) -> None:
    """Impersonation in a kubeconfig becomes headers."""
    user = {"token": "secret", "as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"]}
    cluster = await load(kubeconfig(tmp_path, user=user))

    assert await cluster.credentials.headers() == (
        *bearer("secret"),
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
    )


async def test_contexts_of_several_files(tmp_path: Path) -> None:
    """Files are merged; the first one's current context is used unless another is named."""
    files = ":".join(
        [
            kubeconfig(tmp_path, name="one", user={"token": "1"}),
            kubeconfig(tmp_path, name="two", user={"token": "2"}, cluster={"server": "https://two"}),
        ]
    )

    current = await load(files)
    named = await load(files, context="one")
    other = await load(files, context="two")

    assert current.context == "one"
    assert (await named.credentials.headers(), await other.credentials.headers()) == (
        bearer("1"),
        bearer("2"),
    )
    assert other.endpoint.server == "https://two"


@pytest.mark.parametrize(
    ("cluster", "environ", "proxy"),
    [
        pytest.param({}, {}, "", id="none"),
        pytest.param(
            {"proxy-url": "http://p:1"}, {"HTTPS_PROXY": "http://q:2"}, "http://p:1", id="the kubeconfig's"
        ),
        pytest.param({}, {"HTTPS_PROXY": "http://q:2"}, "http://q:2", id="the environment's"),
        pytest.param(
            {}, {"HTTPS_PROXY": "http://q:2", "NO_PROXY": ".example.com"}, "", id="not for an exempt server"
        ),
    ],
)
async def test_proxy(tmp_path: Path, cluster: dict[str, str], environ: dict[str, str], proxy: str) -> None:
    """A proxy is the kubeconfig's, or the environment's."""
    found = await load(kubeconfig(tmp_path, cluster=cluster), environ=environ)

    assert found.endpoint.proxy == proxy


async def test_how_to_know_the_server(tmp_path: Path) -> None:
    """CA, name and the wish not to check are read."""
    (tmp_path / "pki").mkdir()
    ca = Authority(tmp_path / "pki").ca_file
    checked = await load(
        kubeconfig(
            tmp_path, cluster={"certificate-authority": "pki/ca.crt", "tls-server-name": "api.internal"}
        )
    )
    unchecked = await load(kubeconfig(tmp_path, cluster={"insecure-skip-tls-verify": True}))

    assert (checked.endpoint.trust.ca_file, checked.endpoint.trust.server_name) == (ca, "api.internal")
    assert (checked.endpoint.trust.verify, unchecked.endpoint.trust.verify) == (True, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{", "kubeconfig", id="not YAML"),
        pytest.param("", "is no kubeconfig", id="empty"),
        pytest.param("[]", "is no kubeconfig", id="a list"),
        pytest.param("hello", "is no kubeconfig", id="a word"),
        pytest.param("a: !!int ''", "not YAML", id="a tag that lies"),
        pytest.param("[" * 999, "nested too deep", id="brackets without end"),
        pytest.param(
            "a0: &a0 {x: y}\n"
            + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)),
            "too many values",
            id="merges that multiply",
        ),
        pytest.param("contexts: []", "current-context", id="no current context"),
        pytest.param(
            "current-context: x\ncontexts: []",
            "it has no context x; there are: none",
            id="an unknown context",
        ),
        pytest.param(
            "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\nclusters: []",
            "it has no cluster y, which the context x names",
            id="an unknown cluster",
        ),
        pytest.param("users: [{user: {}}]", "is no kubeconfig", id="a user without a name"),
        pytest.param(
            "clusters: [{name: x, cluster: [server]}]", "is no kubeconfig", id="a cluster that is a list"
        ),
    ],
)
async def test_a_kubeconfig_that_is_wrong(tmp_path: Path, content: str, said: str) -> None:
    """The error names the file and what is wrong with it."""
    path = write(tmp_path / "config", content)

    with pytest.raises(NotConfigured, match=said) as caught:
        await load(path)

    assert path in str(caught.value)


async def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    """A path with nothing there is named, and so is a folder."""
    with pytest.raises(NotConfigured, match="there is no kubeconfig at"):
        await load(str(tmp_path / "nowhere"))
    with pytest.raises(NotConfigured, match="cannot be read: Is a directory"):
        await load(str(tmp_path))


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        pytest.param(
            {"tokenFile": "nowhere"}, {}, "nowhere: No such file", id="a token file that is missing"
        ),
        pytest.param({"tokenFile": "/dev/zero"}, {}, "/dev/zero: File too large", id="a token without end"),
        pytest.param(
            {"token": "a\r\nx-evil: 1"}, {}, "the token has a line break", id="a token that ends its header"
        ),
        pytest.param(
            {"token": "a", "as": "b\nc"},
            {},
            "impersonate-user has a line break",
            id="a user with a line break",
        ),
        pytest.param(
            {"client-certificate": "a.crt", "client-key": "b.key"}, {}, r"a\.crt", id="a missing certificate"
        ),
        pytest.param(
            {"client-certificate-data": "%", "client-key-data": "%"}, {}, "kubeconfig", id="bad base64"
        ),
        pytest.param(
            {}, {"proxy-url": "ftp://p:1"}, "only http, https and socks5 proxies", id="a proxy we cannot use"
        ),
        pytest.param(
            {},
            {"proxy-url": "socks5://p:1", "tls-server-name": "api"},
            "cannot be used",
            id="a proxy that cannot check another name",
        ),
        pytest.param(
            {"exec": {"apiVersion": "v1", "command": "x"}},
            {},
            "users\\[\\].user.exec.apiVersion is 'v1': it must be",
            id="a plugin of an unknown version",
        ),
        pytest.param(
            {"exec": {"apiVersion": BETA}}, {}, "exec.command is missing", id="a plugin without a command"
        ),
        pytest.param(
            {"exec": {"apiVersion": BETA, "command": "x", "interactiveMode": "Maybe"}},
            {},
            "it must be one of IfAvailable, Never, Always",
            id="a plugin of an unknown mode",
        ),
        pytest.param(
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "no-such-plugin",
                    "installHint": "Get it.",
                }
            },
            {},
            "the exec plugin no-such-plugin is not installed; Get it.",
            id="a plugin that is missing",
        ),
    ],
)
async def test_a_kubeconfig_that_points_nowhere(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], said: str
) -> None:
    """What cannot be used is named when it is read, not when it is needed."""
    with pytest.raises(NotConfigured, match=said):
        await load(kubeconfig(tmp_path, user=user, cluster=cluster))


async def test_a_token_file_beside_the_kubeconfig(tmp_path: Path) -> None:
    """A relative path is from the kubeconfig; the file is read again when it rotates."""
    token = tmp_path / "tokens" / "mine"
    write(token, "first\n")
    clock = Hands()
    path = kubeconfig(tmp_path, user={"tokenFile": "tokens/mine"})
    cluster = await from_kubeconfig(path, environ={}, clock=clock)
    shown = [await cluster.credentials.headers()]

    write(token, "second\n")
    clock.passed += 61
    shown.append(await cluster.credentials.headers())

    assert shown == [bearer("first"), bearer("second")]


class Plugin:
    """An exec plugin that counts its runs, and gives what it is told to give."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        self._gives = folder / "gives.json"
        self._runs.write_text("")
        script = write(
            folder / "plugin.py",
            "import json, os, sys\n"
            f"open({str(self._runs)!r}, 'a').write('x')\n"
            f"runs = len(open({str(self._runs)!r}).read())\n"
            f"gives = json.load(open({str(self._gives)!r}))\n"
            "if 'fails' in gives: sys.exit(gives['fails'])\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "spec = info['spec']\n"
            "if 'prints' in gives: print(gives['prints']); sys.exit(0)\n"
            "status = {k: v.format(runs=runs, who=os.environ.get('WHO'), spec=spec, stdin=sys.stdin.read())"
            " for k, v in gives.items()}\n"
            "answer = {'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}\n"
            "print(json.dumps(answer))\n",
        )
        self.user: dict[str, dict[str, Any]] = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": sys.executable,
                "args": [script, "get-token"],
                "env": [{"name": "WHO", "value": "me"}],
            }
        }

    @property
    def runs(self) -> int:
        return len(self._runs.read_text())

    def gives(self, **status: str) -> None:
        self._gives.write_text(json.dumps(status))


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """An exec plugin."""
    return Plugin(tmp_path)


def until(seconds: float) -> str:
    """Return an expiry so long after noon."""
    return (NOON + timedelta(seconds=seconds)).isoformat()


async def start(tmp_path: Path, plugin: Plugin, clock: Hands) -> Credentials:
    found = await from_kubeconfig(kubeconfig(tmp_path, user=plugin.user), environ={}, clock=clock)
    return found.credentials


async def test_a_plugin_gives_a_token(tmp_path: Path, plugin: Plugin) -> None:
    """The plugin is run with its arguments and environment, and its token shown."""
    plugin.gives(token="{who}-{runs}")

    credentials = await start(tmp_path, plugin, Hands())

    assert await credentials.headers() == bearer("me-1")
    assert await credentials.headers() == bearer("me-1")
    assert plugin.runs == 1


async def test_a_plugin_is_run_again_before_its_token_ends(tmp_path: Path, plugin: Plugin) -> None:
    """The token is renewed a minute before its end, once, however many requests are under way."""
    plugin.gives(token="{runs}", expirationTimestamp=until(900))
    clock = Hands()
    credentials = await start(tmp_path, plugin, clock)
    plugin.gives(token="{runs}", expirationTimestamp=until(1800))

    clock.passed = 839
    early = await credentials.headers()
    clock.passed = 840
    await asyncio.gather(*(credentials.headers() for _ in range(5)))
    late = await credentials.headers()

    assert (early, late, plugin.runs) == (bearer("1"), bearer("2"), 2)


async def test_a_plugin_is_run_again_when_its_token_is_refused(tmp_path: Path, plugin: Plugin) -> None:
    """Of many requests that were refused together, one runs the plugin; all use what it gave."""
    plugin.gives(token="{runs}", expirationTimestamp=until(3600))
    clock = Hands()
    credentials = await start(tmp_path, plugin, clock)
    shown = await credentials.headers()

    renewed = await asyncio.gather(*(credentials.renew(shown) for _ in range(5)))

    assert (set(renewed), plugin.runs, await credentials.headers()) == ({True}, 2, bearer("2"))


async def test_a_token_that_stays_the_same_is_not_tried_again(tmp_path: Path, plugin: Plugin) -> None:
    """A plugin with nothing new to give is not asked in a loop."""
    plugin.gives(token="always")
    clock = Hands()
    credentials = await start(tmp_path, plugin, clock)
    shown = await credentials.headers()

    assert not await credentials.renew(shown)
    assert not await credentials.renew(shown)
    assert plugin.runs == 2
    clock.passed += 11
    assert not await credentials.renew(shown)
    assert plugin.runs == 3


async def test_a_plugin_that_fails_later(tmp_path: Path, plugin: Plugin, logs: list[EventDict]) -> None:
    """The old token serves until its end; the failure is logged, and the plugin tried again after a pause."""
    plugin.gives(token="{runs}", expirationTimestamp=until(900))
    clock = Hands()
    credentials = await start(tmp_path, plugin, clock)
    plugin.gives(fails="no network")

    clock.passed = 850
    assert await credentials.headers() == bearer("1")
    assert await credentials.headers() == bearer("1")
    assert plugin.runs == 2
    plugin.gives(token="{runs}", expirationTimestamp=until(1800))
    clock.passed = 861
    assert await credentials.headers() == bearer("3")

    assert [log["event"] for log in logs] == ["credentials.not_renewed"]
    assert "no network" in logs[0]["error"]


async def test_a_plugin_that_fails_at_once(tmp_path: Path, plugin: Plugin) -> None:
    """Starting without credentials is an error that says what the plugin said."""
    plugin.gives(fails="not logged in")

    with pytest.raises(NotConfigured, match="not logged in"):
        await start(tmp_path, plugin, Hands())


async def test_a_plugin_is_told_about_the_cluster(tmp_path: Path, plugin: Plugin) -> None:
    """Where its kubeconfig says so, a plugin learns the cluster's address and its own configuration."""
    plugin.gives(token="{spec[cluster][server]} {spec[cluster][config][audience]}")
    plugin.user["exec"]["provideClusterInfo"] = True
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "blue"}}
    path = kubeconfig(tmp_path, user=plugin.user, cluster={"extensions": [extension]})

    found = await load(path)

    assert await found.credentials.headers() == bearer(f"{found.endpoint.server} blue")


@pytest.mark.parametrize("mode", ["Never", "IfAvailable"])
async def test_a_plugin_without_a_terminal(tmp_path: Path, plugin: Plugin, mode: str) -> None:
    """A plugin is told that it cannot ask, and reads nothing."""
    plugin.gives(token="{spec[interactive]}{stdin}")
    plugin.user["exec"]["interactiveMode"] = mode

    credentials = await start(tmp_path, plugin, Hands())

    assert await credentials.headers() == bearer("False")


async def test_a_plugin_beside_the_kubeconfig(tmp_path: Path, plugin: Plugin) -> None:
    """A relative path is one from the kubeconfig's folder, as kubectl has it."""
    plugin.gives(token="{runs}")
    script = tmp_path / "bin" / "get-token"
    write(script, f"#!/bin/sh\nexec {sys.executable} {plugin.user['exec']['args'][0]}\n")
    script.chmod(0o755)
    plugin.user["exec"] |= {"command": "./bin/get-token", "args": None, "env": None}

    credentials = await start(tmp_path, plugin, Hands())

    assert await credentials.headers() == bearer("1")


@pytest.mark.parametrize(
    ("change", "gives", "said"),
    [
        pytest.param({"interactiveMode": "Always"}, {"token": "x"}, "needs a terminal", id="no terminal"),
        pytest.param({}, {"prints": "hello"}, "printed no ExecCredential", id="no JSON"),
        pytest.param({}, {"prints": "{}"}, "printed nothing of no version", id="another object"),
        pytest.param({}, {"token": "a\nb"}, "gave no token: the token has a line", id="a line break"),
        pytest.param({}, {"who": "x"}, "gave neither a token nor a certificate", id="nothing"),
        pytest.param(
            {}, {"clientCertificateData": "x"}, "without the other", id="a certificate without a key"
        ),
        pytest.param(
            {}, {"token": "x", "expirationTimestamp": "soon"}, "printed no ExecCredential", id="no time"
        ),
        pytest.param({"command": "/dev/null"}, {}, "cannot be run: Permission denied", id="no program"),
    ],
)
async def test_a_plugin_that_gives_nothing(
    tmp_path: Path, plugin: Plugin, change: dict[str, Any], gives: dict[str, str], said: str
) -> None:
    """The error names the plugin and what it did."""
    plugin.gives(**gives)
    plugin.user["exec"] |= change

    with pytest.raises(NotConfigured, match=f"the exec plugin .*{said}"):
        await start(tmp_path, plugin, Hands())


async def test_a_plugin_that_hangs(tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that does not end is killed, and the start fails in one sentence."""
    monkeypatch.setattr(execplugin, "RUN_SECONDS", 0.2)
    plugin.user["exec"] |= {"command": "sleep", "args": ["60"]}

    with pytest.raises(NotConfigured, match=r"the exec plugin sleep did not end within 0\.2 s"):
        await start(tmp_path, plugin, Hands())


async def test_a_plugin_may_give_a_certificate(tmp_path: Path, plugin: Plugin) -> None:
    """Certificate and key come as text; another run may give others."""
    authority = Authority(tmp_path)
    one, two = authority.issue("one"), authority.issue("two")
    plugin.gives(clientCertificateData=read(one.cert_file), clientKeyData=read(one.key_file))
    credentials = await start(tmp_path, plugin, Hands())
    first = credentials.certificate
    assert first is not None

    plugin.gives(clientCertificateData=read(two.cert_file), clientKeyData=read(two.key_file))
    renewed = await credentials.renew(await credentials.headers())
    second = credentials.certificate
    assert second is not None

    assert (read(first.cert_file), read(first.key_file)) == (read(one.cert_file), read(one.key_file))
    assert read(second.cert_file) == read(two.cert_file)
    assert (renewed, await credentials.headers()) == (True, ())


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    """The files that a pod finds of its service account."""
    folder = tmp_path / "serviceaccount"
    write(folder / "token", "first\n")
    Authority(folder)
    write(folder / "namespace", "karpenter\n")
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_in_a_pod(service_account: Path) -> None:
    """The service account's token is used, and read again as the kubelet rotates it."""
    clock = Hands()
    cluster = in_cluster(environ=IN_POD, clock=clock, service_account=service_account)
    shown = [await cluster.credentials.headers()]
    write(service_account / "token", "second")
    clock.passed += 61
    shown.append(await cluster.credentials.headers())

    assert (cluster.endpoint.server, cluster.namespace) == ("https://10.0.0.1:443", "karpenter")
    assert cluster.endpoint.trust.ca_file == str(service_account / "ca.crt")
    assert shown == [bearer("first"), bearer("second")]


def test_in_a_pod_with_the_newer_addresses(service_account: Path) -> None:
    """An IPv6 service address is bracketed; a missing namespace file means the default one."""
    (service_account / "namespace").unlink()
    environ = {
        **IN_POD,
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "HTTPS_PROXY": "http://p:1",
        "NO_PROXY": "fd00::/8",
    }

    cluster = in_cluster(environ=environ, clock=Hands(), service_account=service_account)

    assert (cluster.endpoint.server, cluster.namespace, cluster.endpoint.proxy) == (
        "https://[fd00::1]:443",
        "default",
        "",
    )


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_in_a_pod_without_a_service_account(service_account: Path, missing: str) -> None:
    """A pod that mounts no token cannot talk to its cluster, and says so."""
    (service_account / missing).unlink()

    with pytest.raises(NotConfigured, match="cannot use this pod's service account"):
        in_cluster(environ=IN_POD, clock=Hands(), service_account=service_account)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"named", "env", "pod", "home"}, "named", id="the one that was named"),
        pytest.param({"env", "pod", "home"}, "env", id="then the environment's"),
        pytest.param({"pod", "home"}, "", id="then the pod's"),
        pytest.param({"home"}, "config", id="then the one at home"),
    ],
)
async def test_where_to_look(tmp_path: Path, service_account: Path, given: set[str], expected: str) -> None:
    """The most explicit wish wins."""
    kubeconfig(tmp_path / "home" / ".kube")
    environ = {"HOME": str(tmp_path / "home")}
    named = kubeconfig(tmp_path, name="named") if "named" in given else ""
    if "env" in given:
        environ["KUBECONFIG"] = kubeconfig(tmp_path, name="env")
    if "pod" in given:
        environ.update(IN_POD)

    cluster = await find_cluster(
        environ=environ, clock=Hands(), kubeconfig=named, service_account=service_account
    )

    assert cluster.context == expected


async def test_nowhere_to_look(tmp_path: Path) -> None:
    """Without any, the error says what to do."""
    with pytest.raises(NotConfigured, match="set KUBECONFIG"):
        await find_cluster(environ={"HOME": str(tmp_path)}, clock=Hands())


async def test_a_real_connection_with_a_client_certificate(tmp_path: Path) -> None:
    """A kubeconfig with everything embedded reaches a server with TLS, which knows us by our certificate."""
    authority = Authority(tmp_path)
    mine: Certificate = authority.issue("system:karpenter", file="mine")
    toy = Toy()
    toy.put("nodes", "n1")
    async with listening(toy, certificate=authority.issue("api"), ca_file=authority.ca_file) as port:
        path = kubeconfig(
            tmp_path,
            user={
                "client-certificate-data": encoded(mine.cert_file),
                "client-key-data": encoded(mine.key_file),
            },
            cluster={"server": port.url, "certificate-authority-data": encoded(authority.ca_file)},
        )
        cluster = await load(path)
        transport = HttpTransport(cluster.endpoint, cluster.credentials)
        response = await transport.send(NODES)
        await transport.close()

    assert (response.status, port.clients) == (200, ["system:karpenter"])


async def test_a_real_connection_through_a_token_that_expires(tmp_path: Path, plugin: Plugin) -> None:
    """When a server stops accepting a plugin's token, the next request works with a new one, unnoticed."""
    authority = Authority(tmp_path)
    plugin.gives(token="{runs}")
    async with listening(Toy(), certificate=authority.issue("api")) as port:
        port.accepted = {"Bearer 1"}
        path = kubeconfig(
            tmp_path,
            user=plugin.user,
            cluster={"server": port.url, "certificate-authority": authority.ca_file},
        )
        cluster = await load(path)
        transport = HttpTransport(cluster.endpoint, cluster.credentials)
        first = await transport.send(NODES)
        port.accepted = {"Bearer 2"}
        second = await transport.send(NODES)
        await transport.close()

    assert (first.status, second.status, plugin.runs) == (200, 200, 2)
    assert [headers["authorization"] for headers in port.headers] == ["Bearer 1", "Bearer 1", "Bearer 2"]


async def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    """Those that are there are named."""
    path = tmp_path / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "c"}} for name in ("blue", "green")]
    path.write_text(yaml.safe_dump({"contexts": contexts, "current-context": "blue"}))

    with pytest.raises(NotConfigured, match="has no context red; there are: blue, green"):
        await from_kubeconfig(str(path), context="red", environ={}, clock=Hands())
