"""Catalogues that are kept up to date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from karpenter.cloud.catalogs.current import CurrentCatalog, LivePricesFailed, Prices, ask_aws
from karpenter.cloud.catalogs.load import load_catalog
from tests.unit.cloud.catalogs.ec2.small_region import small_region
from tests.unit.why.clusters import write_catalogue

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)


class Asking:
    """An AWS that tells its prices, or does not, and a clock."""

    def __init__(self, *, fails: bool = False) -> None:
        self.now, self.fails = NOW, fails
        self.regions: list[str] = []

    def ask(self, region: str) -> Prices:
        self.regions.append(region)
        if self.fails:
            raise LivePricesFailed("no AWS credentials were found")
        return load_catalog("aws:eu-west-1"), {"m5.large": 0.01}

    def source(self, name: str, *, live: bool = True) -> CurrentCatalog:
        found = CurrentCatalog(name, live=live, ask=self.ask, clock=lambda: self.now)
        found.load()
        return found


def priced(source: CurrentCatalog) -> float:
    """Return the lowest price of the catalogue."""
    assert source.catalog is not None
    return min(each.price for kind in source.catalog.types for each in kind.offerings)


def test_a_file_is_read_again_after_it_changed(tmp_path: Path) -> None:
    """A file that did not change is not read; one that is broken leaves what was, and says so."""
    file = Path(write_catalogue(tmp_path))
    text, source = file.read_text(), CurrentCatalog(str(file))
    source.load()
    assert (source.update(), priced(source)) == (False, 0.025)
    file.write_text(text.replace("0.025", "0.0125"))
    assert (source.update(), priced(source)) == (True, 0.0125)
    file.write_text("nothing")
    assert (source.update(), priced(source)) == (False, 0.0125)
    assert source.problem.startswith("the catalogue is the one from before its file changed: ")
    file.write_text(text)
    assert (source.update(), priced(source), source.problem) == (True, 0.025, "")
    file.unlink()
    assert (source.update(), priced(source)) == (False, 0.025)
    assert source.problem


@pytest.mark.parametrize(
    ("name", "live", "asked"),
    [
        pytest.param("aws:eu-west-1", True, ["eu-west-1"], id="a region"),
        pytest.param("aws", True, ["us-east-1"], id="the default region"),
        pytest.param("aws", False, [], id="live prices are not wanted"),
        pytest.param("kwok", True, [], id="the cloud in memory"),
    ],
)
def test_aws_is_asked_twice_a_day(name: str, live: bool, asked: list[str]) -> None:
    """Where live prices are wanted, AWS is asked at once and every twelve hours."""
    aws = Asking()
    source = aws.source(name, live=live)
    assert source.update(wait=True) is bool(asked and name == "aws")
    aws.now += timedelta(hours=11)
    source.update(wait=True)
    assert (aws.regions, source.is_live, source.problem) == (asked, bool(asked), "")
    aws.now += timedelta(hours=1)
    source.update(wait=True)
    assert aws.regions == asked * 2
    assert bool(source.fees) is bool(asked)


def test_without_credentials_the_catalogue_stays() -> None:
    """Why prices are not live is said, and AWS is asked again after a while."""
    aws = Asking(fails=True)
    source = aws.source("aws")
    assert not source.update(wait=True)
    assert source.problem == "prices are not live: no AWS credentials were found"
    assert not source.is_live
    aws.now += timedelta(minutes=14)
    source.update(wait=True)
    assert len(aws.regions) == 1
    aws.now, aws.fails = aws.now + timedelta(minutes=1), False
    assert source.update(wait=True)
    assert (source.is_live, source.problem) == (True, "")


def test_aws_tells_prices_and_fees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over real HTTP, with the SDK: the catalogue of the moment, and the fees of EKS Auto Mode."""
    with small_region(monkeypatch) as aws:
        catalog, fees = ask_aws("eu-west-1")
        questions = aws.questions("GetProducts")
        aws.refusals["GetProducts"] = "AccessDenied"
        with pytest.raises(LivePricesFailed, match="AccessDenied"):
            ask_aws("eu-west-1")
    assert list(catalog.by_name) == ["brand9.new", "m5.large"]
    assert fees["m5.large"] == 0.107
    asked = [{each["Field"]: each["Value"] for each in question["Filters"]} for question in questions]
    assert {"regionCode": "eu-west-1", "operation": "EKSAutoUsage"} in asked
