"""`epoxy`: the parser, and the one place where errors become one sentence and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import EpoxyError
from . import commands
from .output import complain, speak_aside


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 2 for an error of the input, 130 for Ctrl-C."""
    given = sys.argv[1:] if arguments is None else arguments
    options = make_parser(given).parse_args(given)
    speak_aside(options.json == "-")
    try:
        options.run(options)
    except EpoxyError as error:
        complain(f"epoxy {options.command}: {error}")
        return 2
    except KeyboardInterrupt:
        complain(
            f"epoxy {options.command}: interrupted; nothing was left half written, and "
            "votes and vectors that were finished are kept"
        )
        return 130
    except BrokenPipeError:  # the reader of a pipe has gone: not an error of ours
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        complain(
            f"epoxy {options.command}: {error.filename} cannot be used ({error.strerror}); "
            "name another place, or make it writable"
        )
        return 2
    return 0


def make_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser with every command; given the words to parse, whole only those that these name."""
    parser = argparse.ArgumentParser(
        prog="epoxy",
        description="Label rows with functions you write: each function's votes are extended to rows "
        "that are near in embedding space, and combined into probabilities. Nothing is trained.",
        epilog="Start with: epoxy demo. Then: epoxy new spam/ --rows comments.csv --classes ham,spam",
    )
    parser.add_argument("--version", action="version", version=f"epoxy {__version__}")
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands.ALL:
        command.add(parsers, whole=words is None or command.name in words)
    return parser
