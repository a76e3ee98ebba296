"""Who we are to AWS, and where it is: found by the SDK in the places that it documents."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from karpenter.cloud.aws.errors import AccessDenied
from karpenter.cloud.aws.sdk import AwsApi, open_clients
from karpenter_local.aws.account import Account
from karpenter_local.aws.faults import RefuseCall
from tests.unit.cloud.aws.world import _descriptions, embedded

TOKEN = "token of the service account"
HIDDEN = "/nowhere"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    """Return an account that nothing in the environment is told of, but for where it is."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", HIDDEN)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", HIDDEN)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", embedded().endpoint)
    return embedded().account(types=("m5.large",))


def session(region: str = "us-west-2") -> boto3.Session:
    """Return a session that knows only what its environment tells."""
    shared = Session()
    shared.register_component("data_loader", _descriptions())
    return boto3.Session(botocore_session=shared, region_name=region)


def asked(account: Account) -> list[str]:
    """Make a call with the current credentials, and return the calls of the account."""
    clients = open_clients(session())
    clients.call("ec2", "DescribeSubnets", {})
    clients.close()
    return [each.operation for each in account.calls()]


def role_of(account: Account) -> str:
    return f"arn:aws:iam::{account.number}:role/karpenter"


def test_keys_of_the_environment(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are set are used."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account.credentials["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.credentials["aws_secret_access_key"])

    assert asked(account) == ["DescribeSubnets"]


def test_the_role_of_a_service_account(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With IRSA, the token of the service account is exchanged for the credentials of its role."""
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", role_of(account))

    assert asked(account) == ["AssumeRoleWithWebIdentity", "DescribeSubnets"]
    assert account.calls("AssumeRoleWithWebIdentity")[0].parameters["WebIdentityToken"] == TOKEN


def test_a_role_that_may_not_be_assumed(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is missing is named: the right to assume the role, not whatever was asked for with it."""
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", role_of(account))
    account.faults.always("AssumeRoleWithWebIdentity", RefuseCall(code="AccessDenied", status=403))
    aws = AwsApi(open_clients(session()))

    with pytest.raises(AccessDenied, match="AssumeRoleWithWebIdentity"):
        aws._call("ec2", "DescribeSubnets", {}, [])
    aws.close()


def test_a_role_that_another_one_assumes(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A profile may name a role, and whose keys assume it."""
    keys = account.credentials
    (tmp_path / "config").write_text(
        f"[profile karpenter]\nrole_arn = {role_of(account)}\nsource_profile = base\n"
        f"[profile base]\naws_access_key_id = {keys['aws_access_key_id']}\naws_secret_access_key = none\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "karpenter")

    assert asked(account) == ["AssumeRole", "DescribeSubnets"]


class Agent(BaseHTTPRequestHandler):
    """The agent of Pod Identity on a node."""

    keys = ""
    tokens: list[str]

    def do_GET(self) -> None:
        """Give credentials in exchange for a token."""
        self.tokens.append(self.headers["Authorization"])
        told = {"AccessKeyId": self.keys, "SecretAccessKey": "x", "Token": "x"}
        body = json.dumps({**told, "Expiration": "2099-01-01T00:00:00Z"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def agent(account: Account) -> Iterator[tuple[str, list[str]]]:
    """Return where an agent listens, and the tokens that it was shown."""
    tokens: list[str] = []
    kind = type("Own", (Agent,), {"keys": f"ASIA{account.number}", "tokens": tokens})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/credentials", tokens
    server.shutdown()
    thread.join()
    server.server_close()


def test_pod_identity(
    account: Account,
    agent: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The agent on the node gives credentials for the token of the pod."""
    where, tokens = agent
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", where)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))

    assert asked(account) == ["DescribeSubnets"]
    assert tokens == [TOKEN]


def test_a_call_without_credentials_is_refused(account: Account) -> None:
    """Roles of accounts that do not exist cannot be assumed."""
    keys = account.credentials["aws_access_key_id"]
    sts = session().client("sts", aws_access_key_id=keys, aws_secret_access_key=keys)

    with pytest.raises(ClientError, match="AccessDenied"):
        sts.assume_role(RoleArn="arn:aws:iam::999999999999:role/other", RoleSessionName="own")
    stranger = session().client("sts", aws_access_key_id="AKIA999999999999", aws_secret_access_key="none")
    with pytest.raises(ClientError, match="AuthFailure"):
        stranger.get_caller_identity()


@pytest.mark.parametrize(
    ("setting", "host"),
    [
        pytest.param("", "https://ec2.us-east-2.amazonaws.com", id="the usual one"),
        pytest.param("AWS_USE_FIPS_ENDPOINT", "https://ec2-fips.us-east-2.amazonaws.com", id="FIPS"),
        pytest.param("AWS_USE_DUALSTACK_ENDPOINT", "https://ec2.us-east-2.api.aws", id="dual stack"),
    ],
)
def test_endpoints(account: Account, monkeypatch: pytest.MonkeyPatch, setting: str, host: str) -> None:
    """The SDK knows where its services are, also those for FIPS and for both versions of IP."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    if setting:
        monkeypatch.setenv(setting, "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account.credentials["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.credentials["aws_secret_access_key"])
    clients = open_clients(session("us-east-2"))

    assert clients.by_name["ec2"].meta.endpoint_url == host
    clients.close()
