"""The command lines of all commands: names, lists, places, help and hints."""

import re
import shlex

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.cli.show import named
from bertscore_beam.options.declare import declared
from bertscore_core.errors import ConfigError, nearest


def options_of(command):
    return named(cli.COMMANDS[command].options)


def read(command, words):
    return cli.COMMANDS[command].read(command, shlex.split(words))


def help_of(command, flag, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([*command.split(), flag])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_shows_one_of_the_names_of_an_option(command, capsys):
    shown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", help_of(command, "--help-all", capsys)))
    synonyms = {other for option in declared(options_of(command)) for other in option.names[1:]}
    assert not shown & {"--" + name.replace("_", "-") for name in synonyms}


@pytest.mark.parametrize(
    ("command", "earlier", "now"),
    [
        ("score", "--input a -o b --group-by x --lang en", "--input a -o b --by x --language en"),
        ("tune", "--judgements j -o b --score-column s --item-column i --system-column m",
         "--judgements j -o b --score-column s --key i --system m"),
        ("compare", "r --systems --system-column m --key k", "r --systems --system m --key k"),
        ("report", "r --system-column m --key k", "r --system m --key k"),
        ("score", "-c h g -r a b -m x --lang en", "--candidates h g --references a b "
         "--model x --language en"),
        ("score", "--cand h --ref a -l 5 -o o", "-c h -r a --num-layers 5 -o o"),
        ("score", "-c h -r a -q", "-c h -r a --quiet"),
        ("score", "-c h -r a -o -", "--output - -i h -r a"),
        ("rescale", "--run r --baseline b --output o", "r --baseline b -o o"),
    ],
)  # fmt: skip
def test_a_synonym_means_the_same(command, earlier, now):
    assert read(command, earlier) == read(command, now)


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ("--by system,lp", ("system", "lp")),
        ("--by system lp", ("system", "lp")),
        ("--by system, lp", ("system", "lp")),
        ("--by system --by lp", ("system", "lp")),
        (r"--by 'a\,b' c", ("a,b", "c")),
        ("--by 'two words'", ("two words",)),
    ],
)
def test_lists_of_names_are_separated_by_blanks_or_commas_and_paths_are_not(words, columns):
    assert read("groups", f"run {words}").by == columns
    assert read("score", "--input 'a,b.parquet' -o out").input == ("a,b.parquet",)


def test_flags_by_any_name_replace_options_of_a_file(tmp_path):
    (tmp_path / "my.yaml").write_text("num-layers: 5\ngroup-by: a\nlang: de\nsplit_rows: 20_000\n")
    flags = "--input in -o out --num-layers 7 --by b --language en"
    options = read("score", f"--config {tmp_path}/my.yaml {flags}")
    assert (options.num_layers, options.group_by, options.language) == (7, ("b",), "en")
    assert options.split_rows == 20_000


RUNS = {"run": "r/now", "against": ("r/before",), "key": ("id", "system"), "by": ("lp",)}


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        ("compare", "r/now r/before --key id system --by lp", RUNS),
        ("compare", "r/now --key id system --by lp --against r/before", RUNS),
        ("compare", "r/now --against r/before --by lp --key id system", RUNS),
        ("compare", "r a --against b", {"run": "r", "against": ("a", "b")}),
        ("compare", "r --against b --key doc/id", {"against": ("b",), "key": ("doc/id",)}),
        ("compare", "--cluster b a b --key id", {"run": "a", "against": ("b",)}),
        ("report", "r/now --against a b", {"run": "r/now", "against": ("a", "b")}),
        ("compare", "b/1 b/2 --cluster b/2 --key id", {"run": "b/1", "against": ("b/2",)}),
        ("groups", "--run b --by lp/x", {"run": "b", "by": ("lp/x",)}),
        ("baseline compare", "--language en de en", {"a": "de", "b": "en"}),
    ],
)
def test_each_word_is_taken_once_wherever_it_stands(command, words, expected):
    options = read(command, words)
    assert {name: getattr(options, name) for name in expected} == expected


def slips(word):
    """Yield a word with a letter left out, doubled or changed, or with two swapped."""
    for place, letter in enumerate(word):
        before, after = word[:place], word[place + 1 :]
        yield from (before + more + after for more in ("", 2 * letter, "q"))
        yield before + after[:1] + letter + after[1:]


@pytest.mark.parametrize("command", [*cli.COMMANDS])
def test_a_slip_in_the_name_of_an_option_is_understood(command):
    names = [one.name for one in declared(options_of(command))]
    for name in (name for name in names if len(name) > 3 and name != "overwrite"):
        others = [other for other in names if other not in name and name not in other]
        for slip in {*slips(name)} - {name}:
            assert nearest(slip, [*others, name]) == name, slip


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("groups", "a --run b", "unknown argument 'a'"),
        ("groups", "--by=x/y", "RUN is missing"),
        ("groups", "--by lp x/y", "RUN is missing: .* As in: bertscore-beam groups scores --by"),
        ("compare", "--run a b", "Another run goes after the flag: --against b"),
        ("score", "--input a -o b -overwrite", "unknown argument '-overwrite'"),
        ("groups", "r -overwrite", "unknown argument '-overwrite'"),
        ("tune", "--judgements j -o b --score-column s --models ''", "'models' cannot be used"),
        ("score", "--input a -o b --by ''", "'by' cannot be used"),
        ("score", "--input a -o b --models x", "Did you mean --model"),
        ("rescale", "r --baseline b -o o --workers 2", "unknown argument '--workers'"),
        ("rescale", "r --baseline b -o o -- --runner=x", "rescale runs no Beam pipeline"),
        ("groups", "run -- --runner=x", "groups runs no Beam pipeline: got '--runner=x'"),
    ],
)
def test_words_that_could_be_misread_are_refused(command, words, message):
    with pytest.raises(ConfigError, match=message):
        read(command, words)


@pytest.mark.parametrize(
    ("command", "flag", "hint"),
    [
        ("score", "--num_layers", "--num-layers?"),
        ("score", "-t", "--candidate-column?"),
        ("idf", "-r", "--reference-column?"),
        ("tune", "--cand", "--candidate-column?"),
        ("score", "--model-type", "--model?"),
        ("score", "--gpus", "--workers?"),
        ("score", "-b", "--max-batch-tokens?"),
        ("score", "--batch_size", "--max-batch-tokens?"),
        ("score", "-sl", "`bertscore-beam score --output -` prints"),
        ("score", "-l5", "apart: -l 5."),
        ("score", "-s9", "unknown argument '-s9'"),
        ("score", "-qq", "apart: -q."),
        ("score", "--seg_level", "`bertscore-beam score --output -` prints"),
        ("score", "--segments", "`bertscore-beam score --output -` prints"),
        ("score", "--paired-bs", "`bertscore-beam compare`"),
        ("compare", "--alpha", "--confidence?"),
        ("report", "scores/before", "--against scores/before"),
    ],
)
def test_words_of_other_programs_lead_to_ours(command, flag, hint):
    first = "run " if command in ("compare", "report") else ""
    with pytest.raises(ConfigError, match=re.escape(hint)) as raised:
        read(command, f"{first}{flag} x" if flag.startswith("-") else f"{first}{flag}")
    has_input = command in ("score", "idf")
    assert ("paste HYP.txt" in str(raised.value)) == (has_input and "-column" in hint)


def test_an_empty_word_is_an_unknown_argument():
    with pytest.raises(ConfigError, match="unknown argument ''"):
        read("score", "'' -c a -r b")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_has_an_example_that_works_and_the_daily_options(command, capsys):
    options, short = options_of(command), help_of(command, "--help", capsys)
    example = short.splitlines()[3].strip()
    program, *words = shlex.split(example, comments=True)
    words = words[: words.index("&&")] if "&&" in words else words
    assert (program, words[: len(command.split())]) == ("bertscore-beam", command.split())
    cli.COMMANDS[command].read(command, words[len(command.split()) :])
    names = {option.name: option for option in declared(options)}
    daily = [name for names_there in options.daily.values() for name in names_there.split()]
    assert len(daily) == len(set(daily))
    assert len(short.splitlines()) <= 90
    needed = {name for name, option in names.items() if option.is_needed}
    assert needed <= set(daily) <= set(names)
    for shown in (short, full := help_of(command, "--help-all", capsys)):
        assert "--json" in shown
        assert "--quiet" in shown
        assert "--help-all" in shown
        assert all(names[name].word in shown for name in daily)
    switches = {f"--no-{name.replace('_', '-')}" for name, o in names.items() if o.default is True}
    flags = {option.word for option in names.values() if option.default is not True}
    assert {*flags, *switches} - set(re.findall(r"--[a-z][\w-]*|\b[A-Z]+\b", full)) <= {
        "--beam",
        "--beam-scoring",
    }


def test_options_of_two_texts_are_those_of_score():
    options = read("explain", "-c a -r b --model m --rescale --lang en")
    assert (options.model, options.rescale, options.language) == ("m", True, "en")
    assert options.idf == read("explain", "run --worst 1").idf == "none"
