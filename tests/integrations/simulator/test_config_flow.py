from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import voluptuous as vol

import integrations.simulator
from core.domain.geo import distance_m
from core.domain.ids import EntryId, FlowId
from core.platform.fields import serialize_schema
from core.platform.flow import AbortFlowError, AbortResult, CreateEntryResult, FlowContext, FormResult
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import read_manifest
from integrations.simulator.config_flow import CONNECTION_SCHEMA, RECONFIGURE_SCHEMA, USER_SCHEMA, SimulatorFlow
from integrations.simulator.settings import SimulatorSettings
from tests.fakes.clock import ManualClock

FOLDER = Path(integrations.simulator.__file__).parent


class Director:
    """What the flow asks of the director."""

    def __init__(self) -> None:
        self.claimed: list[str] = []
        self.updated: dict[str, Any] = {}
        self.is_taken = False

    async def claim_unique_id(self, flow_id, unique_id, *, updates, raise_on_progress, same=None):
        if self.is_taken:
            raise AbortFlowError("already_configured")
        self.claimed.append(unique_id)

    async def update_entry(self, entry, *, title, data, options, secrets, unique_id=None):
        self.updated = {"title": title, "data": data, "options": options, "secrets": secrets}


def flow(director: Director, entry: Entry | None = None) -> SimulatorFlow:
    async def http():
        raise AssertionError("the simulator needs no HTTP")

    return SimulatorFlow(
        FlowContext(
            flow_id=FlowId("f1"),
            domain="simulator",
            source="user" if entry is None else "reconfigure",
            details={},
            entry=entry,
            clock=ManualClock(),
            log=logging.LoggerAdapter(logging.getLogger("flow"), {}),
            http=http,
            port=director,
        )
    )


def made(title: str, data: dict[str, Any], options: dict[str, Any]) -> Entry:
    return Entry(
        entry_id=EntryId("e1"), domain="simulator", unique_id="seed-7", title=title, data=data, options=options
    )


async def test_a_person_adds_two_mowers():
    director = Director()
    subject = flow(director)
    form = await subject.step_user(None)
    assert isinstance(form, FormResult)
    assert form.errors == {}
    answer = await subject.step_user(USER_SCHEMA({"name": " Park ", "seed": 7, "mowers": 2, "time_scale": 30}))
    assert isinstance(answer, CreateEntryResult)
    assert answer.title == "Park"
    assert director.claimed == ["seed-7"]
    settings = SimulatorSettings.of(made(answer.title, answer.data, answer.options))
    assert (settings.name, settings.seed, settings.mowers, settings.time_scale) == ("Park", 7, 2, 30)
    assert settings.stuck_per_hour == 0, "trouble only when it is asked for"


@pytest.mark.parametrize(
    ("wrong", "errors"),
    [
        ({"time_zone": "Mars/Base"}, {"time_zone": "unknown_time_zone"}),
        ({"name": "   "}, {"name": "invalid_name"}),
        ({"name": "x" * 65, "time_zone": "../etc"}, {"name": "invalid_name", "time_zone": "unknown_time_zone"}),
        ({"lat": float("nan"), "lon": 1.0}, {"base": "invalid_settings"}),
        ({"lat": 48.1}, {"lon": "half_a_place"}),
        ({"lon": 11.5}, {"lat": "half_a_place"}),
    ],
)
async def test_mistakes_stand_beside_their_fields(wrong, errors):
    director = Director()
    values = {**USER_SCHEMA({}), **wrong}
    form = await flow(director).step_user(values)
    assert isinstance(form, FormResult)
    assert form.errors == errors
    assert director.claimed == []


async def test_a_place_of_ones_own():
    answer = await flow(Director()).step_user(USER_SCHEMA({"seed": 7, "lat": 48.1, "lon": 11.5}))
    assert isinstance(answer, CreateEntryResult)
    assert answer.data["origin"] == {"lat": 48.1, "lon": 11.5}


def test_gardens_of_different_seeds_do_not_lie_on_each_other():
    origins = [SimulatorSettings.of(made("x", {"seed": seed}, {})).origin for seed in range(1, 9)]
    assert all(distance_m(a, b) > 50 for i, a in enumerate(origins) for b in origins[:i])


async def test_the_same_seed_is_not_added_twice():
    director = Director()
    director.is_taken = True
    with pytest.raises(AbortFlowError):
        await flow(director).step_user(USER_SCHEMA({}))


async def test_reconfigure_changes_how_it_behaves_and_not_who_it_is():
    director = Director()
    entry = made("Park", {"seed": 7, "name": "Park"}, {"time_scale": 2.0, "report_interval_s": 0.5})
    subject = flow(director, entry)
    form = await subject.step_reconfigure(None)
    assert isinstance(form, FormResult)
    assert {f["name"]: f.get("suggested_value") for f in form.fields}["time_scale"] == 2.0
    wrong = await subject.step_reconfigure({**RECONFIGURE_SCHEMA({}), "time_zone": "Nowhere"})
    assert isinstance(wrong, FormResult)
    assert wrong.errors == {"time_zone": "unknown_time_zone"}
    done = await subject.step_reconfigure(RECONFIGURE_SCHEMA({"time_scale": 60, "rain": True}))
    assert done == AbortResult(reason="reconfigure_successful")
    assert director.updated["data"] is None
    assert director.updated["options"]["time_scale"] == 60
    assert director.updated["options"]["report_interval_s"] == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_scale": float("nan")},
        {"time_scale": "30"},
        {"time_scale": True},
        {"time_scale": 0.05},
        {"mowers": 1.5},
        {"seed": -1},
        {"rain": "yes"},
        {"origin": {"lat": 91, "lon": 0}},
        {"origin": {"lat": 52}},
        {"model": "Meadow 9000"},
        {"password": "x"},
    ],
)
def test_a_relay_cannot_send_nonsense(wrong):
    with pytest.raises(vol.Invalid):
        CONNECTION_SCHEMA(wrong)


def test_a_relay_may_send_nothing_at_all():
    settings = SimulatorSettings.of(made("x", CONNECTION_SCHEMA({}), {}))
    assert settings.mowers == 1
    assert settings.time_scale == 1
    assert not settings.follows_schedule


async def test_the_loader_takes_the_folder():
    loaded = await Loader().load("simulator")
    assert loaded.flow_class is SimulatorFlow
    assert loaded.connection_schema is CONNECTION_SCHEMA
    assert set(loaded.translations) == {"en", "de"}


def texts(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name).read_text("utf-8"))


def shape(tree: Any) -> Any:
    return {key: shape(value) for key, value in tree.items()} if isinstance(tree, dict) else str


def test_both_languages_say_everything():
    english = texts("strings.json")
    assert shape(english) == shape(texts("translations/de.json"))
    steps = english["config"]["step"]
    for step, schema in (("user", USER_SCHEMA), ("reconfigure", RECONFIGURE_SCHEMA)):
        assert set(steps[step]["data"]) == {field["name"] for field in serialize_schema(schema)}


def test_the_manifest_names_what_is_there():
    manifest = read_manifest(FOLDER)
    assert manifest.requirements == ()
    assert (FOLDER / "README.md").is_file()
    readme = (FOLDER / "README.md").read_text("utf-8")
    for key in CONNECTION_SCHEMA.schema:
        assert f"`{key.schema}`" in readme, f"{key.schema} is not in the README"


def test_only_the_link_waits():
    for file in FOLDER.glob("*.py"):
        if file.name not in {"link.py"}:
            assert "import asyncio" not in file.read_text("utf-8"), file.name
