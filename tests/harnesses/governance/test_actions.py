"""The classifier of dangerous commands: every case of the table, and every case in every wrapper."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance.actions import UNREADABLE, Category, classify, protected_path, read_only_violations
from harnesses.governance.actions.cursor import MAX_TEXT
from harnesses.pipeline.parts import FOLDER
from tests.harnesses.governance.action_cases import ALLOW, BLOCK
from tests.harnesses.governance.shell_proof import prove
from tests.harnesses.governance.shell_scripts import BASH

WHOLE = [text for _, text, category in BLOCK if category != UNREADABLE and "\n" not in text and "#" not in text]
"""Blocked commands that stay commands when something stands around them."""
WRAPPERS = (
    "{}",
    "  {}",
    "\n\n{}\n",
    "true; {}",
    "true && {}",
    "false || {}",
    "ls | cat; {}",
    "{} ; true",
    "{} && echo done",
    "( {} )",
    "{{ {}; }}",
    "if true; then {}; fi",
    "for i in 1 2; do {}; done",
    "while true; do {}; done",
    "case a in a) {};; esac",
    "f() {{ {}; }}; f",
    "echo $( {} )",
    'echo "x $( {} )"',
    "x=$( {} )",
    "cat <( {} )",
    "true &\n{} &",
    "# harmless\n{}",
    "time {}",
    "! {}",
)
QUOTING = (
    "bash -c {}",
    "sh -lc {}",
    "/usr/bin/env bash -ec {}",
    "sudo -n bash -c {}",
    "timeout 5 sh -c {}",
    "nohup sh -c {} &",
    "env A=1 B=2 sh -c {}",
    "eval {}",
    "python3 -c 'import os; os.system({})'",
    "echo {} | sh",
    "printf '%s' {} | bash -s",
    "xargs -I% sh -c {} < list",
    "find . -exec sh -c {} \\;",
    "bash <<< {}",
    "su -c {} root",
    "trap {} EXIT",
    "watch -n 1 {}",
    "git -c alias.x=!{} x",
    "docker exec box sh -c {}",
)
SPEAKING = (
    "echo {}",
    "printf '%s\\n' {}",
    "grep -rn {} .",
    "git commit -m {}",
    "git log --grep {}",
    "rg -F {} docs",
    "python -c 'print(1)' {}",
    "pytest -k {}",
    "jq -n --arg x {} '$x'",
    "test -n {}",
    "cat <<< {}",
    "cat > notes.txt <<< {}",
    "case {} in x) ls;; esac",
    "x={}; ls",
    "gh pr view 1 --jq {}",
)


def lines(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("text", "category"), [pytest.param(text, category, id=id) for id, text, category in BLOCK])
def test_what_is_dangerous_is_blocked(text: str, category: str) -> None:
    assert category in {finding.category for finding in classify(text)}


@pytest.mark.parametrize("text", [pytest.param(text, id=id) for id, text in ALLOW])
def test_what_is_not_dangerous_is_allowed(text: str) -> None:
    assert classify(text) == ()


def test_a_corpus_of_dangerous_commands_is_blocked() -> None:
    corpus = lines("commands_blocked.txt")

    assert [text for text in corpus if not classify(text)] == []
    assert len(corpus) > 500


def test_a_corpus_of_everyday_commands_is_allowed() -> None:
    corpus = lines("commands_allowed.txt")

    assert [text for text in corpus if classify(text)] == []
    assert len(corpus) > 500


def test_every_category_has_cases_of_its_own() -> None:
    assert {category for _, _, category in BLOCK} == {*Category, UNREADABLE}
    assert len({id for id, *_ in BLOCK}) == len(BLOCK) >= 80
    assert len({id for id, *_ in ALLOW}) == len(ALLOW) >= 80


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_is_blocked_stays_so_among_other_commands(wrapper: str) -> None:
    passed = [text for text in WHOLE if not classify(wrapper.format(text))]

    assert passed == []


@pytest.mark.parametrize("wrapper", QUOTING)
def test_what_is_blocked_stays_so_in_the_words_of_a_program_that_runs_them(wrapper: str) -> None:
    passed = [text for text in WHOLE if not classify(wrapper.format(_quoted(text, wrapper)))]

    assert passed == []


@pytest.mark.parametrize("speaking", SPEAKING)
def test_what_is_only_spoken_of_is_allowed(speaking: str) -> None:
    blocked = [text for _, text, _ in BLOCK if text.isprintable() and classify(speaking.format(shlex.quote(text)))]

    assert blocked == []


@given(text=st.sampled_from(WHOLE), wrappers=st.lists(st.sampled_from((*WRAPPERS, *QUOTING[:7])), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_what_is_blocked_stays_so_in_wrappers_within_wrappers(text: str, wrappers: list[str]) -> None:
    for wrapper in wrappers:
        text = wrapper.format(shlex.quote(text) if wrapper in QUOTING else text)

    assert classify(text) != ()


@given(text=st.text(alphabet="rm -f/;|&()<>{}$`'\"\\\n#=*![]abc~", max_size=60))
@settings(max_examples=400, deadline=None)
def test_no_text_has_it_crash(text: str) -> None:
    assert isinstance(classify(text), tuple)
    assert isinstance(read_only_violations(text), tuple)


@given(text=st.sampled_from([text for _, text in ALLOW]), spaces=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_what_is_allowed_stays_so_with_blanks_around_it(text: str, spaces: int) -> None:
    assert classify(f"{' ' * spaces}{text}{chr(10) * spaces}") == ()


@pytest.mark.skipif(not BASH.exists(), reason="there is no bash to compare with")
def test_nothing_that_bash_runs_is_missed() -> None:
    figures = prove(400, seed=7)

    assert figures.missed == ()
    assert figures.ran > 50


def test_words_without_a_shell_are_data() -> None:
    assert classify(["echo", "x; rm -rf /"]) == ()
    assert classify(["git", "commit", "-m", "$(rm -rf /)"]) == ()


def test_words_without_a_shell_are_judged_by_the_program() -> None:
    assert [finding.category for finding in classify(["rm", "-rf", "src"])] == ["broad-delete"]
    assert classify(["bash", "-c", "rm -rf src"]) != ()


def test_a_finding_shows_the_part_that_it_is_about() -> None:
    (finding,) = classify("ls && git reset --hard; ls")

    assert finding.part == "git reset --hard"
    assert "not committed" in finding.why


def test_folders_that_may_go_are_named_by_whoever_runs_it() -> None:
    may_go = {"build", "node_modules"}

    assert classify("rm -rf build web/node_modules", disposable=may_go) == ()
    assert classify("rm -rf build src", disposable=may_go) != ()
    assert classify("rm -rf /build", disposable=may_go) != ()
    assert classify("rm -rf ../build", disposable=may_go) != ()
    assert classify("rm -rf $X/build", disposable=may_go) != ()


def test_a_text_too_long_to_judge_is_blocked() -> None:
    assert [finding.category for finding in classify("echo " + "x" * 200_000)] == [UNREADABLE]


def test_commands_nested_without_end_are_blocked() -> None:
    text = "$(" * 500 + "ls" + ")" * 500

    assert UNREADABLE in {finding.category for finding in classify(text)}


def test_a_protected_path_is_told_with_the_reason() -> None:
    found = protected_path("deploy/.env.production")

    assert found is not None
    assert found.category == Category.SECRET_WRITE
    assert protected_path("src/environment.py") is None


def test_of_a_run_folder_only_where_work_is_handed_in_may_be_written() -> None:
    run = f"{FOLDER}/2026-01-31-slug"

    assert protected_path(f"{run}/tasks/07-code/builder.json") is None
    assert protected_path(f"{run}/artifacts/stages/07-code/code.json") is None
    assert protected_path(f"{run}/evidence.jsonl") is not None
    assert protected_path(f"{run}/artifacts/../manifest.json") is not None


def _quoted(text: str, wrapper: str) -> str:
    if "os.system" in wrapper:
        # Within the single quotes of the shell: a string of Python that has none.
        return '"' + "".join(f"\\x{ord(char):02x}" if char in "'\"\\" else char for char in text) + '"'
    return shlex.quote(text)


@pytest.mark.parametrize("unit", ["{a,b}", "$((", "(("])
def test_no_text_takes_long_to_judge(unit: str) -> None:
    text = (unit * MAX_TEXT)[: MAX_TEXT - 1]

    began = time.process_time()
    classify(text)

    assert time.process_time() - began < 15
