"""
A catalogue that is kept up to date while something runs for hours.

A catalogue of a file is read again after the file has changed. With live prices, AWS is asked at once and
then twice a day; where it does not answer, or there are no credentials, the catalogue of the region stays,
and :attr:`CurrentCatalog.problem` says why. Built-in catalogues change only with the product.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeAlias

from karpenter.cloud.catalogs.ec2.instancetypes import DEFAULT_REGION
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.catalogs.load import AWS, KWOK, load_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.core.model.catalog import Catalog

Prices: TypeAlias = "tuple[Catalog, Mapping[str, float]]"
"""A catalogue, and the fee of EKS Auto Mode for each instance type."""

_REFRESH_INTERVAL: Final = timedelta(hours=12)
_RETRY_INTERVAL: Final = timedelta(minutes=15)


class LivePricesFailed(RuntimeError):  # noqa: N818  reads as what happened
    """AWS does not tell its prices; the text is one sentence."""


def _now() -> datetime:
    return datetime.now(UTC)


def ask_aws(region: str) -> Prices:
    """
    Return what AWS sells in a region now, and its fees.

    Raises:
        LivePricesFailed: it does not tell.
    """
    from karpenter.cloud.catalogs.ec2 import refresh  # noqa: PLC0415  only live prices need the SDK

    try:
        with refresh.connected(region) as clients:
            found = refresh.described(clients, region, now=_now())
            return found, refresh.auto_fees(clients.pricing, region)
    except refresh.RefreshFailed as error:
        raise LivePricesFailed(str(error)) from error


class CurrentCatalog:
    """One catalogue by its name. Every method may block, so it is called in a thread."""

    def __init__(
        self,
        name: str,
        *,
        live: bool = False,
        ask: Callable[[str], Prices] = ask_aws,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """With `live`, prices are asked of AWS by `ask`, if the catalogue is one of a region."""
        self.name = name
        self.region = name.partition(":")[2] if name.partition(":")[0] == AWS else ""
        self.catalog: Catalog | None = None
        self.fees: Mapping[str, float] = {}
        """What EKS Auto Mode costs per hour by instance type, where AWS told it."""

        self.problem = ""
        """Why the catalogue is not as new as it should be; one sentence."""

        self.is_live = False
        """Whether the prices are those that AWS told."""

        self._ask, self._clock = ask, clock
        self._due = clock() if live and name.partition(":")[0] == AWS else None
        self._stamp = self._stamped()
        self._asking: Thread | None = None
        self._answer: Prices | LivePricesFailed | None = None

    def load(self) -> None:
        """
        Read the catalogue for the first time, without asking AWS.

        Raises:
            InvalidCatalog: there is none of this name, or the file is none.
        """
        self.catalog = load_catalog(self.name)

    def update(self, *, wait: bool = False) -> bool:
        """
        Read or ask again what is due; return whether the catalogue is another one now.

        AWS takes its time: its answer is taken when it is there, unless `wait`.
        """
        before = self.catalog
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self.load()
                self.problem = ""
            except InvalidCatalog as error:
                self.problem = f"the catalogue is the one from before its file changed: {error.problems[0]}"
        if self._asking is None and self._due is not None and self._clock() >= self._due:
            # A command that ends does not wait for a thread of this kind.
            self._asking = Thread(target=self._refresh, daemon=True)
            self._asking.start()
        if self._asking is not None:
            if wait:
                self._asking.join()
            if not self._asking.is_alive():
                self._asking = None
                found = self._answer
                assert found is not None
                if isinstance(found, LivePricesFailed):
                    self._due, self.problem = self._clock() + _RETRY_INTERVAL, f"prices are not live: {found}"
                else:
                    self.catalog, self.fees = found
                    self._due, self.is_live, self.problem = self._clock() + _REFRESH_INTERVAL, True, ""
        return self.catalog is not before

    def _refresh(self) -> None:
        try:
            self._answer = self._ask(self.region or DEFAULT_REGION)
        except LivePricesFailed as error:
            self._answer = error

    def _stamped(self) -> tuple[int, int] | None:
        """Return what changes with the file; None where there is none."""
        if self.name == KWOK or self.name.partition(":")[0] == AWS:
            return None
        try:
            found = Path(self.name).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
