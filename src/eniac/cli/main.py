"""The command `eniac`: what can be asked for.

Each command is imported when it is called, and nothing heavy here, so that help comes at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import eniac
from eniac.errors import ConfigError, EniacError, name_shown, shown, suggestion
from eniac.lazy import resolve

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("commands:train", "Train an algorithm in an environment"),
    "resume": ("commands:resume", "Continue a run that was interrupted, or make it longer"),
    "sweep": ("sweep:sweep", "Train many: algorithms, environments, settings and seeds"),
    "evaluate": ("reports:evaluate", "Play episodes with a run's policies and report returns"),
    "play": ("reports:play", "Draw an episode of a run's policy as a GIF"),
    "plot": ("curves:plot", "Draw learning curves, visited states or the bonus of runs"),
    "compare": ("curves:compare", "Say which method is better by its runs, and how sure that is"),
    "report": ("curves:write_report", "Write a page about runs or results: one HTML file, offline"),
    "cover": ("reports:cover", "Show the policies of a run's cover: weight, return, coverage"),
    "audit-bonus": ("reports:audit_bonus", "Check that a run's bonus knows what was visited"),
    "diagnose": ("reports:diagnose", "Say what is the matter with a run, and what to try"),
    "list": ("commands:show_list", "Show the environments, the algorithms or your runs"),
    "export": ("reports:export", "Write a run's policies: safetensors, ONNX, or a NumPy file"),
    "reproduce": (
        "reproduce:reproduce",
        "Repeat the experiments of the paper, and judge its claims",
    ),
    "guarantee": ("commands:guarantee", "Print what a theorem of the paper asks and promises"),
    "certify": ("reports:certify", "Measure the terms of the proof on a run, beside their bounds"),
}
"""For each command where it is, a function of the arguments after it, and what it does."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`, by default that of the process; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    code = _exit_code(arguments)
    if argv is None and code > 128:
        # What was interrupted, an epoch or the compiler, may still compute in a thread; leave
        # without waiting for it.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    return code


def _exit_code(arguments: list[str]) -> int:
    try:
        return _dispatch(arguments)
    except EniacError as error:
        complain(str(error))
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt as error:
        complain(str(error) or "Aborted.")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone, `head` for instance; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def check_words(arguments: list[str]) -> None:
    """Refuses what no command can mean: empty values, control characters, names without end."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        name, _, value = word.partition("=") if word.startswith("--") else (before, "", word)
        if name.startswith("--") and word in ("", f"{name}="):
            raise ConfigError(f"{name_shown(name)} is empty; give it a value, or leave it out.")
        plain = word.isprintable() or not any(
            ord(x) < 32 or 0xD800 <= ord(x) < 0xE000 for x in word
        )
        if not plain or len(word) > LONGEST_WORD:
            raise ConfigError(
                f"{shown(word)} is no argument: it must have {LONGEST_WORD} characters or less, "
                "none of them a control character."
            )
        if max(len(os.fsencode(part)) for part in value.split("/")) > 255:
            raise ConfigError(f"{shown(word)} is no argument: no name or number is that long.")


LONGEST_WORD = 4096
"""Characters of the longest argument; a path has no more."""


def _dispatch(arguments: list[str]) -> int:
    check_words(arguments)
    if not arguments:
        welcome()
        return 0
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help", "help"):
        overview()
        return 0
    if name in ("-V", "--version", "version"):
        print(f"eniac {eniac.__version__}")
        return 0
    if name not in COMMANDS:
        raise ConfigError(
            f"{name!r} is not a command.{suggestion(name, COMMANDS)} "
            f"Commands: {', '.join(COMMANDS)}. `eniac --help` says what they do."
        )
    return resolve(f"eniac.cli.{COMMANDS[name][0]}")(rest)


def welcome() -> None:
    """What a newcomer sees."""
    name = bold(f"eniac {eniac.__version__}")
    print(f"{name}: exploration in reinforcement learning that you can trust.\n")
    print("To begin with:")
    for command, text in (
        ("eniac list envs", "what can be explored; any gymnasium id works too"),
        ("eniac list algorithms", "what can explore it"),
        ("eniac train ppo", "train an agent; Ctrl-C stops it, and saves"),
        ("eniac --help", "all commands"),
    ):
        print(f"  {bold(command.ljust(22))}  {text}")


def overview() -> None:
    """All commands, with what they do."""
    print("usage: eniac COMMAND ...\n")
    for name, (_, text) in COMMANDS.items():
        print(f"  {bold(name.ljust(11))}  {text}")
    print(
        "\nFor example:\n"
        "  eniac train eniac --env DeepSea-10    train ENIAC in one of our environments\n"
        "  eniac train eniac --env Acrobot-v1    or in one of gymnasium's\n"
        "  eniac list runs                       what there is already\n"
        "\n`eniac COMMAND --help` explains a command and gives examples; `eniac --version` prints "
        "the version."
    )


def complain(text: str) -> None:
    """An error of the user's, on standard error."""
    print(f"{bold('Error:', sys.stderr, '1;31')} {text}", file=sys.stderr)


def bold(text: str, file: TextIO | None = None, style: str = "1;36") -> str:
    """`text`, so that it stands out where `file`, by default standard output, shows colours."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if plain or not (file or sys.stdout).isatty():
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


if __name__ == "__main__":
    sys.exit(main())
