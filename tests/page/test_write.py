"""The page of `eniac report`, as a file: what is in it, and that nothing else can be."""

import base64
import hashlib
import itertools
import json
import re

import numpy as np
import pytest

from eniac import ConfigError, RunError, compare_runs, load_run, write_report
from eniac.cli.main import main
from eniac.page import write
from eniac.page.markup import prose, script_json, tag
from eniac.report.coverage import visits_of
from eniac.report.numbers import spans
from eniac.report.pictures import bonus_values, some_actions
from eniac.report.views import view_of
from eniac.runs.program import take_seed
from fake_pages import Page, write_claims, write_figures, write_result, write_runs
from fake_runs import write_run


def made(*paths, out, **options):
    """The page of these folders, and what is not in it."""
    report = write_report(paths, out / "page.html", **{"in_detail": 0, **options})
    assert report.path.stat().st_size < write.LARGEST
    return Page(report.path), report.problems


def rows_of(page, caption):
    """The cells of the table with this caption."""
    text = page.text[page.text.index(f"<caption>{caption}") :]
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("</tr>")[:-1])
    return [[re.sub("<[^>]+>", "", cell) for cell in row] for row in cells]


def test_a_page_is_whole_and_can_be_read_without_seeing_it(tmp_path):
    results = write_claims(write_figures(tmp_path / "results"))
    page, _ = made(write_runs(tmp_path / "runs"), results, out=tmp_path)
    assert page.text.startswith('<!doctype html>\n<html lang="en">')
    assert len(page.all("h1")) == len(page.all("main")) == 1
    levels = [int(x["tag"][1]) for x in page.elements if re.fullmatch("h[1-6]", x["tag"])]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [x["id"] for x in page.elements if "id" in x]
    assert len(set(ids)) == len(ids)
    targets = [x["href"][1:] for x in page.all("a")]
    assert len(targets) > 6
    assert set(targets) <= set(ids)
    for section in page.all("section"):
        assert section["aria-labelledby"] in ids
    assert all(x["text"] for name in ("caption", "summary", "legend") for x in page.all(name))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(x.get("scope") in ("col", "row") for x in page.all("th"))
    # What scrolls by itself can be reached with the keyboard.
    assert all(
        x["tabindex"] == "0" and x["aria-label"]
        for x in page.elements
        if x.get("class") == "scroll"
    )
    # Beside each picture there is a table of the same.
    pictures = [x for x in page.all("div") if "data-curves" in x]
    assert len(pictures) == page.text.count("The same as a table") == 2


def test_a_page_needs_nothing_else(tmp_path):
    page, _ = made(write_runs(tmp_path / "runs"), out=tmp_path)
    for element in page.elements:
        assert not {"src", "srcset", "action", "style"} & element.keys()
        assert not [name for name in element if name.startswith("on")]
        assert element.get("href", "#").startswith(("#", "data:,"))
    (style,) = page.all("style")
    assert not re.search(r"url\(|@import", style["text"])
    # A browser runs the one script that has this hash.
    (rule,) = [x["content"] for x in page.all("meta") if "http-equiv" in x]
    data, script = page.all("script")
    assert (data["type"], script.keys()) == ("application/json", {"tag", "text"})
    for text in (style["text"], script["text"]):
        mark = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{mark}'" in rule
    assert rule.startswith("default-src 'none'")
    assert "unsafe" not in rule


EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def test_names_in_files_stay_text(tmp_path):
    run = write_run(tmp_path / EVIL.replace("/", ""), [[1.0], [2.0]], EVIL, env=EVIL)
    manifest = {"sessions": [{"versions": {EVIL: EVIL}}], "ended": EVIL}
    (run / "manifest.json").write_text(json.dumps(manifest))
    results = write_claims(tmp_path / "results", claim=EVIL, verdict=EVIL, command=EVIL)
    write_result(results, 0, task="lock", algorithm="x", command=EVIL, flags=[EVIL])
    page, _ = made(run, results, out=tmp_path)
    assert len(page.all("script")) == 2
    assert page.all("img") == []
    shown = "".join(x["text"] for x in page.all("td") + page.all("th"))
    assert shown.count(EVIL) > 4
    assert any(EVIL in panel["environment"] for panel in page.data["panels"])


def test_text_is_escaped_wherever_it_stands():
    assert tag("p", "<&>", title='"<') == '<p title="&quot;&lt;">&lt;&amp;&gt;</p>'
    assert tag("input", type="radio", checked=True, hidden=False) == '<input type="radio" checked>'
    assert prose("run `a < b` now") == "run <code>a &lt; b</code> now"
    text = {"<!--": "</script>\u2028&"}
    assert not set("<>&\u2028") & set(script_json(text))
    assert json.loads(script_json(text)) == text


def test_the_numbers_are_those_of_the_commands(tmp_path):
    runs = write_runs(tmp_path / "runs")
    page, _ = made(runs, out=tmp_path)
    told = compare_runs([runs / "eniac", runs / "ppo"])
    (place,) = told["environments"]
    shown = {row[1]: row for row in rows_of(page, "At the end: return") if row[0] == "Chain-4"}
    for row in place["methods"]:
        low, high = row["iqm_interval"]
        assert shown[row["method"]][2:4] == [
            str(row["seeds"]),
            f"{row['iqm']:.3g} [{low:.2g}, {high:.2g}]",
        ]
    assert shown["eniac"][4:6] == ["8", "3/3 [0.44, 1]"]
    assert told["pairs"][0]["sentence"] in page.text.replace("&#x27;", "'")
    chain, sea = page.data["panels"]
    assert (chain["environment"], chain["threshold"]) == ("Chain-4", 8)
    eniac, _ = chain["methods"]
    assert (eniac["steps"], eniac["mean"], eniac["spread"][0]) == ([10, 20, 30], [0, 6, 10], 0)
    assert [x["values"] for x in eniac["seeds"]] == [[0, 5, 9], [0, 6, 10], [0, 7, 11]]
    assert (sea["methods"][0]["low"], sea["methods"][0]["iqm"]) == (None, [0.5, 1.0])


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    runs = [
        write_run(tmp_path / f"runs/{k}", [[float(n) for n in range(700)]] * 8, f"a{k}")
        for k in range(20)
    ]
    page, _ = made(*runs, out=tmp_path)
    (panel,) = page.data["panels"]
    assert len(panel["methods"]) == 20
    assert "More than 6 methods are not compared pair by pair" in page.text
    for line in (panel["methods"][3], panel["methods"][3]["seeds"][2]):
        assert line["steps"][0] == 10
        assert line["steps"][-1] == 7000
        assert 24 <= len(line["steps"]) <= 200


def test_results_go_together_as_in_the_tables_that_are_made_of_them(tmp_path):
    results = tmp_path / "results"
    for seed in range(3):
        write_result(results, seed, "eniac", version="0.1.0" if seed else "0.2.0")
        write_result(results, seed, "ppo", settings="aa" if seed else "bb")
    write_result(results, 0, "eniac", flags=["--restart", "0"], task="lock-10")
    page, problems = made(results, out=tmp_path)
    lock_10, lock_5 = page.data["panels"]
    names = {m["name"]: len(m["seeds"]) for m in lock_5["methods"]}
    assert names == {"eniac": 3, "ppo": 2}
    assert lock_10["methods"][0]["name"] == "eniac+restart-0"
    assert problems == [
        "lock-5 eniac mixes versions: eniac 0.1.0 (seeds 1-2), eniac 0.2.0 (seed 0)",
        "lock-5 ppo: seed 0 left out, made with other settings than the rest",
    ]
    assert all(text in page.text for text in problems)
    (row,) = [x for x in rows_of(page, "At the end: return") if x[:2] == ["lock-5", "eniac"]]
    assert row[4:6] == ["3.8", "2/3 [0.21, 0.94]"]
    made_by = rows_of(page, "How the results were made")
    assert ["lock-5", "eniac", "0-2", "eniac train eniac --return-above 3.8"] in made_by


def test_runs_of_other_versions_are_told_apart(tmp_path):
    for seed, version in enumerate(("0.1.0", "0.2.0")):
        run = write_run(tmp_path / f"runs/{seed}", [[1.0, 2.0]], first_seed=seed)
        manifest = {"sessions": [{"versions": {"eniac": version}}]}
        (run / "manifest.json").write_text(json.dumps(manifest))
    page, problems = made(tmp_path / "runs", out=tmp_path)
    names = [m["name"] for m in page.data["panels"][0]["methods"]]
    assert names == ["ppo made_with=0.1.0", "ppo made_with=0.2.0"]
    assert any("made by eniac 0.1.0 and 0.2.0; their numbers" in text for text in problems)


def test_the_theorys_results_are_shares_of_the_optimum(tmp_path):
    results = tmp_path / "results"
    curve = {"env_steps": [10, 20], "share/last": [0.5, 0.9]}
    for seed in range(2):
        write_result(results, seed, "eniac-spi-sample", task="chain-5", curve=curve)
    page, _ = made(results, out=tmp_path)
    (panel,) = page.data["panels"]
    assert "share of the optimum" in panel["label"]
    assert panel["methods"][0]["iqm"] == [0.5, 0.9]


def test_claims_and_figures_of_results_are_shown(tmp_path):
    results = write_claims(write_figures(tmp_path / "results"))
    page, problems = made(results, out=tmp_path)
    assert problems == []
    assert "1 held, of 1." in page.text
    (row,) = rows_of(page, "What was claimed")
    assert row[0] == "ENIAC opens the lockabove 0.7: share of seeds"
    assert row[2:4] == ["held", "length 5: 10 of 10 [0.72, 1]length 10: 10 of 10 [0.72, 1]"]
    (place,) = page.data["places"]
    assert (place["epochs"], place["bonus"]) == ([1, 2, 3], [None] * 3)
    assert grid_of(place["cover"][0])[3, 2:5].tolist() == [10, 10, 10]
    (both,) = page.data["figures3"]
    assert both["smoothness"]["kernel"] < 1e-6 < both["smoothness"]["width"]
    assert both["bonuses"]["width"]["shape"] == [30, 30]


def grid_of(counts):
    """Counts that were written as pairs of a gap and a count."""
    gaps, numbers = np.array(counts["pairs"]).reshape(-1, 2).T
    grid = np.zeros(np.prod(counts["shape"]), int)
    grid[np.cumsum(gaps + 1) - 1] = numbers
    return grid.reshape(counts["shape"])


def test_what_checkpoints_say_is_shown_and_what_was_not_kept_is_told(kept_car, tmp_path):
    page, problems = made(kept_car, out=tmp_path, in_detail=1, seed=1, episodes=2)
    run = load_run(kept_car)
    state, view = take_seed(run.states, 1), view_of(run.env)
    (place,) = page.data["places"]
    assert place["epochs"] == [1, 2, 3, 4]
    assert [x is None for x in place["cover"]] == [False, False, False, True]
    for name in ("exploiting", "bonus"):
        assert [x is None for x in place[name]] == [False, True, True, False]
    np.testing.assert_array_equal(
        grid_of(place["cover"][1]), view.count(visits_of(run, state)[1:2])
    )
    values = bonus_values(state.bonus, view.observations, some_actions(run.env.action_space))
    shown = place["bonus"][-1]
    parts = np.frombuffer(base64.b64decode(shown["parts"]), np.uint8).reshape(shown["shape"])
    np.testing.assert_allclose(
        parts / 255 * shown["largest"],
        view.bonus_grid(values)[::2, ::2],
        atol=shown["largest"] / 500,
    )
    (told,) = place["missing"]
    assert told.startswith("Of epochs 2-3 no checkpoint was kept")
    assert f"eniac train {kept_car}/config.json --checkpoint-every 1 --keep 5" in told
    assert [row[0] for row in rows_of(page, f"{kept_car}, seed 1, epoch 4")][-2:] == [
        "exploiting",
        "incumbent",
    ]
    assert rows_of(page, f"Checks of {kept_car}")
    assert any("manifest.json is missing" in text for text in problems)


def test_a_run_that_cannot_be_loaded_keeps_its_curves(tmp_path):
    run = write_run(tmp_path / "run", [[1.0], [2.0]], name="eniac")
    page, problems = made(run, out=tmp_path, in_detail=1)
    assert page.data["panels"]
    assert any(f"Only the logs of {run} could be read" in text for text in problems)


def test_epochs_are_told_in_spans():
    assert spans([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"


# Errors


def test_what_cannot_be_reported_is_told(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    young = tmp_path / "young"
    young.mkdir()
    (young / "config.json").write_text('{"algorithm": {"name": "ppo"}, "env": "Chain-4"}')
    (young / "metrics.jsonl").write_text("")
    run = write_run(tmp_path / "run", [[1.0], [2.0]])
    twice = write_run(tmp_path / "twice", [[1.0], [2.0]])
    for words, *arguments in (
        ("Report what?",),
        ("nowhere does not exist", str(tmp_path / "nowhere")),
        ("there is nothing to report in", str(tmp_path / "empty")),
        ("has no epoch in metrics.jsonl", str(young)),
        ("out is 'x.pdf'; it must be a name that ends in .html", str(run), "--out", "x.pdf"),
        ("Did you mean 'return_mean'", str(run), "--metric", "return_meen"),
        ("episodes is 0; it must be 1 or more", str(run), "--episodes", "0"),
        ("it would count twice", str(run), str(twice), "--in-detail", "0"),
    ):
        assert main(["report", *arguments]) == 2
        shown = capsys.readouterr()
        assert words in shown.err
        assert shown.err.count("\n") == 1
        assert shown.out == ""
    assert not list(tmp_path.rglob("*.html"))


def test_damage_is_told_and_the_rest_is_shown(tmp_path):
    results = write_claims(tmp_path / "results")
    write_result(results, 0)
    write_result(results, 1, curve=[[1, 2]])
    write_result(results, 2).write_text("{")
    write_figures(results)
    path = results / "figure2" / "0.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"policies": [{}]}))
    page, problems = made(results, out=tmp_path)
    assert len(problems) == 3
    assert [len(m["seeds"]) for m in page.data["panels"][0]["methods"]] == [1]
    assert all(text.replace("'", "&#x27;").split(":")[0] in page.text for text in problems)


def test_a_page_that_is_too_large_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "LARGEST", 10_000)
    with pytest.raises(RunError, match=r"--in-detail 0"):
        write_report([write_runs(tmp_path / "runs")], tmp_path / "page.html", in_detail=0)
    assert not (tmp_path / "page.html").exists()


def test_the_command_says_where_the_page_is_and_what_is_not_in_it(tmp_path, capsys, monkeypatch):
    runs = write_runs(tmp_path / "runs")
    assert main(["report", str(runs / "sea"), "--in-detail", "0"]) == 0
    shown = capsys.readouterr()
    assert f"The page is in {runs / 'sea' / 'report.html'}" in shown.out
    assert "Warning: Policies, bonus, certificate and checks" in shown.err
    monkeypatch.chdir(tmp_path)
    assert main(["report", "runs", "--in-detail", "0"]) == 0
    assert (
        "eniac report runs --out report.html --in-detail 0"
        in (tmp_path / "report.html").read_text()
    )
    with pytest.raises(ConfigError, match="in_detail is -1"):
        write_report(["runs"], in_detail=-1)
