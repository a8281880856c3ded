"""The pages as browsers get them: types, policy, caching; words in both languages; nothing from elsewhere."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest
from aiohttp.test_utils import TestClient, TestServer

from cloud_relay.edges.links import CODE_ALPHABET
from cloud_relay.pages.routes import ASSETS, PAGES, page_routes
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.route_table import full_path
from tests.cloud_relay.running_relay import running_relay
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.tokens import FakeVerifier

FOLDER = resources.files("cloud_relay.pages")
FILES = {**PAGES, **{f"/pages/{name}": name for name in ASSETS}}
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
SCRIPTS = [name for name in ASSETS if name.endswith(".js")]


def text_of(name):
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def words():
    """The table of texts by language."""
    table = re.search(r"^export const TEXTS = (\{.*\});$", text_of("texts.js"), re.DOTALL | re.MULTILINE)
    return json.loads(table[1])


@pytest.fixture
async def client():
    app = build_application(
        page_routes(),
        verifier=FakeVerifier(),
        authorizer=FakeAuthorizer(),
        clock=ManualClock(),
        host=HostInfo(kind="relay", version="0", name="Test relay"),
    )
    async with TestClient(TestServer(app)) as made:
        yield made


@pytest.mark.parametrize(("path", "name"), FILES.items())
async def test_a_file_is_served_with_its_type_and_policy(client, path, name):
    response = await client.get(path)
    assert response.status == 200
    assert await response.text() == text_of(name)
    assert response.content_type == TYPES[name.rpartition(".")[2]]
    assert response.charset == "utf-8"
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert policy == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("path", FILES)
async def test_head_says_the_same_without_the_file(client, path):
    got, headed = await client.get(path), await client.head(path)
    assert (headed.status, await headed.read()) == (200, b"")
    for name in ("Content-Type", "Content-Length", "ETag", "Cache-Control", "Content-Security-Policy"):
        assert headed.headers[name] == got.headers[name], name


@pytest.mark.parametrize("path", FILES)
async def test_browsers_ask_again_and_get_only_what_has_changed(client, path):
    first = await client.get(path)
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    for known in (tag, f'"other", W/{tag}'):
        again = await client.get(path, headers={"If-None-Match": known})
        assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", tag)
    changed = await client.get(path, headers={"If-None-Match": '"of-the-last-version"'})
    assert changed.status == 200


async def test_a_link_that_grew_parameters_still_opens_the_page(client):
    assert (await client.get("/link?code=BCDF-GHJK&utm_source=mail")).status == 200


async def test_pages_are_not_described_as_operations(client):
    document = await (await client.get("/api/v1/openapi.json")).json()
    assert not {full_path(route) for route in page_routes()} & document["paths"].keys()


async def test_a_relay_serves_the_address_that_a_box_shows(tmp_path):
    async with running_relay(tmp_path) as relay:
        ask = {"name": "Shed", "version": "0.1.0", "fingerprint": "fingerprint-of-box-1"}
        _, offer = await relay.call(None, "POST", "/edges/link", ask)
        for address in (offer["verification_uri"], offer["verification_uri_complete"], f"{relay.url}/"):
            async with relay.session.get(address) as answer:
                assert (answer.status, answer.content_type) == (200, "text/html")


def test_every_file_of_the_folder_is_served():
    shipped = {one.name for one in FOLDER.iterdir() if one.name.rpartition(".")[2] in TYPES}
    assert shipped == set(FILES.values())


def test_all_languages_have_the_same_texts_and_the_same_gaps():
    table = words()
    assert sorted(table) == ["de", "en"]
    assert list(table["de"]) == list(table["en"])
    for key, text in table["en"].items():
        assert text.strip()
        assert table["de"][key].strip()
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", table["de"][key])), key


def test_pages_and_table_know_the_same_keys():
    table = words()["en"]
    keys = set(table)
    shown = {key for name in PAGES.values() for key in re.findall(r'data-text="([^"]+)"', text_of(name))}
    assert shown - keys == set()
    code = "".join(text_of(name) for name in SCRIPTS if name != "texts.js")
    said = set(re.findall(r'"((?:[a-z]+\.)?[a-z]+(?:[.-][a-z]+)*)"', code)) & keys
    errors = {key for key in keys if key.startswith("error.")}  # chosen by place and code
    assert keys - shown - said - errors == set()
    assert [key for key in errors if not key.endswith(".hint") and f"{key}.hint" not in keys] == []


def test_errors_of_the_table_are_places_of_the_page_and_codes_of_the_api():
    codes = set(re.findall(r"^\| `([a-z-]+)` \|", _problems_document(), re.MULTILINE))
    codes |= set(re.findall(r'code: (?:navigator.onLine \? )?"([a-z]+)"', text_of("relay.js") + text_of("link.js")))
    codes |= {"offline"}
    places = set(json.loads(re.search(r"STEPS = (\[.*\]);", text_of("link.js"))[1]))
    for key in words()["en"]:
        parts = key.removesuffix(".hint").split(".")
        if parts[0] == "error":
            assert parts[-1] in codes, key
            assert set(parts[1:-1]) <= places, key


def _problems_document():
    return (resources.files("cloud_relay").joinpath("..", "docs", "problems.md")).read_text(encoding="utf-8")


def test_the_page_knows_the_letters_of_codes():
    pattern = re.search(r"CODE = /(.*)/;", text_of("link.js"))[1]
    assert pattern == f"^[{CODE_ALPHABET}]{{4}}-[{CODE_ALPHABET}]{{4}}$"


@pytest.mark.parametrize("name", FILES.values())
def test_nothing_from_elsewhere_and_nothing_inline(name):
    text = text_of(name)
    assert not re.search(r"(?i)https?:|//[a-z0-9-]+\.[a-z]", text)
    assert not re.search(r"(?i)\burl\(|@import|\bdata:", text)
    for word in ("localStorage", "sessionStorage", "indexedDB", "document.cookie", "innerHTML", "outerHTML", "eval("):
        assert word not in text
    if name.endswith(".html"):
        assert not re.search(r"(?i)<style|\sstyle=|\son[a-z]+=", text)
        assert re.findall(r"<script(?![^>]* src=\"/pages/)[^>]*>", text) == []
        loaded = re.findall(r'(?:src|href)="(/pages/[^"]+)"', text)
        assert set(loaded) <= FILES.keys()


def test_every_field_has_a_label_and_no_form_would_put_a_password_into_the_address():
    text = text_of("link.html")
    for field in re.findall(r"<(?:input|select)\b[^>]*>", text):
        name = re.search(r'\bid="([^"]+)"', field)
        is_labelled = name is not None and f'<label for="{name[1]}"' in text
        assert is_labelled or " hidden" in field or "checkbox" in field, field
    for form in re.findall(r"<form\b[^>]*>", text):
        assert 'method="post"' in form
    for described in re.findall(r'aria-describedby="([^"]+)"', text):
        assert f'id="{described}"' in text
