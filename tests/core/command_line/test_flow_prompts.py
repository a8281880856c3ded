"""Answers to a config flow's form."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from core.command_line.flow_prompts import answer_form
from core.domain.errors import ConflictError, InvalidInputError

FORM: dict[str, Any] = {
    "type": "form",
    "fields": [
        {"name": "name", "type": "string", "required": True, "default": "Shaun"},
        {"name": "seed", "type": "integer", "required": True},
        {"name": "scale", "type": "float", "required": False},
        {"name": "rain", "type": "boolean", "required": True, "default": False},
        {"name": "pin", "type": "string", "format": "password", "required": False},
    ],
}


def test_words_are_converted_by_the_field():
    given = ["name=Max=1", "seed=7", "scale=1.5", "rain=yes"]
    assert answer_form(FORM, given, can_ask=False) == {"name": "Max=1", "seed": 7, "scale": 1.5, "rain": True}
    assert answer_form(FORM, [], can_ask=False) == {}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("colour=red", "colour: is no field of this form; it has: name, seed, scale, rain, pin"),
        ("name", "name: is no field"),
        ("seed=many", "seed: must be a number"),
        ("scale=x", "scale: must be a number"),
        ("rain=maybe", "rain: must be true or false"),
    ],
)
def test_words_that_do_not_fit(word: str, said: str):
    with pytest.raises(InvalidInputError) as caught:
        answer_form(FORM, [word], can_ask=False)
    assert said in caught.value.detail


def test_errors_of_the_form_end_a_script():
    wrong = {**FORM, "errors": {"seed": "already_taken", "base": "broken"}}
    with pytest.raises(InvalidInputError) as caught:
        answer_form(wrong, [], can_ask=False)
    assert [(m.field, m.reason) for m in caught.value.mistakes] == [("seed", "already_taken"), ("base", "broken")]


def test_a_menu():
    menu = {"type": "menu", "options": ["pair", "cloud"]}
    assert answer_form(menu, ["cloud"], can_ask=False) == {"next_step_id": "cloud"}
    for given in ([], ["other"], ["pair", "cloud"]):
        with pytest.raises(ConflictError, match="pair, cloud"):
            answer_form(menu, given, can_ask=False)


@pytest.mark.parametrize("kind", ["progress", "external"])
def test_a_step_for_a_browser(kind: str):
    with pytest.raises(ConflictError, match="needs the web app"):
        answer_form({"type": kind}, [], can_ask=True)


def ask(form: dict[str, Any], typed: str) -> tuple[dict[str, Any], Result]:
    """What a person's typing becomes."""
    found: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    def main() -> None:
        found.update(answer_form(form, [], can_ask=True))

    return found, CliRunner().invoke(app, [], input=typed)


def test_a_person_is_asked_for_every_field():
    found, result = ask(FORM, "\n7\n\ny\nsecret\n")
    assert result.exit_code == 0, result.output
    assert found == {"name": "Shaun", "seed": 7, "rain": True, "pin": "secret"}
    assert "secret" not in result.output


def test_a_person_sees_what_was_wrong_and_the_options():
    form = {
        "type": "form",
        "fields": [{"name": "model", "type": "select", "options": [["m1", "One"], ["m2", "Two"]], "required": True}],
        "errors": {"model": "[not] this"},
    }
    found, result = ask(form, "m2\n")
    assert found == {"model": "m2"}
    assert "model (m1, m2)" in result.output
    assert "model: [not] this" in result.output


def test_nobody_there_is_no_answer():
    found, result = ask(FORM, "")
    assert (found, result.exit_code) == ({}, 1)
