"""What is missing is said before anything is made."""

from __future__ import annotations

from typing import Any, cast

from holdback.clusters.api import Api
from holdback.clusters.existing.permissions import missing
from holdback.clusters.kinds import ACCESS_REVIEWS, Kind
from holdback.errors import ClusterError

ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "kueue"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ours"}}


class FakeApi:
    """Allows what it is told to, and grants no roles when told so."""

    def __init__(self, *, refused: tuple[tuple[str, str], ...] = (("*", "*"),), grants: bool = True) -> None:
        self.refused = refused
        self.grants = grants
        self.tried: list[tuple[str, bool]] = []

    def create(self, kind: Kind, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        if kind == ACCESS_REVIEWS:
            asked = body["spec"]["resourceAttributes"]
            return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.refused}}
        self.tried.append((kind.kind, dry_run))
        if not self.grants:
            raise ClusterError("attempting to grant more than one has", status=403)
        return body


def test_an_administrator_is_asked_nothing_more() -> None:
    """Who may do everything may do this; nothing is tried."""
    api = FakeApi(refused=())
    assert missing(cast("Api", api), [ROLE, SECRET]) == []
    assert api.tried == []


def test_what_is_refused_is_named() -> None:
    """Each verb on each kind that is refused is told, with the namespace where there is one."""
    api = FakeApi(refused=(("*", "*"), ("create", "secrets"), ("delete", "clusterroles")))
    assert sorted(missing(cast("Api", api), [ROLE, SECRET])) == ["create secrets in ours", "delete clusterroles"]


def test_a_role_that_may_not_be_granted() -> None:
    """That a role grants more than we have is found by a dry run, and by nothing that stays."""
    api = FakeApi(grants=False)
    (told,) = missing(cast("Api", api), [ROLE, SECRET])
    assert told == "create ClusterRole kueue: attempting to grant more than one has"
    assert api.tried == [("ClusterRole", True)]
